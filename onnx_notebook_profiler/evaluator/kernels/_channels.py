"""Statistics of channels and one factor and offset for each: x [N, C, P] with any number of items and places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._rows import (
    BLOCK,
    ones_for,
    row_sums,
    row_type,
    squares_of_rows,
    unbuffered,
)
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT64

__all__ = ["channel_statistics", "far_center", "scale_channels"]

_FEW_PLACES: Final = 32
_SMALL: Final = 2**12
_FAR: Final = 64.0


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Items and ranges of channels with about a block of elements."""
    items, channels, places = shape
    height = max(1, BLOCK // max(places, 1))
    for item in range(items):
        for start in range(0, channels, height):
            yield item, slice(start, start + height)


def channel_statistics(x: Array) -> tuple[Array, Array]:
    """Mean and population variance [C] in float64 of x [N, C, P], in two passes; scratch is a block.

    The second pass also adds what the first, in float32, left over of the mean.
    """
    items, channels, places = x.shape
    if places < _FEW_PLACES:  # the items in place of the channels: their rows are long
        return _statistics_of_columns(x.reshape(items, channels * places), places)
    wide = row_type(x.dtype)
    ones = ones_for(channels, places, wide)
    count = items * places
    center, rest, power = (np.zeros(channels, FLOAT64) for _ in range(3))

    def parts() -> Iterator[tuple[Array, slice]]:
        for item, rows in _blocks(x.shape):
            for start in range(0, places, BLOCK):
                yield x[item, rows, start : start + BLOCK].astype(wide, copy=False), rows

    def work() -> None:
        for part, rows in parts():
            center[rows] += row_sums(part, ones)
        np.divide(center, count, center)
        middle = center.astype(wide)
        center[...] = middle
        for part, rows in parts():
            centered = part - middle[rows, None]
            rest[rows] += row_sums(centered, ones)
            power[rows] += squares_of_rows(centered)

    unbuffered(work, x.size)
    rest /= count
    power /= count
    power -= np.square(rest)
    return center + rest, np.maximum(power, 0, out=power)


def _statistics_of_columns(x: Array, places: int) -> tuple[Array, Array]:
    """The same for x [N, C * places]."""
    items, width = x.shape
    wide = row_type(x.dtype)
    height = max(1, BLOCK // max(width, 1))
    starts = range(0, items, height)
    ones = np.ones(min(height, items), wide)

    def mean_of(formula: Callable[[Array], Array]) -> Array:
        total = np.zeros(width, FLOAT64)
        for start in starts:
            part = formula(x[start : start + height].astype(wide, copy=False))
            total += np.matmul(ones[: part.shape[0]], part)
        return np.asarray(total.reshape(-1, places).sum(axis=1) / (items * places))

    center = mean_of(lambda part: part).astype(wide)
    line = np.repeat(center, places)
    rest = mean_of(lambda part: part - line)
    variance = mean_of(lambda part: np.square(part - line)) - np.square(rest)
    return center + rest, np.maximum(variance, 0, out=variance)


def far_center(mean: Array, variance: Array, dtype: np.dtype[Any]) -> Array | None:
    """The means in *dtype* where one is so far from 0 that its product and the offset would cancel; else None."""
    if (np.square(mean) > variance * _FAR).any():
        return mean.astype(dtype)
    return None


def scale_channels(
    x: Array, factor: Array, offset: Array, y: Array, center: Array | None = None
) -> None:
    """(X - center) * factor + offset with numbers [C] for the channels of x [N, C, P]; *y* may be x."""
    items, channels, places = x.shape
    if not x.size:
        return
    if center is None and x.size <= _SMALL and x.dtype == factor.dtype:
        np.multiply(x, factor[:, None], y)
        np.add(y, offset[:, None], y)
        return
    if places < _FEW_PLACES and items > 1:
        if places > 1:
            factor, offset = np.repeat(factor, places), np.repeat(offset, places)
            center = None if center is None else np.repeat(center, places)
        shape = (items, channels * places)
        height = max(1, BLOCK // max(shape[1], 1))
        blocks: list[Any] = [slice(start, start + height) for start in range(0, items, height)]
        numbers: Any = [(factor, offset, center)] * len(blocks)
    else:
        shape = (items * channels, places)
        factor, offset = factor[:, None], offset[:, None]
        center = None if center is None else center[:, None]
        blocks, numbers = [], []
        for item, rows in _blocks(x.shape):
            first = item * channels
            stop = min(rows.stop, channels)
            blocks.append(slice(first + rows.start, first + stop))
            middle = None if center is None else center[rows]
            numbers.append((factor[rows], offset[rows], middle))
    _scale_blocks(x.reshape(shape), y.reshape(shape), blocks, numbers)


def _scale_blocks(x: Array, y: Array, blocks: Any, numbers: Any) -> None:
    def work() -> None:
        for rows, (factor, offset, center) in zip(blocks, numbers, strict=True):
            into = y[rows]
            part = into if x.dtype == factor.dtype else np.empty(into.shape, factor.dtype)
            if center is None:
                np.multiply(x[rows], factor, part)
            else:
                np.subtract(x[rows], center, part)
                np.multiply(part, factor, part)
            np.add(part, offset, part)
            if part is not into:
                np.copyto(into, part, casting="unsafe")

    unbuffered(work, x.size)
