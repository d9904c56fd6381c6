"""Instance and group normalisation, onnx's and com.microsoft's, against their formulas in float64 and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
RNG = np.random.default_rng(4)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def grouped(x: Any, groups: int, scale: Any, bias: Any, epsilon: float = 1e-5) -> Any:
    """X [N, C, ...] with scale and bias [C], in float64."""
    rows = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    mean, variance = rows.mean(axis=2, keepdims=True), rows.var(axis=2, keepdims=True)
    whole = ((rows - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    line = (-1, *[1] * (x.ndim - 2))
    return whole * scale.astype(np.float64).reshape(line) + bias.astype(np.float64).reshape(line)


SHAPES = [(2, 6), (1, 6, 3), (2, 6, 4, 5), (1, 12, 70, 90), (2, 6, 1, 2, 3), (3, 40, 8, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [0, 100])
def test_groups_and_instances(shape: Any, shift: float) -> None:
    x, channels = normal(*shape) + np.float32(shift), shape[1]
    scale, bias = normal(channels), normal(channels)
    close: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4 if not shift else 2e-3}
    for groups in (1, 2, channels):
        y = run("GroupNormalization", x, scale, bias, num_groups=groups, opset=21)
        np.testing.assert_allclose(y, grouped(x, groups, scale, bias), **close)
        few = slice(groups)
        y = run("GroupNormalization", x, scale[few], bias[few], num_groups=groups, opset=18)
        repeated = [one[few].repeat(channels // groups) for one in (scale, bias)]
        np.testing.assert_allclose(y, grouped(x, groups, *repeated), **close)
    for opset in (1, 6, 22):
        y = run("InstanceNormalization", x, scale, bias, epsilon=1e-3, opset=opset)
        np.testing.assert_allclose(y, grouped(x, channels, scale, bias, 1e-3), **close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16])
def test_types_and_in_place(dtype: Any) -> None:
    x, scale, bias = (one.astype(dtype) for one in (normal(2, 6, 30, 40), normal(6), normal(6)))
    unit = {"float16": 2e-3, "bfloat16": 2e-2}.get(np.dtype(dtype).name, 1e-5)
    three: dict[str, Any] = {"num_groups": 3}
    for op, attributes, groups in (
        ("InstanceNormalization", {}, 6),
        ("GroupNormalization", three, 3),
    ):
        y = run(op, x, scale, bias, opset=22, **attributes)
        assert y.dtype == dtype
        expected = grouped(x, groups, scale, bias)
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=unit)
        kernel = make_kernel(helper.make_node(op, ["x", "s", "b"], ["y"], **attributes), 22)
        own = x.copy()
        kernel.compute([own, scale, bias], [own])
        assert own.tobytes() == y.tobytes()


def test_as_onnxruntime() -> None:
    x, six = normal(2, 6, 7, 5), (normal(6), normal(6))
    three: dict[str, Any] = {"num_groups": 3}
    for op, inputs, attributes, opset in (
        ("InstanceNormalization", (x, *six), {}, 17),
        ("GroupNormalization", (x, *six), three, 21),
        ("GroupNormalization", (x, six[0][:3], six[1][:3]), three, 18),
    ):
        ours, theirs = by_both(op, *inputs, opset=opset, **attributes)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def test_a_constant_channel_and_nothing() -> None:
    x = np.full((1, 2, 50, 60), 3e4, np.float32)
    y = run("InstanceNormalization", x, np.ones(2, np.float32), np.array([5, 6], np.float32))
    np.testing.assert_allclose(y[0, :, 0, 0], [5, 6], atol=1e-3)
    assert run("InstanceNormalization", x[:0], x[0, :, 0, 0], x[0, :, 0, 0]).shape == (0, 2, 50, 60)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", ["whole", "line", "square", "bias"])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("size", [(3, 4), (70, 60)])
def test_contrib(last: int, dtype: Any, kind: str, activation: int, size: Any) -> None:
    """No CPU provider runs them, so the formula of the schema is written down once more, channels first."""
    items, channels = 2, 16
    x = normal(items, channels, *size).astype(dtype)
    gamma, beta, bias = normal(channels), normal(channels), normal(channels).astype(dtype)
    lines = normal(items, channels, 1, 1).astype(dtype)
    skip = normal(*x.shape).astype(dtype) if kind in {"whole", "bias"} else lines
    total = x.astype(np.float64) + skip.astype(np.float64)
    if kind == "bias":
        total += bias.astype(np.float64)[:, None, None]

    def silu(y: Any) -> Any:
        return y / (1 + np.exp(-y)) if activation else y

    def turned(one: Any) -> Any:
        return np.ascontiguousarray(np.moveaxis(one, 1, -1)) if last else one

    given = lines.reshape(items, channels) if kind == "line" else turned(skip)
    attributes: dict[str, Any] = {
        "groups": 4, "activation": activation, "channels_last": last, "epsilon": 1e-4, **MS,
    }  # fmt: skip
    close: dict[str, Any] = dict.fromkeys(("rtol", "atol"), 1e-4 if dtype == np.float32 else 2e-3)
    expected = turned(silu(grouped(x, 4, gamma, beta, 1e-4)))
    y = run("GroupNorm", turned(x), gamma, beta, **attributes)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, expected, **close)
    inputs = [turned(x), gamma, beta, given] + ([bias] if kind == "bias" else [])
    y, shown = run("SkipGroupNorm", *inputs, outputs=2, **attributes)
    np.testing.assert_allclose(y, turned(silu(grouped(total, 4, gamma, beta, 1e-4))), **close)
    np.testing.assert_allclose(shown, turned(total), **close)
    (alone,) = [run("SkipGroupNorm", *inputs, **attributes)]
    np.testing.assert_array_equal(alone, y)


def test_what_does_not_fit() -> None:
    x, two = np.ones((1, 6, 2, 2), np.float32), np.ones(2, np.float32)
    with pytest.raises(ValueError, match="no channels for 4 equal groups"):
        run("GroupNormalization", x, two, two, num_groups=4, opset=21)
    with pytest.raises(ValueError, match=r"expects scale and bias \[6\]"):
        run("GroupNormalization", x, two, two, num_groups=2, opset=21)
    with pytest.raises(ValueError, match=r"expects X \[N, C, ...\] and scale, B \[C\]"):
        run("InstanceNormalization", x, two, two)
    with pytest.raises(ValueError, match=r"expects gamma \[2\]"):
        run("GroupNorm", x, np.ones(6, np.float32), two, groups=2, activation=0, **MS)
    with pytest.raises(ValueError, match="activation to be 0 or 1, got 2"):
        run("GroupNorm", x, two, two, groups=2, activation=2, **MS)
    with pytest.raises(ValueError, match=r"skip .* does not fit X"):
        run("SkipGroupNorm", x, two, two, np.ones((3, 2), np.float32), groups=2, activation=0, **MS)
