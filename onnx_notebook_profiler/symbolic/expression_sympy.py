"""Turns what the shape engine computes with, sympy objects, into expressions in normal form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

import sympy

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.ratio import EXPRESSIONS, Ratio

__all__ = ["from_sympy"]

_MAX_DEPTH = 64


def from_sympy(expr: sympy.Basic, rename: Callable[[str], str] = str) -> Expr:
    """Return the integer expression that a sympy expression stands for.

    `rename` maps a symbol's name to the name of the size. Quotients are kept exact until they are
    rounded: floor(x/2 - 1/2) is (x-1)//2; one that is never rounded becomes an exact division.
    Raises ExpressionError for anything that is no integer expression, such as a root or a float.
    """
    return EXPRESSIONS.integer(_Converter(rename).convert(expr, 0))


class _Converter:
    """Walks a sympy tree; equal subtrees are converted once."""

    def __init__(self, rename: Callable[[str], str]) -> None:
        self._rename = rename
        self._known: dict[sympy.Basic, Ratio[Expr]] = {}

    def convert(self, expr: sympy.Basic, depth: int) -> Ratio[Expr]:
        if depth > _MAX_DEPTH:
            raise ExpressionError(f"a sympy expression is nested over {_MAX_DEPTH} levels deep")
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = self._convert(expr, depth + 1)
        return found

    def _convert(self, expr: sympy.Basic, depth: int) -> Ratio[Expr]:
        if isinstance(expr, sympy.Symbol):
            return Ratio(Expr.symbol(self._rename(expr.name)))
        if isinstance(expr, sympy.Rational):
            num, den = Expr.constant(int(expr.p)), int(expr.q)
            return Ratio(num, None if den == 1 else Expr.constant(den))
        if isinstance(expr, sympy.Pow):
            return self._power(expr, depth)
        for kind, build in _BUILDERS.items():
            if isinstance(expr, kind):
                return build([self.convert(arg, depth) for arg in expr.args])
        raise ExpressionError(f"{type(expr).__name__} is no integer operation: {str(expr)[:200]}")

    def _power(self, expr: sympy.Pow, depth: int) -> Ratio[Expr]:
        base, exponent = expr.args
        if not isinstance(exponent, sympy.Integer):
            raise ExpressionError(f"the power is no integer: {str(expr)[:200]}")
        value = self.convert(base, depth)
        if exponent < 0:
            value = EXPRESSIONS.divide(EXPRESSIONS.constant(1), value)
        return EXPRESSIONS.power(value, abs(int(exponent)))


def _product(args: Sequence[Ratio[Expr]]) -> Ratio[Expr]:
    value = args[0]
    for arg in args[1:]:
        value = EXPRESSIONS.multiply(value, arg)
    return value


def _extremum(op: Op, args: Sequence[Ratio[Expr]]) -> Ratio[Expr]:
    """Return the maximum or minimum of fractions whose denominators are positive numbers."""
    common = 1
    for arg in args:
        if arg.den is not None:
            if not arg.den.is_constant or arg.den.value <= 0:
                raise ExpressionError(f"a quotient by {arg.den} inside a maximum or minimum")
            common = lcm(common, arg.den.value)
    scaled = [arg.num * (common // (1 if arg.den is None else arg.den.value)) for arg in args]
    value = EXPRESSIONS.base.operate(op, scaled)
    return Ratio(value) if common == 1 else Ratio(value, Expr.constant(common))


_BUILDERS: dict[type[sympy.Basic], Callable[[list[Ratio[Expr]]], Ratio[Expr]]] = {
    sympy.Add: EXPRESSIONS.total,
    sympy.Mul: _product,
    sympy.Mod: lambda args: EXPRESSIONS.floor_mod(*args),
    sympy.floor: lambda args: Ratio(EXPRESSIONS.floor(args[0])),
    sympy.ceiling: lambda args: Ratio(EXPRESSIONS.ceiling(args[0])),
    sympy.Max: lambda args: _extremum(Op.MAX, args),
    sympy.Min: lambda args: _extremum(Op.MIN, args),
    sympy.Abs: lambda args: _extremum(Op.MAX, [args[0], EXPRESSIONS.negate(args[0])]),
}
