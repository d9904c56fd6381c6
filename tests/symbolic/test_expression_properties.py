"""Random expressions against a small interpreter that simplifies nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_notebook_profiler.errors import ExpressionError, SizeError
from onnx_notebook_profiler.symbolic import expression as ex
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_parser import (
    evaluate_expression,
    parse_expression,
)

Tree: TypeAlias = "int | str | tuple[Any, ...]"
NAMES = ("x", "y", "z")
CALLS = {"max": ex.maximum, "min": ex.minimum, "broadcast": ex.broadcast}


class Undefined(Exception):  # noqa: N818 - not an error of anything under test
    """The tree has no value at these sizes."""


def stretch(a: int, b: int) -> int:
    if 1 not in (a, b) and a != b:
        raise Undefined
    return b if a == 1 else a


def floor(a: int, b: int) -> int:
    if b == 0:
        raise Undefined
    return a // b


def exact(a: int, b: int) -> int:
    if floor(a, b) * b != a:
        raise Undefined
    return a // b


def rest(a: int, b: int) -> int:
    """The rest as in C: a - b * trunc(a / b)."""
    quotient = floor(a, b)
    if quotient < 0 and quotient * b != a:
        quotient += 1
    return a - b * quotient


MEANING: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "max": max,
    "min": min,
    "broadcast": stretch,
    "//": floor,
    "/:": exact,
    "%": rest,
}


def interpret(tree: Tree, sizes: Mapping[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return sizes[tree]
    op, left, right = tree
    return MEANING[op](interpret(left, sizes), interpret(right, sizes))


def built(tree: Tree) -> Expr:
    if isinstance(tree, int):
        return Expr.constant(tree)
    if isinstance(tree, str):
        return Expr.symbol(tree)
    op, left, right = tree[0], built(tree[1]), built(tree[2])
    if op in CALLS:
        return CALLS[op](left, right)
    if op == "/:":
        return ex.exact_div(left, right)
    operators = {
        "+": Expr.__add__,
        "-": Expr.__sub__,
        "*": Expr.__mul__,
        "//": Expr.__floordiv__,
        "%": Expr.__mod__,
    }
    return operators[op](left, right)


def written(tree: Tree) -> str:
    if not isinstance(tree, tuple):
        return f"({tree})"
    op, left, right = tree[0], written(tree[1]), written(tree[2])
    return f"{op}({left},{right})" if op in CALLS else f"({left}{op}{right})"


def trees(divisors: st.SearchStrategy[Tree] | None = None) -> st.SearchStrategy[Tree]:
    """Trees over x, y, z; with `divisors` the right sides of divisions come from there."""
    leaves: st.SearchStrategy[Tree] = st.sampled_from(NAMES) | st.integers(-7, 9)

    def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        plain = st.sampled_from(["+", "-", "*", "+", "*", "max", "min", "broadcast"])
        division = st.sampled_from(["//", "//", "//", "/:", "%"])
        small = st.integers(-4, 6).filter(bool)
        right = divisors if divisors is not None else inner | small
        return st.tuples(plain, inner, inner) | st.tuples(division, inner, right)

    return st.recursive(leaves, grow, max_leaves=10)


def check_sound(tree: Tree, grid: list[dict[str, int]]) -> None:
    """Wherever the tree has a value, so has its normal form, and the same one."""
    values: list[int | None] = []
    for sizes in grid:
        try:
            values.append(interpret(tree, sizes))
        except Undefined:
            values.append(None)
    try:
        expr = built(tree)
    except ExpressionError:
        assert values == [None] * len(grid)
        return
    for sizes, value in zip(grid, values, strict=True):
        if value is not None:
            assert expr.evaluate(sizes) == value, (str(expr), sizes)


NATURAL = [dict(zip(NAMES, p, strict=True)) for p in itertools.product((0, 1, 2, 3, 5), repeat=3)]
SIGNED = [dict(zip(NAMES, p, strict=True)) for p in itertools.product((-3, -2, 0, 1, 4), repeat=3)]


@settings(max_examples=400, deadline=None)
@given(tree=trees())
def test_simplification_is_sound_at_all_sizes(tree: Tree) -> None:
    check_sound(tree, NATURAL)


@settings(max_examples=300, deadline=None)
@given(tree=trees(divisors=st.integers(-5, 6).filter(bool)))
def test_simplification_with_numbers_as_divisors_is_sound_for_any_integers(tree: Tree) -> None:
    check_sound(tree, SIGNED)


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(
        st.tuples(
            st.integers(-3, 3), st.sampled_from(NAMES), st.integers(-4, 4), st.sampled_from([2, 3])
        ),
        min_size=2,
        max_size=6,
    )
)
def test_sums_of_floor_divisions_are_sound(parts: list[tuple[int, str, int, int]]) -> None:
    tree: Tree = 0
    for factor, name, shift, divisor in parts:
        tree = ("+", tree, ("*", factor, ("//", ("+", name, shift), divisor)))
        tree = ("+", tree, ("*", shift, name))
    check_sound(tree, SIGNED)


@settings(max_examples=300, deadline=None)
@given(tree=trees())
def test_text_reads_back_to_the_same_expression(tree: Tree) -> None:
    try:
        expr = built(tree)
    except ExpressionError:
        return
    again = parse_expression(str(expr))
    assert again == expr
    assert hash(again) == hash(expr)
    assert str(again) == str(expr)
    assert parse_expression(written(tree)) == expr


@settings(max_examples=200, deadline=None)
@given(name=st.text(max_size=12))
def test_any_name_reads_back(name: str) -> None:
    expr = 3 * Expr.symbol(name) + 1
    assert parse_expression(str(expr)) == expr
    assert expr.symbols == {name}


@settings(max_examples=300, deadline=None)
@given(tree=trees(), sizes=st.sampled_from(SIGNED))
def test_texts_evaluate_as_written(tree: Tree, sizes: dict[str, int]) -> None:
    try:
        value = interpret(tree, sizes)
    except Undefined:
        with pytest.raises(ExpressionError):
            evaluate_expression(written(tree), sizes)
    else:
        assert evaluate_expression(written(tree), sizes) == value


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet='xy01 +-*/:%^&(),."\\maxflor$é\n', max_size=60))
def test_random_text_gives_an_expression_or_an_error_of_ours(text: str) -> None:
    try:
        expr = parse_expression(text)
    except ExpressionError:
        return
    assert parse_expression(str(expr)) == expr


@settings(max_examples=200, deadline=None)
@given(tree=trees(), other=trees())
def test_substitution_is_evaluation_in_two_steps(tree: Tree, other: Tree) -> None:
    try:
        expr, inner = built(tree), built(other)
        replaced = expr.substitute({"x": inner})
    except ExpressionError:
        return
    for sizes in NATURAL[::7]:
        try:
            inside = inner.evaluate(sizes)
            value = expr.evaluate({**sizes, "x": inside})
        except ExpressionError:
            continue
        if inside >= 0:  # a size
            assert replaced.evaluate(sizes) == value


@settings(max_examples=200, deadline=None)
@given(
    forest=st.lists(trees(), min_size=1, max_size=6),
    xs=st.lists(st.integers(0, 12) | st.integers(0, 2**33), min_size=1, max_size=5),
    y=st.integers(0, 12) | st.integers(0, 2**31),
)
def test_vectorised_equals_scalar_equals_interpreted(
    forest: list[Tree], xs: list[int], y: int
) -> None:
    try:
        exprs = [built(tree) for tree in forest]
    except ExpressionError:
        return
    forms = CompiledForms(exprs, NAMES)
    rows: list[list[int]] = []
    try:
        for x in xs:
            sizes = {"x": x, "y": y, "z": 3}
            rows.append([expr.evaluate(sizes) for expr in exprs])
    except ExpressionError:
        with pytest.raises(SizeError):
            forms({"x": np.array(xs), "y": y, "z": 3})
        return
    if any(not -(2**63) <= value < 2**63 for row in rows for value in row):
        with pytest.raises(SizeError, match="leaves 64-bit integers"):
            forms({"x": np.array(xs), "y": y, "z": 3})
        return
    result = forms({"x": np.array(xs), "y": np.array([y]), "z": 3})
    assert result.dtype == np.int64
    assert result.tolist() == rows
    assert [forms({"x": x, "y": y, "z": 3}).tolist() for x in xs] == rows
