"""The normalisations: formulas by hand in float64, old versions, types, and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
UNITS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-9}
X = np.random.default_rng(5).standard_normal((3, 4, 5)).astype(np.float32)


def standard(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(
        x.var(axis=axes, keepdims=True) + epsilon
    )


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_layer_normalization_and_its_statistics(axis: int) -> None:
    axes = tuple(range(axis % 3, 3))
    scale, bias = X[0] + 2 if axis == 1 else X[0, 0] + 2, X[1] if axis == 1 else X[0, 1]
    y, mean, inverse = run("LayerNormalization", X, scale, bias, axis=axis, outputs=3, opset=17)
    np.testing.assert_allclose(y, standard(X, axes) * scale + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, X.mean(axis=axes, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        inverse, 1 / np.sqrt(X.var(axis=axes, keepdims=True) + 1e-5), rtol=1e-4
    )


def test_rms_instance_group_and_lp() -> None:
    scale = X[0, 0]
    rms = X / np.sqrt(np.square(X).mean(axis=-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(run("RMSNormalization", X, scale, opset=23), rms, rtol=1e-5)
    channels = np.arange(4, dtype=np.float32)
    line = channels[:, None]
    expected = standard(X, (2,)) * line + line
    np.testing.assert_allclose(
        run("InstanceNormalization", X, channels, channels), expected, rtol=1e-4, atol=1e-5
    )
    grouped = standard(X.reshape(3, 2, 10), (2,)).reshape(X.shape)
    y = run("GroupNormalization", X, channels, channels, num_groups=2, opset=21)
    np.testing.assert_allclose(y, grouped * line + line, rtol=1e-4, atol=1e-5)
    pair = np.array([2, 3], np.float32)
    y = run("GroupNormalization", X, pair, pair, num_groups=2, opset=18)
    both = pair.repeat(2)[:, None]
    np.testing.assert_allclose(y, grouped * both + both, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        run("LpNormalization", X, p=1, axis=1), X / np.abs(X).sum(axis=1, keepdims=True), rtol=1e-5
    )
    assert run("LpNormalization", np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_local_response_normalization(size: int) -> None:
    x = np.random.default_rng(2).standard_normal((2, 6, 3, 2)).astype(np.float32)
    ours, theirs = (
        by_both("LRN", x, size=size, alpha=0.1, beta=0.6, bias=1.5)
        if size % 2
        else ([run("LRN", x, size=size, alpha=0.1, beta=0.6, bias=1.5)], None)
    )
    expected = np.empty_like(x)
    for c in range(6):
        window = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        total = np.square(window).sum(axis=1)
        expected[:, c] = x[:, c] / (1.5 + 0.1 / size * total) ** 0.6
    np.testing.assert_allclose(ours[0], expected, rtol=1e-5)
    if theirs is not None:
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)


def test_batch_normalization_in_training() -> None:
    x = X[..., None]
    ones = np.arange(1, 5, dtype=np.float32)
    inputs = (x, ones, ones, ones * 0.1, ones * 0.2)
    y, mean, variance = run(
        "BatchNormalization", *inputs, training_mode=1, momentum=0.8, outputs=3, opset=15
    )
    line = ones[:, None, None]
    np.testing.assert_allclose(y, standard(x, (0, 2, 3)) * line + line, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, ones * 0.1 * 0.8 + x.mean(axis=(0, 2, 3)) * 0.2, rtol=1e-4)
    np.testing.assert_allclose(variance, ones * 0.2 * 0.8 + x.var(axis=(0, 2, 3)) * 0.2, rtol=1e-4)


def test_half_precision_is_computed_in_float32() -> None:
    x = X.astype(np.float16)
    scale = np.ones(5, np.float16)
    y = run("LayerNormalization", x, scale, opset=17)
    expected = standard(x, (2,)).astype(np.float16)
    np.testing.assert_allclose(y, expected, rtol=1e-3)  # one unit in the last place
    assert (y != expected).mean() < 0.05


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# rows of one number, short ones that share a call, and more than a block; counts that do not divide
@pytest.mark.parametrize(
    "shape", [(5, 1), (640, 96), (643, 96), (1600, 40), (3, 70000), (90, 1500)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16])
def test_rows_of_every_length_and_type(shape: Any, dtype: Any) -> None:
    width = shape[1]
    given = (normal(*shape), normal(width), normal(width + 1)[1:])
    x, scale, bias = (one.astype(dtype) for one in given)
    wide = [one.astype(np.float64) for one in (x, scale, bias)]
    unit = UNITS[np.dtype(dtype).name]
    y, mean, inverse = run("LayerNormalization", x, scale, bias, outputs=3, opset=17)
    assert y.dtype == dtype
    assert mean.dtype == inverse.dtype == np.float32
    expected = standard(x, (1,)) * wide[1] + wide[2]
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=unit)
    power = np.sqrt(np.square(wide[0]).mean(axis=1, keepdims=True) + 1e-5)
    for op, opset in (("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17)):
        y = run(op, x, scale, opset=opset)
        expected = wide[0] / power * wide[1]
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=unit)
    own = x.copy()
    kernel = make_kernel(helper.make_node("LayerNormalization", ["x", "s"], ["y"]), 17)
    kernel.compute([own, scale], [own])
    expected = run("LayerNormalization", x, scale, opset=17)
    assert own.tobytes() == expected.tobytes()


def test_a_mean_far_from_zero() -> None:
    x = normal(200, 768) + np.float32(1000)
    y = run("LayerNormalization", x, np.ones(768, np.float32), opset=17)
    np.testing.assert_allclose(y, standard(x, (1,)), atol=2e-3)


@pytest.mark.parametrize("types", [(np.float32, np.float16), (np.float16, np.float32)])
def test_a_scale_of_another_type_decides_the_output(types: Any) -> None:
    x, scale = normal(30, 200).astype(types[0]), normal(200).astype(types[1])
    wide = x.astype(np.float64)
    expected = wide / np.sqrt(np.square(wide).mean(axis=1, keepdims=True) + 1e-5)
    expected *= scale.astype(np.float64)
    for op, opset in (("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17)):
        y = run(op, x, scale, opset=opset)
        assert y.dtype == types[1]
        np.testing.assert_allclose(y, expected, rtol=2e-3, atol=1e-4)
    ours, theirs = by_both("SimplifiedLayerNormalization", x, scale, outputs=2)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)


def test_layer_normalization_as_onnxruntime() -> None:
    for scale, bias in (((5,), (5,)), ((4, 5), None), ((1, 5), (4, 1)), ((1,), (1,))):
        lines = [normal(*one) for one in (scale, bias) if one is not None]
        ours, theirs = by_both("LayerNormalization", X, *lines, axis=1)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
    own_rows = normal(3, 1, 5)
    y = run("LayerNormalization", X, own_rows, own_rows, opset=17)
    np.testing.assert_allclose(y, standard(X, (2,)) * own_rows + own_rows, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="does not broadcast to X"):
        run("LayerNormalization", X, normal(4), opset=17)
    with pytest.raises(ValueError, match="axis 3 does not exist"):
        run("LayerNormalization", X, normal(5), axis=3, opset=17)
    y, mean, inverse = run("LayerNormalization", X[:0], normal(5), outputs=3, opset=17)
    assert (y.shape, mean.shape, inverse.shape) == ((0, 4, 5), (0, 4, 1), (0, 4, 1))


@pytest.mark.parametrize("axes", [None, [0, 1, 2, 3], [1, 2, 3], [0], [2], [1, 3], [-1, 0], [3]])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 8, 20, 31)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16])
def test_mean_variance_normalization(axes: Any, shape: Any, dtype: Any) -> None:
    x = (normal(*shape) + 2).astype(dtype)
    wide, where = x.astype(np.float64), tuple(axes or (0, 2, 3))
    centered = wide - wide.mean(axis=where, keepdims=True)
    expected = centered / (np.sqrt(np.square(centered).mean(axis=where, keepdims=True)) + 1e-9)
    unit = UNITS[np.dtype(dtype).name]
    attributes = {} if axes is None else {"axes": axes}
    for opset in (9, 13):
        y = run("MeanVarianceNormalization", x, opset=opset, **attributes)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=unit)


def test_mean_variance_of_what_never_changes() -> None:
    y = run("MeanVarianceNormalization", np.full((2, 3, 40, 50), 7, np.float32), opset=13)
    assert not y.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((3, 4), -1), ((40, 300), 0), ((3, 50, 60), 1)])
def test_lp_normalization(dtype: Any, p: int, shape: Any, axis: int) -> None:
    x = normal(*shape).astype(dtype)
    x[(0,) * (len(shape) - 1)] = 0
    wide = x.astype(np.float64)
    norm = (np.abs(wide) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    expected = wide / np.where(norm == 0, 1, norm)
    unit = UNITS[np.dtype(dtype).name]
    for opset in (1, 22):
        y = run("LpNormalization", x, axis=axis, p=p, opset=opset)
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=unit)
    with pytest.raises(ValueError, match="p to be 1 or 2, got 3"):
        run("LpNormalization", x, p=3)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16])
@pytest.mark.parametrize("opset", [1, 13])
def test_local_response_normalization_of_other_types(dtype: Any, opset: int) -> None:
    x = normal(1, 5, 3).astype(dtype)
    y = run("LRN", x, size=3, opset=opset)
    wide = np.pad(np.square(x.astype(np.float64)), ((0, 0), (1, 1), (0, 0)))
    total = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    unit = UNITS[np.dtype(dtype).name]
    expected = x.astype(np.float64) / (1 + 1e-4 / 3 * total) ** 0.75
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=max(unit, 1e-7))
    assert y.dtype == dtype


@pytest.mark.parametrize("mean", [0, 30, 1000, 1e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 4, 64, 70), (3, 4, 2, 3), (9, 4, 1, 30)])
@pytest.mark.parametrize(
    ("op", "opset", "axes", "attributes", "others"),
    [
        ("BatchNormalization", 15, (0, 2, 3), {"training_mode": 1}, 4),
        ("InstanceNormalization", 6, (2, 3), {}, 2),
        ("GroupNormalization", 21, (2, 3), {"num_groups": 4}, 2),
        ("MeanVarianceNormalization", 13, (0, 2, 3), {}, 0),
    ],
)
def test_means_far_from_zero(
    op: str,
    opset: int,
    axes: Any,
    attributes: Any,
    others: int,
    shape: Any,
    dtype: Any,
    mean: float,
) -> None:
    """A factor and an offset of the size of mean / deviation would cancel; few numbers are all mean."""
    x = (np.random.default_rng(1).standard_normal(shape) + mean).astype(dtype)
    exact = x.astype(np.float64)
    epsilon = 1e-5 if others else 0
    centered = exact - exact.mean(axis=axes, keepdims=True)
    expected = centered / np.sqrt(np.square(centered).mean(axis=axes, keepdims=True) + epsilon)
    ones = [np.ones(shape[1], dtype)] * others
    y = run(op, x, *ones, opset=opset, **attributes) - dtype(bool(others))
    np.testing.assert_allclose(y, expected, rtol=5e-5, atol=2e-3 if mean > 1e4 else 5e-5)


@pytest.mark.parametrize(
    ("op", "domain", "opset", "others", "attributes"),
    [
        ("BatchNormalization", "", 15, 4, {}),
        ("InstanceNormalization", "", 6, 2, {}),
        ("GroupNormalization", "", 21, 2, {"num_groups": 2}),
        ("LayerNormalization", "", 17, 0, {}),
        ("BiasGelu", "com.microsoft", 1, 0, {}),
        ("BiasAdd", "com.microsoft", 1, 0, {}),
        ("SkipLayerNormalization", "com.microsoft", 1, 0, {}),
    ],
)
@pytest.mark.parametrize("shape", [(2, 4, 0), (0, 4, 3)])
def test_nothing(
    op: str, domain: str, opset: int, others: int, attributes: Any, shape: Any
) -> None:
    x, row = np.ones(shape, np.float32), np.ones(shape[-1], np.float32)
    rest: list[Any] = [np.ones(shape[1], np.float32)] * others or [row]
    if op in {"BiasAdd", "SkipLayerNormalization"}:
        rest = [row, x] if op == "BiasAdd" else [x, row]
    assert run(op, x, *rest, opset=opset, domain=domain, **attributes).shape == shape
