"""What the monomials of an expression are made of: named sizes and operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression_text import name_text, operation_text
from onnx_notebook_profiler.symbolic.operations import Op

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["Atom", "Operation", "Symbol"]

MAX_DEPTH = 48
MAX_SIZE = 50_000


class Symbol:
    """A size with a name; the name may be any text."""

    __slots__ = ("_hash", "key", "name", "text")
    op: Op | None = None
    args: tuple[Expr, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = self.key = name_text(name)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbol) and self.name == other.name)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Symbol, (self.name,)

    def __repr__(self) -> str:
        return f"Symbol({self.name!r})"


class Operation:
    """An operation on expressions that is no polynomial, such as `(N+1)//2`.

    `key` is its text as a factor (in parentheses), by which factors are sorted and compared: the
    text of an expression in normal form is unique.
    """

    __slots__ = ("_hash", "args", "depth", "key", "op", "size", "text")

    def __init__(self, op: Op, args: tuple[Expr, ...]) -> None:
        measures = [arg.measure for arg in args]
        self.op: Op | None = op
        self.args = args
        self.depth = 1 + max(depth for depth, _ in measures)
        self.size = 1 + sum(size for _, size in measures)
        if self.depth > MAX_DEPTH or self.size > MAX_SIZE:
            raise ExpressionError(
                f"the expression is too large: {self.size} parts, {self.depth} levels deep "
                f"(at most {MAX_SIZE} and {MAX_DEPTH})"
            )
        self.text = operation_text(op, args)
        self.key = self.text if op is Op.BROADCAST else f"({self.text})"
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Operation) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Operation, (self.op, self.args)

    def __repr__(self) -> str:
        return f"Operation({self.text!r})"


Atom: TypeAlias = Symbol | Operation
