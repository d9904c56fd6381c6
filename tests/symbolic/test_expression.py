"""Facts about expressions, each from the specification or from a hand calculation."""

from __future__ import annotations

import copy
import pickle

import pytest

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression import (
    Expr,
    as_expr,
    broadcast,
    ceil_div,
    exact_div,
    floor_mod,
    floordiv,
    maximum,
    minimum,
)

x, y, z, n = (Expr.symbol(name) for name in "xyzn")


def test_constants_and_symbols() -> None:
    assert Expr.constant(7).value == 7
    assert Expr.constant(0).is_constant
    assert Expr.constant(7) == 7
    assert hash(Expr.constant(7)) == hash(7)
    assert x.symbols == {"x"}
    assert not x.is_constant
    assert (x // (y + 1) + maximum(z, 2)).symbols == {"x", "y", "z"}
    with pytest.raises(ExpressionError, match="not a number"):
        _ = (x + 1).value


def test_terms_are_read_only_and_the_expression_immutable() -> None:
    with pytest.raises(TypeError):
        (x + 1).terms[()] = 3  # type: ignore[index]
    with pytest.raises(AttributeError, match="immutable"):
        x.flags = 3


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (16 * n + 64, "16*n+64"),
        (64 + n * 16 - 64, "16*n"),
        (1 - x, "-x+1"),
        (y - x, "-x+y"),
        (x - y, "x-y"),
        (4 * x * y, "4*x*y"),
        (x * x, "x*x"),
        (x**3 - 1, "x*x*x-1"),
        (-(x // 2), "-(x//2)"),
        (2 * (x // 2), "2*(x//2)"),
        (x // 2 + 1, "x//2+1"),
        ((-x) // 2, "(-x)//2"),
        ((1 + y + z) // 2, "(1+y+z)//2"),
        (3 * x // 2, "3*x//2"),
        (x // (2 * y), "x//(2*y)"),
        (4 * maximum(x, y), "4*(x^y)"),
        (maximum(x + 1, y), "1+x^y"),
        (maximum(x, y + 1), "x^1+y"),
        (minimum(maximum(x, y), z), "(x^y)&z"),
        (maximum(minimum(x, y), z), "x&y^z"),
        (exact_div(x, 4), "x/:4"),
        (x % 4 + 1, "x%4+1"),
        (broadcast(x, y) * 4, "4*broadcast(x,y)"),
        (Expr.symbol("batch size") * 2, '2*"batch size"'),
        (Expr.symbol("p2o.Dim.0") * 2, "2*p2o.Dim.0"),
        (Expr.constant(0), "0"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((2 * x + 3) // 2, "x+1"),
        ((4 * x + 2) // 6, "(1+2*x)//3"),
        ((x + 5) // 2, "(1+x)//2+2"),
        ((x - 1) // 2 + 1, "(1+x)//2"),
        (x // y // z, "x//(y*z)"),
        ((x // 2 + 1) // 3, "(2+x)//6"),
        (x // -2, "(-x)//2"),
        (x * y // y, "x"),
        ((x * y + y) // (2 * y), "(1+x)//2"),
        ((x * y + x + 1) // (y + 1), "1//(1+y)+x"),
        (x // 2 + (x + 1) // 2, "x"),
        (x // 3 + (x + 1) // 3 + (x + 2) // 3, "x"),
        (n * (x // 2) + n * ((x + 1) // 2), "n*x"),
        (x - x // 2, "(1+x)//2"),
        (2 * exact_div(x, 2), "x"),
        (2 * exact_div(x, 4), "x/:2"),
        (n * exact_div(x, n), "x"),
        (exact_div(exact_div(x, 2), 3), "x/:6"),
        (exact_div(2 * x + y, 2), "x+y/:2"),
        (exact_div(x, 2) // 3, "x//6"),
        (4 * x % 2, "0"),
        (4 * x % 6, "2*(2*x%3)"),
        (x % y % y, "x%y"),
        (x % -3, "x%3"),
        (maximum(x, x + 2, 3, 5), "5^2+x"),
        (minimum(x, x + 2), "x"),
        (maximum(maximum(x, y), z), "x^y^z"),
        (broadcast(x, 1, x), "x"),
        (broadcast(x, 7), "7"),
        (broadcast(broadcast(x, y), z), "broadcast(x,y,z)"),
        (ceil_div(x, 2), "(1+x)//2"),
        (ceil_div(x, -2), "(1-x)//2"),
        (floor_mod(x, 3), "x%3"),
        (floor_mod(x - 1, 3), "-3*((2+x)//3)+x+2"),
    ],
)
def test_simplified(expr: Expr, text: str) -> None:
    assert str(expr) == text


def test_nested_floor_division_by_what_may_be_negative_stays() -> None:
    # floor(floor(1/2)/-1) is 0, but floor(1/-2) is -1
    expr = x // 2 // (y - z)
    assert str(expr) == "(x//2)//(y-z)"
    assert expr.evaluate({"x": 1, "y": 0, "z": 1}) == 0


def test_evaluate() -> None:
    assert (16 * n + 64).evaluate({"n": 8}) == 192
    assert (2 * (x // 2)).evaluate({"x": 3}) == 2
    assert floordiv(x - y, 2).evaluate({"x": 0, "y": 3}) == -2
    assert ((x - y) % 2).evaluate({"x": 0, "y": 3}) == -1
    assert (x**8).evaluate({"x": 10**6}) == 10**48
    assert broadcast(x, y).evaluate({"x": 1, "y": 5}) == 5


@pytest.mark.parametrize(
    ("expr", "sizes", "message"),
    [
        (x + y, {"x": 1}, "no value for the size 'y'"),
        (x // y, {"x": 1, "y": 0}, "x//y: division by zero"),
        (x % y, {"x": 1, "y": 0}, "x%y: division by zero"),
        (exact_div(x, 2), {"x": 3}, "x/:2: 3/:2 is not exact"),
        (broadcast(x, y), {"x": 2, "y": 3}, "sizes 2 and 3 do not broadcast"),
        ((x // y + 1) % 3, {"x": 1}, "no value for the size 'y'"),
    ],
)
def test_evaluate_errors(expr: Expr, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        expr.evaluate(sizes)


@pytest.mark.parametrize(
    "build",
    [
        lambda: x // 0,
        lambda: x % 0,
        lambda: exact_div(5, 2),
        lambda: exact_div(2 * x + 1, 4),
        lambda: broadcast(2, 3, x),
        lambda: x**-1,
        lambda: x**10_000,
        maximum,
        broadcast,
    ],
)
def test_what_has_no_value_anywhere_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ExpressionError):
        build()


def test_an_expression_never_grows_beyond_its_limits() -> None:
    many = Expr.sum(Expr.symbol(f"s{i}") for i in range(300))

    def nest() -> Expr:
        deep = x
        for i in range(1000):
            deep = maximum(deep // 3 + y, i + z)
        return deep

    def square() -> Expr:
        big = Expr.constant(2)
        for _ in range(100):
            big = big * big
        return big

    with pytest.raises(ExpressionError, match="too large"):
        _ = many**3
    with pytest.raises(ExpressionError, match="levels deep"):
        nest()
    with pytest.raises(ExpressionError, match="too large"):
        square()


def test_substitute() -> None:
    expr = (x + 1) // 2 * y + maximum(x, z)
    assert str(expr.substitute({"x": 3})) == "(3^z)+2*y"
    assert expr.substitute({"x": 3, "y": 2, "z": 1}) == 7
    assert expr.substitute({"q": 3}) is expr
    assert str((x * y).substitute({"x": y, "y": x + 1})) == "x*y+y"


def test_sum_and_product() -> None:
    assert Expr.sum([]) == 0
    assert Expr.product([]) == 1
    assert str(Expr.sum([x, 2, x, y - 2])) == "2*x+y"
    assert str(Expr.product([x, 2, y + 1])) == "2*x+2*x*y"


def test_equal_expressions_are_one_key() -> None:
    assert {(x + 1) * (x - 1): "here"}[x * x - 1] == "here"
    assert x != "x"
    with pytest.raises(TypeError, match="expected an Expr or an int"):
        as_expr("x")  # type: ignore[arg-type]


def test_copies_are_equal() -> None:
    expr = (x + 1) // 2 * y + maximum(x, z)
    assert copy.deepcopy(expr) == expr
    assert pickle.loads(pickle.dumps(expr)) == expr  # noqa: S301 - our own bytes
    assert repr(expr) == f"Expr[{expr}]"


def test_names_that_look_like_operations_are_not_confused() -> None:
    assert Expr.symbol("x//2") != x // 2
    assert Expr.symbol("x+1") - 1 != x
    assert str(Expr.symbol('a"b\\') * 2) == '2*"a\\"b\\\\"'


@pytest.mark.parametrize("den", [y * z - z % 4, z % 4 - y * z])
def test_one_sign_of_a_divisor_is_kept(den: Expr) -> None:
    quotient = 6 // den
    assert (-6) // -den == quotient
    assert str(quotient) == str((-6) // (den * -1))
    assert quotient.evaluate({"y": 1, "z": 5}) == 6 // den.evaluate({"y": 1, "z": 5})
