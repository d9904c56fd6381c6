"""Convolution with one channel in each group, over two axes, as products with banded matrices.

A few rows of results of one channel are ``A @ B``: B [KW * rows of X, W] holds the rows that they see, once for each
tap along the width, and A [rows of Y, KW * rows of X] the weights, for each row of Y one stride further. Most of A is
0, yet a matrix product is so much faster than sums in passes that it pays. Where X holds an infinity or a NaN, these
zeros would spread it, so such channels are left to the caller. Scratch: :data:`ROOM` bytes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._finish import Finish
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, clipped

__all__ = ["ROOM", "bands", "convolve_in_bands"]

ROOM: Final = 2**19
"""Bytes of scratch; it should stay in the cache."""

_HEIGHTS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
_COPY: Final = 0.25
_MULTIPLY: Final = 2 / 50
_PRODUCT: Final = 400.0
_TILE: Final = 3e4
"""Nanoseconds for an element that is laid out, a multiplication where 6 or more rows are made at once, a product of one
channel, and the steps in Python for each tile."""


class Rows(NamedTuple):
    """Some rows of results."""

    made: slice
    seen: slice
    """Rows of X that they see."""
    pattern: tuple[tuple[int, slice, slice], ...]
    """For each row of results: its number among these, taps along the height, and those rows of X among the seen."""


class Columns(NamedTuple):
    """Some columns of results."""

    made: slice
    shifts: tuple[tuple[tuple[slice, ...], slice | None, slice | None], ...]
    """For each tap along the width: columns that see padding, those that see X, and what they see."""


class Bands(NamedTuple):
    """What is done in which order; it follows from shapes alone."""

    windows: Windows
    rows: tuple[Rows, ...]
    columns: tuple[Columns, ...]
    cells: int
    """Elements of scratch for each channel."""
    split: int
    """How many of those hold the band."""


@functools.lru_cache(maxsize=256)
def bands(windows: Windows, channels: int, filters: int, itemsize: int) -> Bands | None:
    """The height that should cost least, or None where not even one channel fits into the scratch."""
    best, least = (0, 0, 0), math.inf
    (down, across), (tall, wide) = windows.counts, windows.kernel
    for height in _HEIGHTS:
        if height > down:
            break
        seen = (height - 1) * windows.strides[0] + (tall - 1) * windows.dilations[0] + 1
        seen = min(seen, windows.sizes[0])
        cells = wide * seen
        width = min(across, ROOM // itemsize // max(cells, 1) - height * filters)
        if width < min(across, 16):
            break
        cost = _COPY * cells / height + _MULTIPLY * filters * cells * max(1, 6 / height)
        cost += (_PRODUCT * filters + _TILE / channels) / (height * width)
        cost *= -(-down // height) * height / down
        if cost < least:
            best, least = (height, width, cells), cost
    height, width, cells = best
    if not height:
        return None
    split = height * filters * cells
    rows = tuple(_rows(windows, top, min(top + height, down)) for top in range(0, down, height))
    columns = tuple(
        _columns(windows, left, min(left + width, across)) for left in range(0, across, width)
    )
    return Bands(windows, rows, columns, split + width * cells, split)


def _rows(windows: Windows, top: int, stop: int) -> Rows:
    stride = windows.strides[0]
    first = top * stride - windows.before[0]
    low = max(first, 0)
    high = max(low, min(first + (stop - top - 1) * stride + windows.reaches[0], windows.sizes[0]))
    pattern = []
    for row in range(stop - top):
        start = first - low + row * stride
        kept = clipped(start, windows.dilations[0], windows.kernel[0], high - low)
        if kept is not None:
            pattern.append((row, *kept))
    return Rows(slice(top, stop), slice(low, high), tuple(pattern))


def _columns(windows: Windows, left: int, stop: int) -> Columns:
    stride, count = windows.strides[1], stop - left
    shifts: list[tuple[tuple[slice, ...], slice | None, slice | None]] = []
    for tap in range(windows.kernel[1]):
        first = left * stride - windows.before[1] + tap * windows.dilations[1]
        kept = clipped(first, stride, count, windows.sizes[1])
        if kept is None:
            shifts.append(((slice(0, count),), None, None))
            continue
        to = kept[0]
        zeros = [slice(0, to.start)] if to.start else []
        zeros += [slice(to.stop, count)] if to.stop < count else []
        shifts.append((tuple(zeros), *kept))
    return Columns(slice(left, stop), tuple(shifts))


def convolve_in_bands(
    plan: Bands, x: Array, w: Array, out: Array, finish: Finish | None
) -> Iterator[tuple[int, slice]]:
    """Fill out [N, channel, filter, H, W] from x [N, channel, H, W] and w [channel, filter, KH, KW].

    Yields the item and channels that it leaves undone.
    """
    channels = x.shape[1]
    step = min(channels, max(1, ROOM // (plan.cells * w.itemsize)))
    scratch = np.empty(step * plan.cells, w.dtype)
    finite = math.isfinite(np.vdot(w, w))
    turned = w.transpose(0, 1, 3, 2)
    for item in range(x.shape[0]):
        for first in range(0, channels, step):
            part = slice(first, min(first + step, channels))
            given = x[item, part]
            flat = given.reshape(-1)
            if not finite or not math.isfinite(np.vdot(flat, flat)):
                yield item, part
                continue
            made = out[item, part]
            _fill(plan, given, turned[part], made, scratch)
            if finish is not None:
                finish(made.reshape(*made.shape[:2], -1), item, part, slice(None))


def _fill(plan: Bands, x: Array, turned: Array, out: Array, scratch: Array) -> None:
    """Some channels of one item: x [channel, H, W], turned [channel, filter, KW, KH], out [channel, filter, H, W]."""
    channels, filters, across = turned.shape[:3]
    split = channels * plan.split
    known: tuple[object, ...] = ()
    matrix = scratch[:0]
    for rows in plan.rows:
        height, count = rows.made.stop - rows.made.start, rows.seen.stop - rows.seen.start
        if (height, count, rows.pattern) != known:
            known = (height, count, rows.pattern)
            matrix = scratch[: channels * filters * height * across * count]
            matrix.fill(0)
            matrix = matrix.reshape(channels, filters, height, across, count)
            for row, taps, seen in rows.pattern:
                matrix[:, :, row, :, seen] = turned[..., taps]
            matrix = matrix.reshape(channels, filters, height, across * count)
        given, made = x[:, rows.seen], out[:, :, rows.made]
        for columns in plan.columns:
            width = columns.made.stop - columns.made.start
            laid = scratch[split : split + channels * across * count * width]
            laid = laid.reshape(channels, across, count, width)
            for tap, (zeros, to, of) in enumerate(columns.shifts):
                for zero in zeros:
                    laid[:, tap, :, zero] = 0
                if to is not None:
                    laid[:, tap, :, to] = given[:, :, of]
            flat = laid.reshape(channels, across * count, width)
            for number in range(filters):
                np.matmul(matrix[:, number], flat, made[:, number, :, columns.made])
