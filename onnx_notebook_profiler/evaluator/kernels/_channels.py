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

__all__ = ["channel_statistics", "scale_channels"]

_FEW_PLACES: Final = 32
_SMALL: Final = 2**12


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Items and ranges of channels with about a block of elements."""
    items, channels, places = shape
    height = max(1, BLOCK // max(places, 1))
    for item in range(items):
        for start in range(0, channels, height):
            yield item, slice(start, start + height)


def _sum_over(x: Array, of_part: Callable[[Array, slice], Array]) -> Array:
    """The sums [C] in float64 of what *of_part* makes of parts [rows, places] of x [N, C, P]."""
    wide = row_type(x.dtype)
    total = np.zeros(x.shape[1], FLOAT64)
    for item, rows in _blocks(x.shape):
        for start in range(0, x.shape[2], BLOCK):
            part = x[item, rows, start : start + BLOCK]
            total[rows] += of_part(part.astype(wide, copy=False), rows)
    return total


def channel_statistics(x: Array) -> tuple[Array, Array]:
    """Mean and population variance [C] in float64 of x [N, C, P], in two passes; scratch is a block."""
    items, channels, places = x.shape
    if places < _FEW_PLACES:  # the items in place of the channels: their rows are long
        return _statistics_of_columns(x.reshape(items, channels * places), places)
    wide = row_type(x.dtype)
    ones = ones_for(channels, places, wide)
    count = items * places
    mean = _sum_over(x, lambda part, _: row_sums(part, ones)) / count
    center = mean.astype(wide)[:, None]

    variance = np.empty_like(mean)

    def work() -> None:
        total = _sum_over(x, lambda part, rows: squares_of_rows(part - center[rows]))
        np.divide(total, count, variance)

    unbuffered(work, x.size)
    # the center is rounded: squares around it exceed the variance by that of its distance from the mean
    return mean, variance - np.square(mean - center[:, 0])


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

    mean = mean_of(lambda part: part)
    center = mean.astype(wide)
    line = np.repeat(center, places)
    variance = mean_of(lambda part: np.square(part - line))
    return mean, variance - np.square(mean - center)


def scale_channels(x: Array, factor: Array, offset: Array, y: Array) -> None:
    """X * factor + offset with one pair for each channel [C] of x [N, C, P]; *y* may be x."""
    items, channels, places = x.shape
    if x.size <= _SMALL and x.dtype == factor.dtype:
        np.multiply(x, factor[:, None], y)
        np.add(y, offset[:, None], y)
        return
    if places < _FEW_PLACES and items > 1:
        if places > 1:
            factor, offset = np.repeat(factor, places), np.repeat(offset, places)
        shape = (items, channels * places)
        height = max(1, BLOCK // max(shape[1], 1))
        blocks: list[Any] = [slice(start, start + height) for start in range(0, items, height)]
        pairs: Any = [(factor, offset)] * len(blocks)
    else:
        shape = (items * channels, places)
        factor, offset = factor[:, None], offset[:, None]
        blocks, pairs = [], []
        for item, rows in _blocks(x.shape):
            first = item * channels
            stop = min(rows.stop, channels)
            blocks.append(slice(first + rows.start, first + stop))
            pairs.append((factor[rows], offset[rows]))
    _scale_blocks(x.reshape(shape), y.reshape(shape), blocks, pairs)


def _scale_blocks(x: Array, y: Array, blocks: Any, pairs: Any) -> None:
    def work() -> None:
        for rows, (factor, offset) in zip(blocks, pairs, strict=True):
            into = y[rows]
            part = into if x.dtype == factor.dtype else np.empty(into.shape, factor.dtype)
            np.multiply(x[rows], factor, part)
            np.add(part, offset, part)
            if part is not into:
                np.copyto(into, part, casting="unsafe")

    unbuffered(work, x.size)
