"""Softmax, LogSoftmax and Hardmax: every layout that the blocks tell apart, types, rows that are no distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
UNITS = {np.dtype(np.float16): 2**-11, BFLOAT16: 2**-8}


def normal(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# [outer, n, inner] for the middle axis: short and long rows, a few places or many, more than a block
LAYOUTS = [
    (3, 5, 1),
    (4096, 10, 1),
    (300, 17, 1),
    (40, 600, 1),
    (2, 70000, 1),
    (500, 32, 4),
    (60, 50, 16),
    (1, 1000, 70),
    (2, 3, 40000),
    (1, 70000, 2),
]


@pytest.mark.parametrize("shape", LAYOUTS)
@pytest.mark.parametrize("scale", [1, 300])
def test_every_layout(shape: tuple[int, int, int], scale: float) -> None:
    """Scores up to some hundreds overflow unless the rows' maxima are taken off."""
    x = normal(*shape) * np.float32(scale)
    expected = softmax(x, 1)
    np.testing.assert_allclose(run("Softmax", x, axis=1), expected, rtol=2e-5, atol=1e-30)
    logs = x - x.max(axis=1, keepdims=True).astype(np.float64)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(run("LogSoftmax", x, axis=1), logs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shift", [-1000, -80, -30, 0, 50, 85, 1000])
@pytest.mark.parametrize("shape", [(64, 100, 1), (30, 9, 8)])
def test_a_constant_changes_nothing(shape: tuple[int, ...], shift: float) -> None:
    x = (normal(*shape) * 2).astype(np.float32).round(2)
    expected = softmax((x + np.float32(shift)), 1)
    y = run("Softmax", x + np.float32(shift), axis=1)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_masked_rows_and_rows_that_are_no_distribution_as_onnxruntime() -> None:
    x = normal(50, 40)
    x[:, 20:] = -np.inf
    x[3] = -10000
    x[4] = -np.inf
    x[5, 1] = np.inf
    x[6, 1] = np.nan
    x[7] = np.finfo(np.float32).min
    for op in ("Softmax", "LogSoftmax"):
        ours, theirs = by_both(op, x, axis=-1, opset=13)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    assert np.isnan(ours[0][4:7]).all()


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
@pytest.mark.parametrize(("shape", "axis"), [((3, 4000), 1), ((4000, 3), 0), ((2, 9, 5), 1)])
def test_narrow_floats_are_right_but_for_a_few_roundings(dtype: Any, shape: Any, axis: int) -> None:
    """Sums of some thousands would not grow beyond 256 in bfloat16."""
    x = (normal(*shape) * 2).astype(dtype)
    for op, expected in (
        ("Softmax", softmax(x, axis)),
        ("LogSoftmax", np.log(softmax(x, axis))),
    ):
        y = run(op, x, axis=axis)
        assert y.dtype == dtype
        exact = np.abs(y.astype(np.float64) - expected)
        least = np.finfo(np.float16).smallest_subnormal if dtype == np.float16 else 0
        # x - max, of some ten units, is rounded too, and its power with it
        roundings = 1.01 if op == "LogSoftmax" else 14
        assert (exact <= np.abs(expected) * UNITS[dtype] * roundings + least).all()


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(2, 3, 1), (200, 300, 1), (300, 20, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("scale", [1, 200])
def test_in_place(op: str, shape: Any, dtype: Any, scale: float) -> None:
    x = (normal(*shape) * scale).astype(dtype)
    expected = run(op, x, axis=1)
    kernel = make_kernel(helper.make_node(op, ["x"], ["y"], axis=1), 13)
    assert kernel.in_place == (0,)
    with np.errstate(all="ignore"):
        kernel.compute([x], [x])
    np.testing.assert_allclose(x, expected, rtol=1e-6)


@pytest.mark.parametrize("opset", [1, 9, 11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_versions_as_onnxruntime(op: str, opset: int) -> None:
    for axis in (0, 1, 2) if opset < 11 else (0, 1, 2, -1, -3):
        ours, theirs = by_both(op, normal(3, 4, 5), axis=axis, opset=max(opset, 7))
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)


def test_hardmax_takes_the_first_of_equals_in_every_type() -> None:
    for dtype in (np.float32, np.float64, np.float16, BFLOAT16):
        y = run("Hardmax", np.array([[3, 3, 1], [0, 2, 2]]).astype(dtype), opset=13)
        assert y.dtype == dtype
        assert y.astype(np.float32).tolist() == [[1, 0, 0], [0, 1, 0]]
    y = run("Hardmax", np.array([[1, 2], [4, 3]], np.float32), axis=0)
    assert y.tolist() == [[0, 0], [1, 1]]


def test_empty_rank_0_and_axes_that_do_not_exist() -> None:
    for shape in ((0, 3), (3, 0)):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            assert run(op, np.ones(shape, np.float32), opset=13).shape == shape
            assert run(op, np.ones(shape, np.float32), opset=11).shape == shape
    assert run("Softmax", np.array(5, np.float32), opset=13) == 1
    with pytest.raises(ValueError, match="axis 2 does not exist in a tensor of rank 2"):
        run("Softmax", np.ones((2, 2), np.float32), axis=2, opset=13)
    with pytest.raises(ValueError, match="axis"):
        run("Softmax", np.ones((2, 2), np.float32), axis=4, opset=11)
