"""Softmax and the normalisations: formulas by hand in float64, old versions, types, and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

X = np.random.default_rng(5).standard_normal((3, 4, 5)).astype(np.float32)


def softmax(x: Any, axis: Any) -> Any:
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_softmax_along_one_axis(axis: int) -> None:
    expected = softmax(X, axis)
    np.testing.assert_allclose(run("Softmax", X, axis=axis, opset=13), expected, rtol=1e-5)
    np.testing.assert_allclose(
        run("LogSoftmax", X, axis=axis, opset=13), np.log(expected), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_takes_all_axes_from_one_on(axis: int) -> None:
    rows = X.reshape(int(np.prod(X.shape[:axis])), -1)
    expected = softmax(rows, 1).reshape(X.shape)
    np.testing.assert_allclose(run("Softmax", X, axis=axis, opset=11), expected, rtol=1e-5)
    hard = run("Hardmax", X, axis=axis, opset=11).reshape(rows.shape)
    assert (hard.argmax(axis=1) == rows.argmax(axis=1)).all()
    assert (hard.sum(axis=1) == 1).all()


def test_softmax_of_more_than_a_block_and_of_nothing() -> None:
    wide = np.random.default_rng(1).standard_normal((300, 7, 90)).astype(np.float32)
    for axis in (0, 1, 2):
        np.testing.assert_allclose(run("Softmax", wide, axis=axis), softmax(wide, axis), rtol=1e-5)
    assert run("Softmax", np.ones((0, 3), np.float32)).shape == (0, 3)
    assert run("Softmax", np.float32(2), opset=13) == 1


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
