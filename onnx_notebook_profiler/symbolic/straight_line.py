"""Few expressions as one Python function, for those that are evaluated again and again.

The function's text is made of numbers, operators and numbered variables alone: no name of a model gets into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_notebook_profiler.errors import ExpressionError, SizeError
from onnx_notebook_profiler.symbolic.atoms import Atom, Symbol
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op, integer_value
from onnx_notebook_profiler.symbolic.polynomial import Monomial

__all__ = ["compile_greatest"]


def compile_greatest(
    rivals: Sequence[Expr], conditions: Sequence[Expr]
) -> Callable[[Mapping[str, int]], int]:
    """A function from sizes to the greatest of *rivals*, exact, in Python ints of any magnitude.

    Args:
        rivals: One expression or more.
        conditions: Expressions that must have a value at the sizes.

    Raises:
        SizeError: When called, where an operation has no value, or a size is missing.
    """
    writer = _Writer()
    for condition in conditions:
        writer.sum(condition)
    values = [writer.sum(rival) for rival in rivals]
    greatest = f"max({', '.join(values)})" if len(values) > 1 else values[0]
    text = "\n    ".join(["def greatest(sizes):", *writer.lines, f"return {greatest}"])
    scope: dict[str, Any] = {f"name{number}": name for name, number in writer.names.items()}
    scope |= {f"op_{op.name}": op for op in Op} | {"integer_value": integer_value}
    exec(compile(text, "<expressions>", "exec"), scope)  # noqa: S102 - see the top of this file
    function = scope["greatest"]

    def checked(sizes: Mapping[str, int]) -> int:
        try:
            return function(sizes)  # type: ignore[no-any-return]
        except ExpressionError as error:
            raise SizeError(str(error)) from None
        except KeyError as error:
            raise SizeError(f"the size of {error.args[0]!r} is missing") from None

    return checked


class _Writer:
    """The lines that compute what was asked for; each atom and each product is computed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, int] = {}
        self._known: dict[Atom | Monomial, str] = {}

    def sum(self, expr: Expr) -> str:
        """The text of an expression over variables that the lines so far have set."""
        parts = [
            f"{factor}*{self._product(monomial)}" if monomial else str(factor)
            for monomial, factor in expr.terms.items()
        ]
        return "(" + " + ".join(parts or ["0"]) + ")"

    def _product(self, monomial: Monomial) -> str:
        if monomial not in self._known:
            factors = [
                self._atom(atom) if power == 1 else f"{self._atom(atom)}**{power}"
                for atom, power in monomial
            ]
            text = "*".join(factors)
            self._known[monomial] = text if len(monomial) == 1 else self._set(text)
        return self._known[monomial]

    def _atom(self, atom: Atom) -> str:
        if atom not in self._known:
            self._known[atom] = self._set(self._operation(atom))
        return self._known[atom]

    def _operation(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return f"sizes[name{self.names.setdefault(atom.name, len(self.names))}]"
        assert atom.op is not None
        args = [self.sum(arg) for arg in atom.args]
        if atom.op is Op.FLOOR and atom.args[1].is_constant:
            return "//".join(args)
        if atom.op in (Op.MAX, Op.MIN):
            return f"{'max' if atom.op is Op.MAX else 'min'}({', '.join(args)})"
        return f"integer_value(op_{atom.op.name}, ({', '.join(args)},))"

    def _set(self, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name
