"""Arithmetic, comparison and activations against hand tables and the math module."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

from onnx_notebook_profiler.evaluator.kernels._shared import BLOCK
from tests.evaluator.kernels.harness import run, typed

INF, NAN = math.inf, math.nan
BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
F32: Any = np.float32


@given(a=st.integers(-128, 127), b=st.integers(-128, 127).filter(bool))
def test_integer_quotients_are_cut_off_toward_zero(a: Any, b: Any) -> None:
    if (a, b) != (-128, -1):
        assert run("Div", typed.int8(a), typed.int8(b)) == math.trunc(a / b)


def test_quotients_of_large_integers_are_exact() -> None:
    a = np.array([2**62 + 1, -(2**62) - 1, 2**63 - 1])
    np.testing.assert_array_equal(run("Div", a, np.array(3)), [a[0] // 3, -(a[0] // 3), a[2] // 3])
    big = np.array([2**64 - 1], np.uint64)
    assert run("Div", big, np.array([2], np.uint64))[0] == 2**63 - 1


@pytest.mark.parametrize(
    ("a", "b", "floor", "trunc"),
    [(7, 3, 1, 1), (-7, 3, 2, -1), (7, -3, -2, 1), (-7, -3, -1, -1), (6, 3, 0, 0)],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, F32, np.float64, BF16])
def test_remainders(a: Any, b: Any, floor: Any, trunc: Any, dtype: Any) -> None:
    a, b = np.array([a]).astype(dtype), np.array([b]).astype(dtype)
    assert run("Mod", a, b, opset=28).astype(F32)[0] == floor
    assert run("Mod", a, b, fmod=1).astype(F32)[0] == trunc


# the special cases that the specification lists for fmod=0
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(0.0, -3, -0.0), (-0.0, 3, 0.0), (INF, 2, NAN), (1, 0, NAN), (1, INF, 1), (-1, INF, INF)],
)
def test_special_remainders(a: Any, b: Any, expected: Any) -> None:
    result = run("Mod", F32(a), F32(b), opset=28)
    np.testing.assert_array_equal(result, F32(expected))
    assert math.isnan(expected) or math.copysign(1, result) == math.copysign(1, expected)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (typed.int32([2, -3, 5]), typed.int64([10, 3, 0]), [1024, -27, 1]),
        (typed.int64([1, -1, -1, 2, 3]), typed.int32([-4, -4, -3, -1, -2]), [1, 1, -1, 0, 0]),
        (typed.int64([3]), typed.uint64([39]), [3**39]),  # beyond what float64 holds exactly
        (typed.int32([2, 9]), F32([0.5, 0.5]), [1, 3]),
        (F32([2, 9]), typed.int64([-1, 2]), [0.5, 81]),
        (F32([2, -2]), F32([0.5, 2]), [math.sqrt(2), 4]),
        (typed.float16([3]), typed.float64([2]), [9]),
        (np.array([3], BF16), F32([3]), [27]),
        (F32([-1.5, 3]), typed.float64(2), [2.25, 9]),
    ],
)
def test_powers_have_the_type_of_the_base(x: Any, y: Any, expected: Any) -> None:
    result = run("Pow", x, y)
    assert result.dtype == x.dtype
    if x.dtype.kind == "i":
        assert result.tolist() == expected
    else:
        np.testing.assert_allclose(result.astype(float), expected, rtol=1e-6)


def test_nan_wins_in_max_and_min() -> None:
    a, b, c = F32([1, NAN, 3]), F32([2, 2, NAN]), F32([0, 0, 0])
    np.testing.assert_array_equal(run("Max", a, b, c), F32([2, NAN, NAN]))
    np.testing.assert_array_equal(run("Min", a, b, c), F32([0, NAN, NAN]))


def test_variadic_operators_broadcast_all_inputs_and_take_a_single_one() -> None:
    a, b, c = F32([[1], [2]]), F32([10, 20, 30]), F32(100)
    np.testing.assert_array_equal(run("Sum", a, b, c), [[111, 121, 131], [112, 122, 132]])
    np.testing.assert_array_equal(run("Mean", b, b + 2), [11, 21, 31])
    np.testing.assert_array_equal(run("Max", a, b), [[10, 20, 30]] * 2)
    np.testing.assert_array_equal(run("Min", b), b)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_narrow_floats_are_summed_before_they_are_rounded(dtype: Any) -> None:
    # 256 + 0.5 is 256 in bfloat16, 2048 + 0.5 is 2048 in float16; the true sum shows the halves
    big = np.array([2048 if dtype == np.float16 else 256]).astype(dtype)
    half = np.array([0.5]).astype(dtype)
    assert run("Sum", big, *[half] * 8).astype(F32)[0] == float(big[0]) + 4
    assert run("Mean", *[half] * 3).astype(F32)[0] == 0.5


def test_halves_round_to_even() -> None:
    x = F32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.51])
    np.testing.assert_array_equal(run("Round", x), [-2, -2, -0.0, 0, 2, 2, 3])


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("Acos", math.acos),
        ("Asin", math.asin),
        ("Asinh", math.asinh),
        ("Atan", math.atan),
        ("Atanh", math.atanh),
        ("Cos", math.cos),
        ("Cosh", math.cosh),
        ("Exp", math.exp),
        ("Sin", math.sin),
        ("Sinh", math.sinh),
        ("Tan", math.tan),
        ("Tanh", math.tanh),
        ("Abs", abs),
        ("Ceil", math.ceil),
        ("Floor", math.floor),
        ("Neg", lambda x: -x),
        ("Erf", math.erf),
        ("Sign", lambda x: (x > 0) - (x < 0)),
        ("Relu", lambda x: max(x, 0)),
        ("Sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("Softplus", lambda x: math.log1p(math.exp(x))),
        ("Softsign", lambda x: x / (1 + abs(x))),
        ("Elu", lambda x: x if x >= 0 else math.expm1(x)),
        ("Celu", lambda x: max(0, x) + min(0, math.expm1(x))),
        ("LeakyRelu", lambda x: x if x >= 0 else 0.01 * x),
        ("HardSigmoid", lambda x: max(0, min(1, 0.2 * x + 0.5))),
        ("HardSwish", lambda x: x * max(0, min(1, x / 6 + 0.5))),
        ("Mish", lambda x: x * math.tanh(math.log1p(math.exp(x)))),
        ("Gelu", lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
        ("Swish", lambda x: x / (1 + math.exp(-x))),
        ("ThresholdedRelu", lambda x: x if x > 1 else 0),
        ("Selu", lambda x: 1.05070098 * (x if x > 0 else 1.67326324 * math.expm1(x))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, BF16, F32, np.float64])
def test_functions_of_one_number_round_once(op_type: Any, function: Any, dtype: Any) -> None:
    # the bound is one unit in the last place of the type, and what the float32 attributes allow
    ulp = {2: 2.0**-10, 4: 2.0**-22, 8: 2.0**-24}[np.dtype(dtype).itemsize]
    ulp = 2.0**-7 if dtype == BF16 else ulp
    x = np.linspace(-0.98, 0.98, 41).astype(dtype)
    result = run(op_type, x, opset=24)
    assert result.dtype == x.dtype
    expected = [function(float(value)) for value in x]
    np.testing.assert_allclose(result.astype(float), expected, rtol=ulp, atol=1e-7)


@given(hnp.arrays(np.float64, 20, elements=st.floats(-8, 8)))
def test_erf_is_exact_to_two_units_in_the_last_place(x: Any) -> None:
    expected = np.array([math.erf(value) for value in x])
    np.testing.assert_array_max_ulp(run("Erf", x), expected, 2)
    single = x.astype(F32)
    expected = np.array([math.erf(value) for value in single.tolist()]).astype(F32)
    np.testing.assert_array_max_ulp(run("Erf", single), expected, 2)


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("Erf", [-1, 1, NAN, -1, 1]),
        ("Sigmoid", [0, 1, NAN, 0, 1]),
        ("Softplus", [0, INF, NAN, 0, 1e4]),
        ("Relu", [0, INF, NAN, 0, 1e4]),
        ("LeakyRelu", [-INF, INF, NAN, -100, 1e4]),
        ("Elu", [-1, INF, NAN, -1, 1e4]),
        ("Celu", [-1, INF, NAN, -1, 1e4]),
        ("ThresholdedRelu", [0, INF, 0, 0, 1e4]),
        ("Tanh", [-1, 1, NAN, -1, 1]),
        ("HardSigmoid", [0, 1, NAN, 0, 1]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, F32, np.float64])
def test_extremes(op_type: Any, expected: Any, dtype: Any) -> None:
    x = np.array([-INF, INF, NAN, -1e4, 1e4], dtype)
    np.testing.assert_allclose(run(op_type, x), np.array(expected, dtype), rtol=1e-3)


def test_small_sigmoids_and_softplus_are_not_lost() -> None:
    np.testing.assert_allclose(run("Sigmoid", F32([-80])), [math.exp(-80)], rtol=1e-5)
    np.testing.assert_allclose(run("Softplus", F32([-30])), [math.exp(-30)], rtol=1e-5)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.25, 1.0, 3.0])
def test_leaky_relu_for_any_slope(alpha: Any) -> None:
    x = F32([-2, -0.5, 0, 0.5, 2])
    np.testing.assert_array_equal(
        run("LeakyRelu", x, alpha=alpha), [v if v >= 0 else alpha * v for v in x.tolist()]
    )


@pytest.mark.parametrize("alpha", [-2.0, 0.5, 2.0])
def test_celu_and_elu_for_any_alpha(alpha: Any) -> None:
    x = F32([-3, -0.5, 0, 0.5, 3])
    expected = [max(0, v) + min(0, alpha * math.expm1(v / alpha)) for v in x.tolist()]
    np.testing.assert_allclose(run("Celu", x, alpha=alpha), expected, rtol=1e-6)
    expected = [v if v >= 0 else alpha * math.expm1(v) for v in x.tolist()]
    np.testing.assert_allclose(run("Elu", x, alpha=alpha), expected, rtol=1e-6)


def test_formulas_hold_across_block_borders() -> None:
    x = np.linspace(-4, 4, 2 * BLOCK + 3).astype(F32)
    expected = np.array([1 / (1 + math.exp(-v)) for v in x.tolist()])
    np.testing.assert_allclose(run("Sigmoid", x), expected, rtol=1e-6)
    half = x.astype(np.float16)
    np.testing.assert_allclose(run("Sigmoid", half), expected, rtol=4e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, F32])
def test_shrink(dtype: Any) -> None:
    x = np.array([0, 1, 2, 3], dtype)
    np.testing.assert_array_equal(run("Shrink", x, lambd=1.5, bias=1.0), [0, 0, 1, 2])
    if dtype != np.uint8:
        np.testing.assert_array_equal(run("Shrink", -x, lambd=1.5, bias=1.0), [0, 0, -1, -2])


@pytest.mark.parametrize("size", [6, 3 * BLOCK])
def test_prelu_broadcasts_its_slope(size: Any) -> None:
    x = np.tile(F32([-2, 2, -INF]), size // 3).reshape(-1, 3)
    slope = F32([0.5, 0.25, 0.125])
    expected = np.tile(F32([-1, 2, -INF]), size // 3).reshape(-1, 3)
    np.testing.assert_array_equal(run("PRelu", x, slope), expected)
    np.testing.assert_array_equal(
        run("PRelu", np.abs(x), F32([0, 3, 3])), np.abs(x)
    )  # 0 times infinity must not show
    np.testing.assert_array_equal(run("PRelu", typed.int32([-3, 3]), typed.int32([2])), [-6, 3])
    with pytest.raises(ValueError, match="does not broadcast"):
        run("PRelu", F32([1]), F32([1, 2]))


def test_clip() -> None:
    x = F32([-2, 0.5, 2, NAN])
    np.testing.assert_array_equal(run("Clip", x, F32(-1), F32(1)), F32([-1, 0.5, 1, NAN]))
    np.testing.assert_array_equal(run("Clip", x, None, F32(1)), F32([-2, 0.5, 1, NAN]))
    np.testing.assert_array_equal(run("Clip", x, F32(3), F32(1)), F32([1, 1, 1, NAN]))
    np.testing.assert_array_equal(run("Clip", x), x)
    np.testing.assert_array_equal(run("Clip", x, opset=6, max=1.0), F32([-2, 0.5, 1, NAN]))
    np.testing.assert_array_equal(run("Clip", typed.float16([INF, -3]), opset=6), [INF, -3])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, BF16, F32, np.float64, np.complex128, object])
@pytest.mark.parametrize("size", [5, 2 * BLOCK + 1])
def test_where_for_every_width(dtype: Any, size: Any) -> None:
    mask = np.arange(size) % 3 == 0
    x = (np.arange(size) % 2).astype(np.int64).astype(dtype)
    y = np.ones(size, np.int64).astype(dtype)
    triples = zip(mask.tolist(), x.tolist(), y.tolist(), strict=True)
    expected = [a if chosen else b for chosen, a, b in triples]
    assert run("Where", mask, x, y).tolist() == expected
    result = run("Where", mask, x, y[:1])  # a scalar beside whole tensors
    assert result.tolist() == expected
    rows = run("Where", mask[None, :], x[None, :], y[:1].reshape(1, 1).repeat(2, 0))
    assert rows.shape == (2, size)
    assert rows[1].tolist() == expected


def test_where_keeps_nan_and_wants_a_bool() -> None:
    x = np.full(2 * BLOCK, NAN, F32)
    assert np.isnan(run("Where", np.ones(2 * BLOCK, bool), x, F32(1))).all()
    assert (run("Where", np.zeros(2 * BLOCK, bool), x, F32(1)) == 1).all()
    with pytest.raises(ValueError, match="bool condition"):
        run("Where", F32([1]), F32([1]), F32([2]))


def test_comparison_of_strings_and_numbers() -> None:
    a, b = np.array(["a", "b"], object), np.array(["a", "c"], object)
    assert run("Equal", a, b).tolist() == [True, False]
    assert run("Less", typed.uint8([1, 200]), typed.uint8([2, 100])).tolist() == [True, False]
    assert run("GreaterOrEqual", F32([1, NAN]), F32(1)).tolist() == [True, False]
    assert run("Xor", np.array([True, False]), np.array(True)).tolist() == [False, True]


# the last rows are those of the specification for amounts out of range
@pytest.mark.parametrize(
    ("direction", "x", "y", "expected"),
    [
        ("LEFT", typed.uint8(1), typed.uint8(7), 128),
        ("LEFT", typed.int8(3), typed.int8(6), -64),
        ("RIGHT", typed.int8(-7), typed.int8(1), -4),
        ("RIGHT", typed.int8(-7), typed.int8(-1), -1),
        ("RIGHT", typed.int8(-7), typed.int8(8), -1),
        ("RIGHT", typed.uint64(2**63), typed.uint64(64), 0),
        ("LEFT", typed.int32(5), typed.int32(-1), 0),
        ("LEFT", typed.int64(5), typed.int64(64), 0),
    ],
)
def test_shifts(direction: Any, x: Any, y: Any, expected: Any) -> None:
    assert run("BitShift", x, y, opset=28, direction=direction) == expected


def test_infinities_by_sign() -> None:
    x = F32([-INF, INF, NAN, 1])
    assert run("IsInf", x).tolist() == [True, True, False, False]
    assert run("IsInf", x, detect_negative=0).tolist() == [False, True, False, False]
    assert run("IsInf", x, detect_positive=0).tolist() == [True, False, False, False]
    neither = run("IsInf", x, detect_positive=0, detect_negative=0)
    assert neither.tolist() == [False] * 4
    without = x.astype(helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E4M3FN))
    assert not run("IsInf", without, detect_negative=0).any()


@pytest.mark.parametrize(
    ("op_type", "inputs", "message"),
    [
        ("Add", (F32([1]), typed.float64([1])), "one type, got float32 and float64"),
        ("Mul", (np.ones((2, 3), F32), np.ones(2, F32)), r"\(2, 3\) and \(2,\) do not broadcast"),
        ("Sub", (F32([1]), None), "needs 2 inputs, got 1"),
        ("Clip", (F32([1]), F32([1, 2])), "scalar bounds"),
    ],
)
def test_errors_say_what_was_expected(op_type: Any, inputs: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run(op_type, *inputs)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("BitShift", {"direction": "UP"}), ("Gelu", {"approximate": "roughly"})],
)
def test_unknown_modes_are_named(op_type: Any, attributes: Any) -> None:
    with pytest.raises(ValueError, match=r"UP|roughly"):
        run(op_type, F32([1]), F32([1]), **attributes)
