"""Conv, over any number of spatial axes: X [N, C, D1, ...], W [M, C / group, K1, ...], B [M] -> Y [N, M, ...].

https://onnx.ai/onnx/operators/onnx__Conv.html. A kernel of a single element is one matrix product for each group.
Else the windows are laid out as the columns of a matrix, a box of windows at a time; where each group has a channel of
its own, whole ranges of a padded patch of X serve as rows of that matrix. Beyond inputs and outputs a call holds at
most :data:`SCRATCH` bytes, or, where they take more, the columns of one window: as many elements as W has for one
output channel. float16 and bfloat16 are added up in float32 and rounded once; for them W in float32 comes on top.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    FLOAT32,
    operands,
    same_type,
)
from onnx_notebook_profiler.evaluator.kernels._shifts import Shifts, shifts_of
from onnx_notebook_profiler.evaluator.kernels._windows import (
    Box,
    Windows,
    boxes,
    clipped,
    sliding,
    taps,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["SCRATCH", "Conv"]

SCRATCH: Final = 2**22
"""Bytes that a call may use beyond its inputs and outputs."""

_COLUMNS: Final = SCRATCH // 2
_PATCH: Final = SCRATCH // 2
_SHIFTED: Final = 2**18
"""Elements of scratch where groups have one channel: what the cache holds."""


@register("Conv", since_version=1)
class Conv(Kernel):
    """Convolution in groups, with strides, dilations, padding and an optional bias."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Batch, filters and the number of windows along each spatial axis."""
        x, w = operands(self.spec, inputs, 2)
        bias = inputs[2] if len(inputs) > 2 else None
        dtype = same_type(self.spec, (x, w) if bias is None else (x, w, bias))
        if dtype.char not in "efd" and dtype != BFLOAT16:
            raise UnsupportedOperatorError(f"Conv is for floats, got {dtype}")
        if x.ndim < 3 or w.ndim != x.ndim:
            raise ValueError(
                "Conv expects X [N, C, D1, ...] and W [M, C / group, K1, ...], "
                f"got shapes {x.shape} and {w.shape}"
            )
        group, filters = self._group, w.shape[0]
        if group < 1 or x.shape[1] != w.shape[1] * group or filters % group:
            raise ValueError(f"Conv: X {x.shape} and W {w.shape} do not fit group {group}")
        if list(self.spec.attributes.get("kernel_shape") or w.shape[2:]) != list(w.shape[2:]):
            raise ValueError(f"Conv: W of shape {w.shape} is not as kernel_shape says")
        if bias is not None and bias.shape != (filters,):
            raise ValueError(f"Conv expects a bias for each of {filters} filters, got {bias.shape}")
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        return (TensorSpec((x.shape[0], filters, *windows.counts), dtype),)

    @property
    def _group(self) -> int:
        group: int = self.spec.attributes.get("group", 1)
        return group

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Choose the way."""
        x, w, out = inputs[0], inputs[1], outputs[0]
        bias = inputs[2] if len(inputs) > 2 else None
        if not out.size:
            return
        group = self._group
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        if out.dtype.char not in "fd":
            w = w.astype(FLOAT32)
        elif _is_pointwise(windows):
            _pointwise(x, w, bias, out, group)
            return
        room = _shifted_room(windows, w.shape[0] // group) if w.shape[1] == 1 < group else 0
        if room:
            _shifted(x, w, bias, out, windows, room)
        else:
            _columns(x, w, bias, out, windows, group)


def _is_pointwise(windows: Windows) -> bool:
    """True where window number i sees element i and nothing else."""
    return (
        math.prod(windows.kernel) == 1
        and windows.counts == windows.sizes
        and not any(windows.before)
        and max(windows.strides) == 1
    )


def _pointwise(x: Array, w: Array, bias: Array | None, out: Array, group: int) -> None:
    """W times X, straight into the output."""
    batch, places = x.shape[0], math.prod(x.shape[2:])
    channels, filters = w.shape[1], w.shape[0] // group
    target = out.reshape(batch, group, filters, places)
    matrix = w.reshape(group, filters, channels)
    np.matmul(matrix, x.reshape(batch, group, channels, places), target)
    if bias is not None:
        np.add(target, bias.reshape(group, filters, 1), target)


def _columns(
    x: Array, w: Array, bias: Array | None, out: Array, windows: Windows, group: int
) -> None:
    """Lay the windows of a box out as the columns of a matrix and multiply it by the filters of a group."""
    channels, filters = w.shape[1], w.shape[0] // group
    depth, places = channels * math.prod(windows.kernel), math.prod(windows.counts)
    narrow = w.dtype != out.dtype
    height = depth + filters if narrow else depth
    room = min(max(1, _COLUMNS // (max(height, 1) * w.itemsize)), places)
    scratch = np.empty(depth * room, w.dtype)
    wide = np.empty(filters * room if narrow else 0, w.dtype)
    matrix = w.reshape(group, filters, depth)
    flat = out.reshape(x.shape[0], group, filters, places)
    stop = 0
    for box in boxes(windows.counts, room):
        shape = tuple(part.stop - part.start for part in box)
        start, stop = stop, stop + math.prod(shape)
        columns = scratch[: depth * (stop - start)].reshape(depth, stop - start)
        grid = columns.reshape(channels, *windows.kernel, *shape)
        for item, part in itertools.product(range(x.shape[0]), range(group)):
            own = slice(part * channels, (part + 1) * channels)
            _lay_out(grid, x[item, own], windows, box)
            target = flat[item, part, :, start:stop]
            total = wide[: target.size].reshape(target.shape) if narrow else target
            np.matmul(matrix[part], columns, total)
            if bias is not None:
                np.add(total, bias.reshape(group, filters, 1)[part], total, casting="unsafe")
            if narrow:
                np.copyto(target, total, casting="unsafe")


def _lay_out(grid: Array, x: Array, windows: Windows, box: Box) -> None:
    """Fill *grid* [channel, K1, ..., window along D1, ...] with what the windows of *box* see of x [channel, D1, ...].

    What is padded is copied first, so that a window never leaves its array; where that copy would be large, because
    few windows reach far, each tap is copied by itself.
    """
    lengths = tuple(
        (part.stop - part.start - 1) * stride + reach
        for part, stride, reach in zip(box, windows.strides, windows.reaches, strict=True)
    )
    firsts = [
        part.start * stride - before
        for part, stride, before in zip(box, windows.strides, windows.before, strict=True)
    ]
    inside = all(
        first >= 0 and first + length <= size
        for first, length, size in zip(firsts, lengths, windows.sizes, strict=True)
    )
    if inside:
        corner = tuple(slice(first, None) for first in firsts)
        np.copyto(grid, _view(x[(slice(None), *corner)], windows, box))
    elif grid.shape[0] * math.prod(lengths) * x.itemsize <= _PATCH:
        patch = np.zeros((grid.shape[0], *lengths), x.dtype)
        kept = [
            clipped(first, 1, length, size)
            for first, length, size in zip(firsts, lengths, windows.sizes, strict=True)
        ]
        seen = [ranges for ranges in kept if ranges is not None]
        if len(seen) == len(kept):
            inner = patch[(slice(None), *(to for to, _ in seen))]
            np.copyto(inner, x[(slice(None), *(of for _, of in seen))])
        np.copyto(grid, _view(patch, windows, box))
    else:
        grid.fill(0)
        for tap in taps(windows, box):
            place: tuple[Any, ...] = (slice(None), *tap.position, *tap.windows)
            grid[place] = x[(slice(None), *tap.values)]


def _view(x: Array, windows: Windows, box: Box) -> Array:
    """The windows over x [channel, D1, ...], the first of which starts in its corner, without a copy."""
    steps = x.strides[1:]
    return as_strided(
        x,
        (x.shape[0], *windows.kernel, *(part.stop - part.start for part in box)),
        (
            x.strides[0],
            *(step * dilation for step, dilation in zip(steps, windows.dilations, strict=True)),
            *(step * stride for step, stride in zip(steps, windows.strides, strict=True)),
        ),
        writeable=False,
    )


def _shifted_room(windows: Windows, filters: int) -> int:
    """How many windows a box of the shifted way holds; 0 where already one needs too much scratch."""
    room = math.prod(windows.counts)
    while room:
        box = next(boxes(windows.counts, room))
        shape = tuple(part.stop - part.start for part in box)
        if shifts_of(windows, shape).cells(filters) <= _SHIFTED:
            return room
        room //= 2
    return 0


def _shifted(
    x: Array, w: Array, bias: Array | None, out: Array, windows: Windows, room: int
) -> None:
    """Each group has one channel: lay out whole ranges of a patch for many channels at once."""
    channels, filters = x.shape[1], w.shape[0] // x.shape[1]
    matrix = w.reshape(channels, filters, -1)
    offsets = None if bias is None else bias.reshape(channels, filters, *[1] * len(windows.sizes))
    target = out.reshape(x.shape[0], channels, filters, *windows.counts)
    scratch = np.empty(_SHIFTED, w.dtype)
    for box in boxes(windows.counts, room):
        shifts = shifts_of(windows, tuple(part.stop - part.start for part in box))
        step = _SHIFTED // shifts.cells(filters)
        for item, first in itertools.product(range(x.shape[0]), range(0, channels, step)):
            part = slice(first, min(first + step, channels))
            found = _products(x[item, part], matrix[part], windows, box, shifts, scratch)
            into = target[item, part][(slice(None), slice(None), *box)]
            if offsets is None:
                np.copyto(into, found, casting="unsafe")
            else:
                np.add(found, offsets[part], into, casting="unsafe")


def _products(
    x: Array, matrix: Array, windows: Windows, box: Box, shifts: Shifts, scratch: Array
) -> Array:
    """X [channel, D1, ...] seen through *box* times matrix [channel, filter, tap] -> [channel, filter, window...]."""
    channels, filters = matrix.shape[:2]
    patch, columns, sums = shifts.split(scratch, channels, filters)
    shifts.fill(patch, x, windows, box)
    flat = patch.reshape(*patch.shape[:2], -1)
    for number, (place, offset) in enumerate(shifts.taps):
        np.copyto(columns[:, number], flat[place, :, offset : offset + shifts.length])
    rows = sums.reshape(channels, filters, -1)[:, :, : shifts.length]
    np.matmul(matrix, columns, rows)
    return sums[(slice(None), slice(None), *map(slice, shifts.shape))]
