"""Windows folded by a ufunc such as maximum or add: one axis after the other.

A window of 3 x 3 takes 4 operations for each result that way, not 8, and the first of them are on whole rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._sums import add_rows, rows_of
from onnx_notebook_profiler.evaluator.kernels._windows import Box, Windows, clipped

__all__ = ["fold"]


def fold(
    function: np.ufunc, neutral: float, x: Array, out: Array, windows: Windows, box: Box
) -> None:
    """Fill out [plane, window...] with what the windows of *box* see of x [plane, D1, ...], folded by *function*.

    *neutral* changes nothing, and is what a window gives that sees only padding. Sums are made in the type of *out*.
    """
    firsts, seen = [], []
    for axis, part in enumerate(box):
        first = part.start * windows.strides[axis] - windows.before[axis]
        reach = (part.stop - part.start - 1) * windows.strides[axis] + windows.reaches[axis]
        low, high = max(first, 0), min(first + reach, windows.sizes[axis])
        if high <= low:
            out.fill(neutral)
            return
        firsts.append(first - low)
        seen.append(slice(low, high))
    values = x[(slice(None), *seen)]
    if out.size == len(out):
        _whole(function, values, out.reshape(-1), firsts, windows)
        return
    last = max((axis for axis in range(len(box)) if _moves(windows, axis)), default=-1)
    if last < 0:
        np.copyto(out, values, casting="unsafe")
    for axis, first in enumerate(firsts[: last + 1]):
        if _moves(windows, axis):
            shape = (*out.shape[: axis + 2], *values.shape[axis + 2 :])
            target = out if axis == last else np.empty(shape, out.dtype)
            _along(function, neutral, values, target, windows, axis, first)
            values = target


def _whole(
    function: np.ufunc, values: Array, out: Array, firsts: list[int], windows: Windows
) -> None:
    """One window for each plane: fold all that it sees at once."""
    taken: list[slice] = [slice(None)]
    for axis, first in enumerate(firsts):
        kept = clipped(first, windows.dilations[axis], windows.kernel[axis], values.shape[axis + 1])
        if kept is None:
            taken.append(slice(0, 0))
        else:
            taken.append(kept[1])
    seen = values[tuple(taken)]
    axes = tuple(range(1, seen.ndim))
    rows = rows_of(seen, axes) if function is np.add and seen.dtype == out.dtype else None
    if rows is not None:
        add_rows(rows, out)
    else:
        function.reduce(seen, axis=axes, dtype=out.dtype, out=out)


def _moves(windows: Windows, axis: int) -> bool:
    """Whether windows along *axis* are anything but its elements."""
    return (
        windows.kernel[axis] > 1
        or windows.strides[axis] > 1
        or windows.counts[axis] != windows.sizes[axis]
        or windows.before[axis] != 0
    )


def _along(
    function: np.ufunc,
    neutral: float,
    values: Array,
    out: Array,
    windows: Windows,
    axis: int,
    first: int,
) -> None:
    """Fold along one axis of *windows*, the first of which begins at *first*; window by window where they are few."""
    ahead: tuple[Any, ...] = (slice(None),) * (axis + 1)
    stride, dilation, kernel = windows.strides[axis], windows.dilations[axis], windows.kernel[axis]
    size, count = values.shape[axis + 1], out.shape[axis + 1]
    if 2 * count < kernel:
        for number in range(count):
            kept = clipped(first + number * stride, dilation, kernel, size)
            into = out[(*ahead, number)]
            if kept is None:
                into.fill(neutral)
            else:
                function.reduce(values[(*ahead, kept[1])], axis=axis + 1, dtype=out.dtype, out=into)
        return
    taps = [clipped(first + k * dilation, stride, count, size) for k in range(kernel)]
    kept_taps = [tap for tap in taps if tap is not None]
    whole = [of for to, of in kept_taps if to.stop - to.start == count]
    parts: list[tuple[Any, Any]] = [tap for tap in kept_taps if tap[1] not in whole[:2]]
    if len(whole) > 1:
        pair = (values[(*ahead, whole[0])], values[(*ahead, whole[1])])
        function(*pair, out=out, dtype=out.dtype)
    elif whole:
        np.copyto(out, values[(*ahead, whole[0])], casting="unsafe")
    else:
        out.fill(neutral)
    flows = axis + 2 == out.ndim and size == stride * count
    flows = flows and out.flags.c_contiguous and values.flags.c_contiguous
    for to, of in parts:
        into = out[(*ahead, to)]
        if flows and 2 * (to.stop - to.start) > count:
            _across_rows(function, values, out, to, of, stride)
        else:
            function(into, values[(*ahead, of)], out=into, dtype=out.dtype)


def _across_rows(
    function: np.ufunc, values: Array, out: Array, to: slice, of: slice, stride: int
) -> None:
    """``out[..., to]`` folded with ``values[..., of]`` in one run over all rows, whose ends keep what they had.

    Rows of *values* are *stride* times as long as those of *out*, so the run has the same step everywhere.
    """
    before, after = out[..., : to.start].copy(), out[..., to.stop :].copy()
    source, target = values.reshape(-1), out.reshape(-1)
    kept = clipped(of.start - to.start * stride, stride, target.size, source.size)
    if kept is not None:
        into = target[kept[0]]
        function(into, source[kept[1]], out=into, dtype=out.dtype)
    out[..., : to.start] = before
    out[..., to.stop :] = after
