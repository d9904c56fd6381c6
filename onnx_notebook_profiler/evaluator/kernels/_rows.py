"""Rows brought to mean 0 and variance 1, block by block: what the normalisations share.

Scratch: a few numbers for each row of a block, and a block of float32 for narrower floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64

__all__ = [
    "BLOCK",
    "normalize_block",
    "normalize_rows",
    "ones_for",
    "per_block",
    "row_sums",
    "row_type",
    "squares_of_rows",
    "unbuffered",
]

BLOCK: Final = 2**16
"""Elements of a block, unless a single row has more."""
_SMALL: Final = 2**12
"""Up to so many elements one call of a ufunc costs more than its work."""
_NARROW: Final = 32
_WIDE: Final = 256
_TOGETHER: Final = 8
_BUFFER: Final = 256
"""numpy copies operands that broadcast into buffers where rows are shorter than those, by default 8192 elements."""


def row_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Where rows are computed: float64 for itself, float32 for all narrower floats."""
    return dtype if dtype == FLOAT64 else FLOAT32


def unbuffered(work: Callable[[], None], size: int) -> None:
    """Do *work* on *size* elements without copies of whatever broadcasts along rows or to each of them."""
    if size <= _SMALL:
        work()
        return
    before = np.setbufsize(_BUFFER)
    try:
        work()
    finally:
        np.setbufsize(before)


def _height(width: int) -> int:
    """Rows of a block; a multiple of what :func:`_together` may say."""
    height = max(1, BLOCK // max(width, 1))
    return height - height % _TOGETHER if height > _TOGETHER else height


def per_block(rows: int, width: int, apply: Callable[[slice], None]) -> None:
    """Call *apply* with one slice of rows after another."""
    height = _height(width)

    def work() -> None:
        for start in range(0, rows, height):
            apply(slice(start, min(start + height, rows)))

    unbuffered(work, rows * width)


def row_sums(x: Array, ones: Array | None) -> Array:
    """The sums [rows] of x [rows, width], as a product with *ones* [width] where that is the faster way."""
    if ones is not None:
        return np.asarray(np.matmul(x, ones))
    if x.size > _SMALL:
        return np.asarray(np.einsum("ij->i", x))
    return np.asarray(np.add.reduce(x, axis=1))


def ones_for(rows: int, width: int, dtype: np.dtype[Any]) -> Array | None:
    """What :func:`row_sums` wants for blocks of rows [rows, width]."""
    return np.ones(width, dtype) if rows * width > _SMALL and width <= _SMALL else None


def squares_of_rows(x: Array) -> Array:
    """The sums [rows] of the squares of x [rows, width]."""
    if x.shape[1] > _NARROW:
        product: Any = np.vecdot
        return np.asarray(product(x, x))
    return np.asarray(np.einsum("ij,ij->i", x, x))


def normalize_block(
    part: Array,
    target: Array,
    epsilon: float,
    ones: Array | None,
    *,
    center: bool = True,
    mean: Array | None = None,
    inverse: Array | None = None,
    scale: Array | None = None,
    bias: Array | None = None,
) -> None:
    """The formula of :func:`normalize_rows` for one block of its own type; *target* may be *part*."""
    width = part.shape[1]
    if center:
        middle = row_sums(part, ones)
        middle /= width
        if mean is not None:
            mean[...] = middle
        np.subtract(part, middle[:, None], target)
        part = target
    power = squares_of_rows(part)
    power += epsilon * width
    np.sqrt(power, power)
    np.divide(math.sqrt(width), power, power)
    if inverse is not None:
        inverse[...] = power
    np.multiply(part, power[:, None], target)
    if scale is not None:
        whole = _in_wide_rows(target, scale)
        np.multiply(whole, scale, whole)
    if bias is not None:
        whole = _in_wide_rows(target, bias)
        np.add(whole, bias, whole)


def _in_wide_rows(x: Array, factor: Array) -> Array:
    """X [rows, width] as rows of the width of *factor* [several * width]."""
    return x if factor.shape[-1] == x.shape[1] else x.reshape(-1, factor.shape[-1])


def _together(rows: int, width: int) -> int:
    """How many of *rows* share a call's row where numpy would be slow on rows as short as *width*."""
    for count in (_TOGETHER, _TOGETHER // 2, 1):
        if rows % count == 0 and width < _WIDE <= count * width and rows * width > _SMALL:
            return count
    return 1


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
    rows, width = x.shape
    converted = x.dtype != wide or out.dtype != wide
    if x.size <= _SMALL and not converted:
        normalize_block(
            x, out, epsilon, None, center=center, mean=mean, inverse=inverse, scale=scale, bias=bias
        )
        return
    ones = ones_for(rows, width, wide) if center else None
    together = _together(rows, width)
    if together > 1:
        scale, bias = (
            one if one is None or one.ndim > 1 else np.tile(one, together) for one in (scale, bias)
        )

    def apply(block: slice) -> None:
        part = x[block].astype(wide) if converted else x[block]
        target = part if converted else out[block]
        normalize_block(
            part,
            target,
            epsilon,
            ones,
            center=center,
            mean=None if mean is None else mean[block],
            inverse=None if inverse is None else inverse[block],
            scale=scale[block] if scale is not None and scale.ndim == 2 else scale,
            bias=bias[block] if bias is not None and bias.ndim == 2 else bias,
        )
        if converted:
            np.copyto(out[block], target, casting="unsafe")

    per_block(rows, width, apply)
