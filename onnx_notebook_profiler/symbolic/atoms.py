"""What the monomials of an expression are made of: named sizes and operations."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression_text import name_text, operation_text
from onnx_notebook_profiler.symbolic.operations import Op

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["Abbreviation", "Atom", "Operation", "Symbol", "is_large"]

MAX_DEPTH = 48
MAX_SIZE = 50_000
_MOST_LEVELS = 16
_MOST_PARTS = 500


def is_large(size: Expr) -> bool:
    """Whether an expression is too large to become a part of others: it gets a name there."""
    depth, parts = size.measure
    return depth > _MOST_LEVELS or parts > _MOST_PARTS


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


class Abbreviation(Operation):
    """A name for an expression that is too large to be handed on; it has the value of that expression.

    Seen as an operation it is the maximum of this one expression. The name ends in a digest of the expression:
    two with the same name are the same.
    """

    __slots__ = ("definition", "level", "name", "stem")

    def __init__(self, stem: str, definition: Expr) -> None:
        parts = (
            f"{factor}:{' '.join(f'{atom.key}:{power}' for atom, power in monomial)}"
            for monomial, factor in definition.terms.items()
        )
        digest = hashlib.blake2s("\n".join(sorted(parts)).encode("utf-8", "backslashreplace"))
        self.stem = stem
        self.name = f"{stem}.{digest.hexdigest()[:12]}"
        self.definition = definition
        self.op = Op.MAX
        self.args = (definition,)
        self.depth, self.size = 0, 1
        self.level = 1 + _level(definition)
        """Names within names."""
        self.text = self.key = name_text(self.name)
        self._hash = hash(self.key)

    def remade(self, definition: Expr) -> Abbreviation:
        """The same stem for a changed expression."""
        return self if definition == self.definition else Abbreviation(self.stem, definition)

    def __reduce__(self) -> tuple[object, ...]:
        return Abbreviation, (self.stem, self.definition)

    def __repr__(self) -> str:
        return f"Abbreviation({self.name!r})"


def _level(size: Expr) -> int:
    """How many names within names an expression holds."""
    atoms = [atom for monomial in size.terms for atom, _ in monomial]
    return max(
        (
            atom.level if isinstance(atom, Abbreviation) else max(map(_level, atom.args), default=0)
            for atom in atoms
        ),
        default=0,
    )


Atom: TypeAlias = Symbol | Operation
