"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss against their formulas, element by element, and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

RNG = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def by_hand(logs: Any, classes: Any, weights: Any, ignored: Any, reduction: str) -> Any:
    """Place by place, in Python's numbers."""
    losses = np.zeros(classes.shape)
    total = 0.0
    for place in np.ndindex(*classes.shape):
        chosen = int(classes[place])
        if chosen == ignored:
            continue
        weight = 1.0 if weights is None else float(weights[chosen])
        losses[place] = -weight * float(logs[(place[0], chosen, *place[1:])])
        total += weight
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction]


def logs_of(x: Any) -> Any:
    wide = x.astype(np.float64)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))


SHAPES = [(4, 5), (3, 5, 2), (2, 3, 4, 5), (300, 400), (2, 7, 90, 110)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1, -100])
def test_both_losses(shape: Any, reduction: str, weighted: bool, ignored: Any) -> None:
    x = normal(*shape)
    classes = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
    if ignored is not None:
        classes.reshape(-1)[::3] = ignored
    weights = RNG.uniform(0.5, 2, shape[1]).astype(np.float32) if weighted else None
    attributes: dict[str, Any] = {"reduction": reduction}
    if ignored is not None:
        attributes["ignore_index"] = ignored
    inputs = [x, classes] + ([weights] if weighted else [])
    for opset in (12, 13, 22):
        y = run("NegativeLogLikelihoodLoss", *inputs, opset=opset, **attributes)
        expected = by_hand(x, classes, weights, ignored, reduction)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    expected = by_hand(logs_of(x), classes, weights, ignored, reduction)
    for opset in (12, 13):
        y = run("SoftmaxCrossEntropyLoss", *inputs, opset=opset, **attributes)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
        y, logs = run("SoftmaxCrossEntropyLoss", *inputs, opset=opset, outputs=2, **attributes)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(logs, logs_of(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_types_as_onnxruntime(dtype: Any, index: Any) -> None:
    x, classes = normal(4, 3, 2).astype(dtype), RNG.integers(0, 3, (4, 2)).astype(index)
    tolerance = 2e-3 if dtype == np.float16 else 1e-5
    for op, outputs in (("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2)):
        ours, theirs = by_both(op, x, classes, outputs=outputs, opset=13)
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_large_scores_lose_nothing() -> None:
    x = np.array([[1000, 1001, 900], [-3000, -3001, -3003]], np.float32)
    y = run("SoftmaxCrossEntropyLoss", x, np.array([1, 0]), reduction="none", opset=13)
    expected = np.log([1 + np.exp(-1.0), 1 + np.exp(-1.0) + np.exp(-3.0)])
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_everything_ignored_is_nan_as_onnxruntime_says() -> None:
    x, classes = normal(2, 3), np.array([1, 1])
    ours, theirs = by_both("SoftmaxCrossEntropyLoss", x, classes, ignore_index=1, opset=13)
    assert np.isnan(ours[0])
    assert np.isnan(theirs[0])


def test_what_does_not_fit() -> None:
    x = normal(2, 3)
    with pytest.raises(ValueError, match="classes are from 0 to 2, got 0 to 3"):
        run("NegativeLogLikelihoodLoss", x, np.array([0, 3]), opset=13)
    with pytest.raises(ValueError, match="classes are from 0 to 2"):
        run("SoftmaxCrossEntropyLoss", x, np.array([0, -1]), opset=13)
    with pytest.raises(ValueError, match=r"scores \[N, C, ...\] and classes \[N, ...\]"):
        run("SoftmaxCrossEntropyLoss", x, np.array([0, 1, 2]), opset=13)
    with pytest.raises(ValueError, match=r"weights \[3\], got \[2\]"):
        run("SoftmaxCrossEntropyLoss", x, np.array([0, 1]), np.ones(2, np.float32), opset=13)
    with pytest.raises(ValueError, match="none, sum or mean, not 'most'"):
        run("NegativeLogLikelihoodLoss", x, np.array([0, 1]), reduction="most", opset=13)
