"""What models of ai.onnx.ml do to their scores at the end.

https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html; details as in onnxruntime's ml_common.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["POST_TRANSFORMS", "find_post_transform", "logistic", "probit"]

Transform = Callable[[Array], None]

_WINITZKI: Final = 0.147
"""Of the approximation to the inverse error function by S. Winitzki (2008)."""

_NEARLY_ZERO: Final = 1e-7


def _none(scores: Array) -> None:
    """Scores stay as they are."""


def _softmax(scores: Array) -> None:
    """Of each row [rows, classes]."""
    np.subtract(scores, scores.max(axis=1, keepdims=True), scores)
    np.exp(scores, scores)
    np.divide(scores, scores.sum(axis=1, keepdims=True), scores)


def _softmax_zero(scores: Array) -> None:
    """Softmax of the scores that are not 0; those stay 0."""
    top = scores.max(axis=1, keepdims=True)
    counted = np.abs(scores) > _NEARLY_ZERO
    exponentials = np.where(counted, np.exp(scores - top), scores * np.exp(-top))
    total = np.where(counted, exponentials, 0).sum(axis=1, keepdims=True)
    total[total == 0] = 1
    np.divide(exponentials, total, scores)


def logistic(scores: Array) -> None:
    """1 / (1 + exp(-x))."""
    np.negative(scores, scores)
    np.exp(scores, scores)
    np.add(scores, 1, scores)
    np.reciprocal(scores, scores)


def probit(scores: Array) -> None:
    """The inverse of the normal distribution function, by an approximation to the inverse error function."""
    x = 2 * scores - 1
    log = np.log((1 - x) * (1 + x))
    half = 2 / (math.pi * _WINITZKI) + 0.5 * log
    root = np.sqrt(np.sqrt(half * half - log / _WINITZKI) - half)
    np.copyto(scores, math.sqrt(2) * np.sign(x) * root, casting="unsafe")


POST_TRANSFORMS: Final[Mapping[str, Transform]] = {
    "NONE": _none,
    "SOFTMAX": _softmax,
    "LOGISTIC": logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": probit,
}


def find_post_transform(name: str) -> Transform:
    """The function of that name, which changes [rows, classes] in place.

    Raises:
        ValueError: There is none.
    """
    if name not in POST_TRANSFORMS:
        raise ValueError(f"post_transform is one of {', '.join(POST_TRANSFORMS)}, not {name!r}")
    return POST_TRANSFORMS[name]
