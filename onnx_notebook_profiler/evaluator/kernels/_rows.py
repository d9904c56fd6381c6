"""Rows brought to mean 0 and variance 1, block by block: what the normalisations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64

__all__ = ["normalize_rows", "per_block", "row_type"]

_BLOCK: Final = 2**16
"""Elements of a block, unless a single row has more."""


def row_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Where rows are computed: float64 for itself, float32 for all narrower floats."""
    return dtype if dtype == FLOAT64 else FLOAT32


def per_block(rows: int, width: int, apply: Callable[[slice], None]) -> None:
    """Call *apply* with one slice of rows after another."""
    height = max(1, _BLOCK // max(width, 1))
    for start in range(0, rows, height):
        apply(slice(start, min(start + height, rows)))


def normalize_rows(
    x: Array,
    out: Array,
    epsilon: float,
    *,
    center: bool = True,
    mean: Array | None = None,
    inverse: Array | None = None,
    scale: Array | None = None,
    bias: Array | None = None,
) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias for each row of x [rows, width]; *out* may be x.

    Args:
        center: False leaves the mean in, so that the variance is the mean of squares.
        mean, inverse: Where to put the means and the inverse standard deviations [rows]; None: nowhere.
        scale, bias: [width] or [rows, width] factors and offsets, or None.
    """
    wide = row_type(x.dtype)
    width = x.shape[1]
    narrow = x.dtype != wide

    def apply(block: slice) -> None:
        part = x[block].astype(wide) if narrow else x[block]
        target = part if narrow else out[block]
        if center:
            middle = np.add.reduce(part, axis=1, keepdims=True)
            middle /= width
            part = np.subtract(part, middle, target)
            if mean is not None:
                mean[block] = middle[:, 0]
        power = np.einsum("ij,ij->i", part, part)
        power /= width
        power += epsilon
        np.sqrt(power, power)
        np.divide(1, power, power)
        if inverse is not None:
            inverse[block] = power
        np.multiply(part, power[:, None], target)
        if scale is not None:
            np.multiply(target, scale[block] if scale.ndim == 2 else scale, target)
        if bias is not None:
            np.add(target, bias[block] if bias.ndim == 2 else bias, target)
        if narrow:
            np.copyto(out[block], target, casting="unsafe")

    per_block(x.shape[0], width, apply)
