"""Reductions, arg-reductions and running sums against loops over Python numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run, typed

INF, NAN = math.inf, math.nan
BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
F32: Any = np.float32

OPERATORS: dict[str, Any] = {
    "ReduceL1": lambda v: math.fsum(map(abs, v)),
    "ReduceL2": lambda v: math.sqrt(math.fsum(x * x for x in v)),
    "ReduceLogSum": lambda v: math.log(math.fsum(v)),
    "ReduceLogSumExp": lambda v: math.log(math.fsum(map(math.exp, v))),
    "ReduceMax": max,
    "ReduceMean": lambda v: math.fsum(v) / len(v),
    "ReduceMin": min,
    "ReduceProd": math.prod,
    "ReduceSum": math.fsum,
    "ReduceSumSquare": lambda v: math.fsum(x * x for x in v),
}


def by_hand(function: Any, x: Any, axes: Any, keep: Any) -> Any:
    """Collect the elements of each output position in a list, then apply *function* to it."""
    axes = {axis % x.ndim for axis in axes}
    groups: dict[tuple[int, ...], list[float]] = {}
    for place in itertools.product(*map(range, x.shape)):
        key = tuple(0 if axis in axes else i for axis, i in enumerate(place))
        groups.setdefault(key, []).append(float(x[place]))
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    y = np.zeros(shape)
    for key, values in groups.items():
        y[key] = function(values)
    return y if keep else y.reshape([s for axis, s in enumerate(x.shape) if axis not in axes])


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("dtype", [np.float16, BF16, F32, np.float64])
@given(axes=st.sets(st.sampled_from([0, -2, 2])), keep=st.booleans())
def test_every_reduction(op_type: Any, dtype: Any, axes: Any, keep: Any) -> None:
    x = np.random.default_rng(7).uniform(0.5, 1.5, (2, 3, 4)).astype(dtype)
    expected = by_hand(OPERATORS[op_type], x, axes or {0, 1, 2}, keep)
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(x.dtype.name, 1e-6)
    as_input = run(op_type, x, np.array(sorted(axes), np.int64), keepdims=int(keep))
    given_axes: dict[str, Any] = {"axes": sorted(axes)} if axes else {}
    as_attribute = run(op_type, x, opset=11, keepdims=int(keep), **given_axes)
    for result in (as_input, as_attribute):
        assert result.dtype == x.dtype
        assert result.shape == expected.shape
        # half a unit of the narrow type: rounded once
        np.testing.assert_allclose(result.astype(float), expected, rtol=unit, atol=1e-6)


# what is left where nothing is reduced: the operator without its sum
@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("ReduceL1", [2, 3]),
        ("ReduceL2", [2, 3]),
        ("ReduceLogSum", [NAN, math.log(3)]),
        ("ReduceLogSumExp", [-2, 3]),
        ("ReduceMax", [-2, 3]),
        ("ReduceMean", [-2, 3]),
        ("ReduceMin", [-2, 3]),
        ("ReduceProd", [-2, 3]),
        ("ReduceSum", [-2, 3]),
        ("ReduceSumSquare", [4, 9]),
    ],
)
@pytest.mark.parametrize("axes", [None, np.zeros(0, np.int64)])
def test_no_axes_as_a_wish(op_type: Any, expected: Any, axes: Any) -> None:
    inputs = (F32([-2, 3]),) if axes is None else (F32([-2, 3]), axes)
    result = run(op_type, *inputs, noop_with_empty_axes=1)
    np.testing.assert_allclose(result, F32(expected), rtol=1e-6)


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("keep", [0, 1])
def test_scalars(op_type: Any, keep: Any) -> None:
    result = run(op_type, F32(2.0), keepdims=keep)
    assert result.shape == ()
    np.testing.assert_allclose(result, OPERATORS[op_type]([2.0]), rtol=1e-6)


# from the sentences "Reduction over an empty set of values yields ..." of the specification
@pytest.mark.parametrize(
    ("op_type", "dtype", "expected"),
    [
        ("ReduceL1", F32, 0),
        ("ReduceL2", F32, 0),
        ("ReduceSumSquare", np.int32, 0),
        ("ReduceSum", np.float16, 0),
        ("ReduceProd", F32, 1),
        ("ReduceLogSum", F32, -INF),
        ("ReduceLogSumExp", np.float64, -INF),
        ("ReduceMax", F32, -INF),
        ("ReduceMax", BF16, -INF),
        ("ReduceMax", np.uint8, 0),
        ("ReduceMax", np.int64, -(2**63)),
        ("ReduceMax", np.bool_, False),
        ("ReduceMin", F32, INF),
        ("ReduceMin", np.int8, 127),
        ("ReduceMin", np.bool_, True),
    ],
)
def test_empty_sets(op_type: Any, dtype: Any, expected: Any) -> None:
    result = run(op_type, np.zeros((2, 0, 3), dtype), np.array([1]))
    assert result.shape == (2, 1, 3)
    assert (result == np.array(expected).astype(dtype)).all()
    assert run(op_type, np.zeros((2, 0, 3), dtype), np.array([2])).shape == (2, 0, 1)


def test_integers_stay_exact_and_wrap() -> None:
    big = typed.int64([2**62, 1])
    assert run("ReduceSum", big, keepdims=0) == 2**62 + 1
    assert run("ReduceSum", typed.int32([2**31 - 1, 1]), keepdims=0) == -(2**31)
    assert run("ReduceMean", typed.int32([2**31 - 1, 2**31 - 1]), keepdims=0) == 2**31 - 1
    assert run("ReduceMean", typed.int32([-1, -2]), keepdims=0) == -1  # cut off
    assert run("ReduceL2", typed.int32([3, 4]), keepdims=0) == 5
    assert run("ReduceL1", typed.int64([-(2**60), 1]), keepdims=0) == 2**60 + 1
    assert run("ReduceProd", typed.uint32([65536, 65536]), keepdims=0) == 0
    assert run("ReduceMax", np.array([[False, True], [False, False]]), np.array([1])).tolist() == [
        [True],
        [False],
    ]


def test_large_numbers_and_nan() -> None:
    assert run("ReduceLogSumExp", F32([1000, 1000]), keepdims=0) == F32(1000 + math.log(2))
    assert run("ReduceLogSumExp", F32([-INF, -INF]), keepdims=0) == -INF
    assert run("ReduceLogSumExp", F32([INF, 0]), keepdims=0) == INF
    assert np.isnan(run("ReduceMax", F32([1, NAN]), keepdims=0))
    assert np.isnan(run("ReduceLogSumExp", F32([1, NAN]), keepdims=0))
    assert (
        run("ReduceL2", typed.float16([300, 400]), keepdims=0) == 500
    )  # 300 squared is no float16


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_long_sums_of_narrow_floats(dtype: Any) -> None:
    x = np.ones((4096, 2)).astype(dtype)
    assert run("ReduceSum", x, np.array([0])).astype(F32).tolist() == [[4096, 4096]]
    assert run("ReduceMean", x, np.array([0])).astype(F32).tolist() == [[1, 1]]
    assert run("CumSum", x[:, :1], np.array(0)).astype(F32)[-1, 0] == 4096


@pytest.mark.parametrize(
    ("axes", "message"), [([3], "axis 3 does not exist"), ([0, -2], "comes twice")]
)
def test_wrong_axes(axes: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run("ReduceSum", np.ones((2, 2)), np.array(axes))


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, BF16, F32])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_positions_of_extremes(op_type: Any, dtype: Any, last: Any, keep: Any, axis: Any) -> None:
    x = np.array([[2, 5, 5], [7, 1, 1], [7, 5, 1]]).astype(dtype)
    expected = []
    for line in np.moveaxis(x, axis, -1).tolist():
        wanted = max(line) if op_type == "ArgMax" else min(line)
        places = [i for i, value in enumerate(line) if value == wanted]
        expected.append(places[-1 if last else 0])
    result = run(op_type, x, axis=axis, keepdims=keep, select_last_index=last)
    assert result.dtype == np.int64
    assert result.shape == (((1, 3) if axis == 0 else (3, 1)) if keep else (3,))
    assert result.reshape(-1).tolist() == expected


def test_positions_in_nothing() -> None:
    assert run("ArgMax", np.zeros((0, 2)), axis=1).shape == (0, 1)
    with pytest.raises(ValueError, match="is empty"):
        run("ArgMax", np.zeros((0, 2)), axis=0)


@pytest.mark.parametrize("op_type", ["CumSum", "CumProd"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", [np.int32, np.float16, BF16, np.float64])
def test_running_totals(op_type: Any, exclusive: Any, reverse: Any, axis: Any, dtype: Any) -> None:
    x = np.array([[1, 2, 3], [4, 1, 2]]).astype(dtype)
    lines = np.moveaxis(x, axis, -1).astype(int).tolist()
    combine, neutral = (sum, 0) if op_type == "CumSum" else (math.prod, 1)
    expected = []
    for line in lines:
        ordered = line[::-1] if reverse else line
        totals = [
            combine(ordered[: i + (0 if exclusive else 1)]) if i or not exclusive else neutral
            for i in range(len(line))
        ]
        expected.append(totals[::-1] if reverse else totals)
    result = run(op_type, x, np.array(axis), opset=26, exclusive=exclusive, reverse=reverse)
    assert result.dtype == x.dtype
    assert np.moveaxis(result, axis, -1).astype(int).tolist() == expected


def test_running_totals_of_nothing() -> None:
    assert run("CumSum", np.zeros((0, 2)), np.array(0), exclusive=1).shape == (0, 2)
    with pytest.raises(ValueError, match="axis 2"):
        run("CumSum", np.zeros((1, 2)), np.array(2))
    with pytest.raises(ValueError, match="one axis"):
        run("CumSum", np.zeros((1, 2)), np.array([0, 1]))
