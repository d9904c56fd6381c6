"""com.microsoft's operators on quantised tensors give the very integers of onnxruntime, ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.evaluator.kernels.harness import run, run_node
from tests.evaluator.kernels.one_node import by_both, one_node_model
from tests.oracles import ort

MS = "com.microsoft"
TYPES = [np.uint8, np.int8]
NICE = (0.5, 0.25, 0.1, 0.05, 0.02, 0.0078125, 0.3, 1.0)
"""Scales whose quotients make many halves."""


class Numbers:
    """Random tensors, scales and zero points of one type."""

    def __init__(self, seed: int, dtype: Any) -> None:
        self._rng, self._dtype = np.random.default_rng(seed), dtype

    def tensor(self, *shape: int) -> Any:
        return self._rng.integers(0, 256, shape).astype(np.uint8).view(self._dtype)

    def scaled(self) -> tuple[Any, Any]:
        zero = np.asarray(self._rng.integers(0, 256)).astype(np.uint8).view(self._dtype)
        return np.array(self._rng.choice(NICE), np.float32), zero


def assert_equal(op_type: str, *inputs: Any, **attributes: Any) -> None:
    ours, theirs = by_both(op_type, *inputs, domain=MS, opset=1, **attributes)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[0].dtype == theirs[0].dtype


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("seed", range(6))
def test_pairs(op_type: str, dtype: Any, seed: int) -> None:
    """All pairs of bytes, as tensors of one shape, and with either one repeated."""
    n = Numbers(seed, dtype)
    every = np.arange(256, dtype=np.uint8).view(dtype)
    left, right = np.repeat(every, 256), np.tile(every, 256)
    a, b, c = n.scaled(), n.scaled(), n.scaled()
    assert_equal(op_type, left, *a, right, *b, *c)
    assert_equal(op_type, every[:, None].copy(), *a, every, *b, *c)
    assert_equal(op_type, n.tensor(1), *a, n.tensor(3, 50), *b, *c)
    assert_equal(op_type, n.tensor(3, 50), *a, n.tensor(3, 1), *b, *c)
    assert_equal(op_type, n.tensor(3, 1, 250, 300), *a, n.tensor(250, 1), *b, *c)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [256, 140001])
def test_functions_of_one_tensor(dtype: Any, size: int) -> None:
    n = Numbers(size, dtype)
    x = n.tensor(size)
    assert_equal("QLinearSigmoid", x, *n.scaled(), *n.scaled())
    assert_equal("QLinearLeakyRelu", x, *n.scaled(), *n.scaled(), alpha=0.3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 3, 700])
def test_parts_together(dtype: Any, rows: int) -> None:
    """One of the parts has the scale of the result: its bytes stay as they are."""
    n = Numbers(rows, dtype)
    first = n.scaled()
    parts = [n.tensor(rows, 2, 300), *first, n.tensor(rows, 5, 300), *n.scaled()]
    assert_equal("QLinearConcat", *first, *parts, axis=1)


@pytest.mark.parametrize("dtype", TYPES)
def test_where(dtype: Any) -> None:
    n = Numbers(1, dtype)
    condition = np.random.default_rng(2).random((4, 1, 7)) < 0.5
    x, y = n.tensor(4, 5, 7), n.tensor(5, 1)
    assert_equal("QLinearWhere", condition, x, *n.scaled(), y, *n.scaled(), *n.scaled())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("y_scale", [1 / 256, 1 / 255, 0.01])
def test_softmax(dtype: Any, opset: int, axis: int, y_scale: float) -> None:
    """The scale of the result counts as a whole number of parts: 1 / 255 as a float32 is 254 of them."""
    n = Numbers(axis + opset, dtype)
    inputs = [n.tensor(6, 9, 5), *n.scaled(), np.array(y_scale, np.float32), n.scaled()[1]]
    inputs[1] = np.array(0.07, np.float32)
    node = helper.make_node("QLinearSoftmax", list("abcde"), ["y"], domain=MS, axis=axis)
    node.attribute.append(helper.make_attribute("opset", opset))
    model = one_node_model(node, inputs, {"": 17, MS: 1})
    expected = ort(model, dict(zip("abcde", inputs, strict=True)))
    np.testing.assert_array_equal(run_node(node, inputs, 1)[0], expected[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]])
def test_pools(dtype: Any, last: int, padding: int, ceil: int, pads: list[int]) -> None:
    """Windows that hang over the end divide by all their taps where padding counts."""
    n = Numbers(last + 2 * padding, dtype)
    attributes = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": pads, "ceil_mode": ceil}
    attributes |= {"count_include_pad": padding, "channels_last": last}
    for _ in range(4):
        x = n.tensor(2, 8, 9, 10)
        assert_equal("QLinearAveragePool", x, *n.scaled(), *n.scaled(), **attributes)
        assert_equal("QLinearGlobalAveragePool", x, *n.scaled(), *n.scaled(), channels_last=last)


def test_global_mean_of_many() -> None:
    n = Numbers(0, np.uint8)
    assert_equal("QLinearGlobalAveragePool", n.tensor(1, 2, 300, 300), *n.scaled(), *n.scaled())


@pytest.mark.parametrize(
    "x", [[np.nan, 1, 2], [np.inf, 1], [1e-45, 0], [0, 0], [-3, -1], [[5.0]], []], ids=str
)
def test_dynamic_range(x: list[Any]) -> None:
    """A range that is no number, too small for a scale, or empty."""
    found = run("DynamicQuantizeLinear", np.array(x, np.float32), opset=11, outputs=3)
    if np.isfinite(np.asarray(x, float)).all() and len(x):
        _, expected = by_both("DynamicQuantizeLinear", np.array(x, np.float32), outputs=3)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("a", "b"), [((4,), (4, 3)), ((5, 4), (4,)), ((5, 4), (4, 3))])
def test_scales_for_rows_and_columns(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """A vector takes part with the scales of the matrix that it stands for."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 256, a).astype(np.uint8), rng.integers(0, 256, b).astype(np.uint8)
    rows, columns = (5, 1) if len(a) > 1 else (1,), (1, 3) if len(b) > 1 else (1,)
    scales = [rng.random(shape).astype(np.float32) + 0.5 for shape in (rows, columns)]
    zeros = [rng.integers(0, 256, shape).astype(np.uint8) for shape in (rows, columns)]
    y = [np.array(2000, np.float32), np.array(7, np.uint8)]
    actual = run("QLinearMatMul", x, scales[0], zeros[0], w, scales[1], zeros[1], *y)
    left = (x - zeros[0].astype(int)) * scales[0].astype(float)
    right = w - zeros[1].reshape(1, -1)[0].astype(int) if w.ndim > 1 else w - int(zeros[1][0])
    real = left @ (right * (scales[1][0].astype(float)))
    expected = np.clip(np.rint(real / 2000) + 7, 0, 255)
    np.testing.assert_array_equal(actual, expected)
