"""Sympy objects, as the shape engine makes them, become expressions of ours."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression_sympy import from_sympy

X, Y = sympy.symbols("x y", integer=True, positive=True)
HALF = sympy.Rational(1, 2)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (sympy.Integer(5), "5"),
        (X + 3 * Y, "3*y+x"),
        (X**2 * Y, "x*x*y"),
        (sympy.floor(X / 2 - HALF), "(1+x)//2-1"),
        (sympy.floor(X / 2 - HALF) + 1, "(1+x)//2"),
        (sympy.floor((X + 2) / Y), "(2+x)//y"),
        (X // 4, "x//4"),
        (X / 4, "x/:4"),
        (X / 2 + Y / 2, "(x+y)/:2"),
        ((X**2 + X) / (4 * Y), "(x+x*x)/:(4*y)"),
        (sympy.ceiling(X / 3), "(2+x)//3"),
        (sympy.Mod(X, 3), "x%3"),
        (sympy.Max(X, Y), "x^y"),
        (sympy.Min(X, Y + 1), "x&1+y"),
        (sympy.Max(X, Y / 2), "(2*x^y)/:2"),
        (sympy.Abs(X - Y), "-x+y^x-y"),
    ],
)
def test_from_sympy(expr: sympy.Basic, text: str) -> None:
    assert str(from_sympy(expr)) == text


def test_rename() -> None:
    assert str(from_sympy(X + Y, {"x": "batch", "y": "batch size"}.__getitem__)) == (
        '"batch size"+batch'
    )


@pytest.mark.parametrize(
    "expr",
    [
        sympy.sqrt(X),
        2**X,
        sympy.Float(1.5) * X,
        sympy.Piecewise((X, X > 3), (Y, True)),
        sympy.zoo,
        sympy.nan,
        sympy.oo,
        sympy.sign(sympy.Symbol("a") - Y),
        sympy.Max(X, 1 / Y),
        sympy.pi,
        X < Y,
    ],
)
def test_anything_else_is_refused(expr: sympy.Basic) -> None:
    with pytest.raises(ExpressionError):
        from_sympy(expr)


def _trees() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from([X, Y]) | st.integers(-6, 6).map(sympy.Integer)

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        divisor = st.sampled_from([sympy.Integer(k) for k in (-3, 2, 3, 4, 6)] + [X, Y + 1])
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
            st.tuples(inner, inner, divisor).map(lambda p: sympy.floor(p[0] + p[1] / p[2])),
            st.tuples(inner, divisor).map(lambda p: sympy.ceiling(p[0] / p[1])),
            st.tuples(inner, st.sampled_from([2, 3, 5])).map(lambda p: sympy.Mod(p[0], p[1])),
            st.tuples(inner, inner).map(lambda p: sympy.Max(p[0], p[1])),
        )

    return st.recursive(leaves, grow, max_leaves=5)


@settings(max_examples=150, deadline=None)
@given(tree=_trees(), x=st.integers(1, 9), y=st.integers(1, 9))
def test_values_are_those_of_sympy(tree: Any, x: int, y: int) -> None:
    assert from_sympy(tree).evaluate({"x": x, "y": y}) == int(tree.subs({X: x, Y: y}))
