"""Conv, over any number of spatial axes: X [N, C, D1, ...], W [M, C / group, K1, ...], B [M] -> Y [N, M, ...].

https://onnx.ai/onnx/operators/onnx__Conv.html. A kernel of a single element is one matrix product for each group. Where
each group has a channel of its own, two axes are done with banded matrices, and others with ranges of a padded patch of
X as rows of a matrix. All else lays the windows out as columns of matrices, a box of windows at a time. Beyond inputs
and outputs a call holds at most :data:`SCRATCH` bytes, or, where they take more, the columns of one window: as many
elements as W has for one output channel. float16 and bfloat16 are added up in float32 and rounded once; for them W in
float32 comes on top.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._bands import bands, convolve_in_bands
from onnx_notebook_profiler.evaluator.kernels._columns import convolve, multiply_columns, plan_of
from onnx_notebook_profiler.evaluator.kernels._finish import Finish
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    FLOAT32,
    operands,
    same_type,
)
from onnx_notebook_profiler.evaluator.kernels._shifts import Shifts, shifts_of
from onnx_notebook_profiler.evaluator.kernels._windows import Box, Windows, boxes, sliding
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["SCRATCH", "Conv", "check_operands", "convolution"]

SCRATCH: Final = 2**22
"""Bytes that a call may use beyond its inputs and outputs."""

_SHIFTED: Final = 2**18
"""Elements of scratch where groups have one channel: what the cache holds."""
_TILE: Final = 2**17
"""Results of a kernel of one element that are made at a time where something is to be done with them at once."""


def check_operands(
    spec: NodeSpec, x: Array, w: Array, bias: Array | None, group: int
) -> np.dtype[Any]:
    """The type of a convolution's inputs.

    Raises:
        ValueError: Their shapes or types do not fit each other.
        UnsupportedOperatorError: They are no floats.
    """
    name = spec.op_type
    dtype = same_type(spec, (x, w) if bias is None else (x, w, bias))
    if dtype.char not in "efd" and dtype != BFLOAT16:
        raise UnsupportedOperatorError(f"{name} is for floats, got {dtype}")
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ValueError(
            f"{name} expects X [N, C, D1, ...] and W [M, C / group, K1, ...], "
            f"got shapes {x.shape} and {w.shape}"
        )
    filters = w.shape[0]
    if group < 1 or x.shape[1] != w.shape[1] * group or filters % group:
        raise ValueError(f"{name}: X {x.shape} and W {w.shape} do not fit group {group}")
    if list(spec.attributes.get("kernel_shape") or w.shape[2:]) != list(w.shape[2:]):
        raise ValueError(f"{name}: W of shape {w.shape} is not as kernel_shape says")
    if bias is not None and bias.shape != (filters,):
        raise ValueError(f"{name} expects a bias for each of {filters} filters, got {bias.shape}")
    return dtype


@register("Conv", since_version=1)
class Conv(Kernel):
    """Convolution in groups, with strides, dilations, padding and an optional bias."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._group: int = spec.attributes.get("group", 1)
        self._known: dict[tuple[Any, ...], Windows] = {}

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Batch, filters and the number of windows along each spatial axis."""
        x, w = operands(self.spec, inputs, 2)
        bias = inputs[2] if len(inputs) > 2 else None
        dtype = check_operands(self.spec, x, w, bias, self._group)
        windows = self._windows(x, w)
        return (TensorSpec((x.shape[0], w.shape[0], *windows.counts), dtype),)

    def _windows(self, x: Array, w: Array) -> Windows:
        """Remembered for the last shapes."""
        key = (x.shape[2:], w.shape[2:])
        windows = self._known.get(key)
        if windows is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            windows = self._known[key] = sliding(self.spec, x.shape[2:], w.shape[2:])
        return windows

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """With the bias added while the sums are in the cache."""
        x, w, out = inputs[0], inputs[1], outputs[0]
        finish = Finish.of(inputs[2] if len(inputs) > 2 else None, self._group)
        convolution(x, w, out, self._windows(x, w), self._group, finish)


_REMEMBERED: Final = 64


def convolution(
    x: Array, w: Array, out: Array, windows: Windows, group: int, finish: Finish | None
) -> None:
    """Fill out [N, M, ...], choosing the way."""
    if not out.size:
        return
    narrow = out.dtype.char not in "fd"
    if narrow:
        w = w.astype(FLOAT32)
    elif _is_pointwise(windows):
        _pointwise(x, w, out, group, finish)
        return
    if w.shape[1] == 1 < group:
        _one_channel_each(x, w, out, windows, finish)
    else:
        _columns(x, w, out, windows, group, finish)


def _one_channel_each(
    x: Array, w: Array, out: Array, windows: Windows, finish: Finish | None
) -> None:
    """Two axes in bands, except for infinities and what else does not fit."""
    group, filters = x.shape[1], w.shape[0] // x.shape[1]
    plan = (
        bands(windows, group, filters, out.itemsize)
        if x.ndim == 4 and w.dtype == out.dtype
        else None
    )
    if plan is None:
        _ranges(x, w, out, windows, finish)
        return
    matrix = w.reshape(group, filters, *windows.kernel)
    target = out.reshape(x.shape[0], group, filters, *windows.counts)
    for item, part in convolve_in_bands(plan, x, matrix, target, finish):
        own, made = slice(item, item + 1), slice(part.start * filters, part.stop * filters)
        rest = None if finish is None else finish.of_part(own, part)
        _ranges(x[own, part], w[made], out[own, made], windows, rest)


def _columns(
    x: Array, w: Array, out: Array, windows: Windows, group: int, finish: Finish | None
) -> None:
    """Windows as columns of matrices."""
    narrow = w.dtype != out.dtype
    plan = plan_of(windows, group, w.shape[1], w.shape[0] // group, w.itemsize, narrow=narrow)
    convolve(plan, x, w, out, finish)


def _is_pointwise(windows: Windows) -> bool:
    """True where window number i sees element i and nothing else."""
    return (
        math.prod(windows.kernel) == 1
        and windows.counts == windows.sizes
        and not any(windows.before)
        and max(windows.strides) == 1
    )


def _pointwise(x: Array, w: Array, out: Array, group: int, finish: Finish | None) -> None:
    """W times X, straight into the output."""
    batch, places = x.shape[0], math.prod(x.shape[2:])
    channels, filters = w.shape[1], w.shape[0] // group
    target = out.reshape(batch, group, filters, places)
    given = x.reshape(batch, group, channels, places)
    matrix = w.reshape(group, filters, channels)
    if finish is None or out.size <= _TILE:
        multiply_columns(matrix, given, target)
        if finish is not None:
            finish(target, slice(None), slice(None), slice(None))
        return
    step = max(256, _TILE // max(group * filters, 1) // 64 * 64)
    for item, start in itertools.product(range(batch), range(0, places, step)):
        part = slice(start, start + step)
        tile = target[item, :, :, part]
        multiply_columns(matrix, given[item, :, :, part], tile)
        finish(tile, item, slice(None), part)


def _ranges(x: Array, w: Array, out: Array, windows: Windows, finish: Finish | None) -> None:
    """Each group has one channel: ranges of a patch, or columns where they take too much scratch."""
    room = _shifted_room(windows, w.shape[0] // x.shape[1])
    if room:
        _shifted(x, w, out, windows, room, finish)
    else:
        _columns(x, w, out, windows, x.shape[1], finish)


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
    x: Array, w: Array, out: Array, windows: Windows, room: int, finish: Finish | None
) -> None:
    """Lay out whole ranges of a patch for many channels at once."""
    channels, filters = x.shape[1], w.shape[0] // x.shape[1]
    matrix = w.reshape(channels, filters, -1)
    target = out.reshape(x.shape[0], channels, filters, *windows.counts)
    scratch = np.empty(_SHIFTED, w.dtype)
    narrow = w.dtype != out.dtype
    stop = 0
    for box in boxes(windows.counts, room):
        shape = tuple(part.stop - part.start for part in box)
        start, stop = stop, stop + math.prod(shape)
        places = slice(start, stop)
        shifts = shifts_of(windows, shape)
        step = _SHIFTED // shifts.cells(filters)
        for item, first in itertools.product(range(x.shape[0]), range(0, channels, step)):
            part = slice(first, min(first + step, channels))
            found = _products(x[item, part], matrix[part], windows, box, shifts, scratch)
            into = target[item, part][(slice(None), slice(None), *box)]
            if finish is None or not narrow:
                np.copyto(into, found, casting="unsafe")
                if finish is not None:
                    flat = out.reshape(x.shape[0], channels, filters, -1)
                    finish(flat[item, part, :, places], item, part, places)
            else:
                flat = found.reshape(*found.shape[:2], -1)
                finish(flat, item, part, places)
                np.copyto(into, flat.reshape(found.shape), casting="unsafe")


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
