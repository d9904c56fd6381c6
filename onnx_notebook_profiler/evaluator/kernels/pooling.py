"""MaxPool and AveragePool, over any number of spatial axes: X [N, C, D1, ...] -> Y [N, C, ...].

https://onnx.ai/onnx/operators/onnx__MaxPool.html and https://onnx.ai/onnx/operators/onnx__AveragePool.html. The work
goes over blocks of at most :data:`BLOCK` results; what a call holds beyond inputs and outputs is a few arrays of that
many elements. Windows that see nothing but padding have the lowest value as maximum, and 0 as average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    FLOAT32,
    INT64,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels._windows import (
    Box,
    Tap,
    Windows,
    boxes,
    clipped,
    sliding,
    taps,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BLOCK", "AveragePool", "MaxPool"]

BLOCK: Final = 2**16
"""Results that are computed at a time."""


class _Pool(Kernel):
    def _windows(self, x: Array) -> Windows:
        kernel = self.spec.attributes.get("kernel_shape") or ()
        if x.ndim < 3 or len(kernel) != x.ndim - 2:
            raise ValueError(
                f"{self.spec.op_type} expects X [N, C, D1, ...] and kernel_shape for its spatial "
                f"axes, got shape {x.shape} and {list(kernel)}"
            )
        return sliding(self.spec, x.shape[2:], kernel, ceil=bool(self._flag("ceil_mode")))

    def _flag(self, name: str) -> int:
        value: int = self.spec.attributes.get(name, 0)
        return value

    def _output(self, x: Array) -> tuple[int, ...]:
        return (*x.shape[:2], *self._windows(x).counts)


@register("MaxPool", since_version=1)
class MaxPool(_Pool):
    """The largest value of each window, and on request where it stands in X; NaN counts as largest."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y of X's type, and Indices."""
        x = operands(self.spec, inputs, 1)[0]
        if x.dtype.kind not in "fiu" and x.dtype != BFLOAT16:
            raise UnsupportedOperatorError(f"MaxPool is for numbers, got {x.dtype}")
        shape = self._output(x)
        return (TensorSpec(shape, x.dtype), TensorSpec(shape, INT64))[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array | None]) -> None:
        """Maximum over the taps; where positions are wanted, tap by tap with comparisons."""
        x, y = inputs[0], outputs[0]
        places = outputs[1] if len(outputs) > 1 else None
        windows = self._windows(x)
        shape = (*x.shape[:2], *windows.counts)
        if not math.prod(shape):
            return
        planes = x.reshape(-1, *windows.sizes)
        if y is None:
            y = np.empty(shape, x.dtype)
        largest = y.reshape(-1, *windows.counts)
        largest.fill(np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf)
        if places is None:
            for part, box in _blocks(largest):
                _accumulate(np.maximum, planes[part], largest[(part, *box)], windows, box)
            return
        indices = places.reshape(-1, *windows.counts)
        indices.fill(-1)
        pitches = _pitches(windows.sizes, column_major=bool(self._flag("storage_order")))
        for part, box in _blocks(largest):
            origins = np.arange(part.start, part.stop) * math.prod(windows.sizes)
            for tap in taps(windows, box):
                inside = (slice(None), *tap.windows)
                _keep_larger(
                    planes[(part, *tap.values)],
                    largest[(part, *box)][inside],
                    indices[(part, *box)][inside],
                    origins.reshape(-1, *[1] * len(box)) + _positions(tap, pitches),
                )


@register("AveragePool", since_version=1)
class AveragePool(_Pool):
    """The mean of each window; float16 and bfloat16 are added up in float32."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y of X's type."""
        x = operands(self.spec, inputs, 1)[0]
        if x.dtype.char not in "efd" and x.dtype != BFLOAT16:
            raise UnsupportedOperatorError(f"AveragePool is for floats, got {x.dtype}")
        return (TensorSpec(self._output(x), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Sum over the taps, divided by how many there are in the window."""
        x, y = inputs[0], outputs[0]
        if not y.size:
            return
        windows = self._windows(x)
        padding = bool(self._flag("count_include_pad"))
        planes, means = x.reshape(-1, *windows.sizes), y.reshape(-1, *windows.counts)
        for part, box in _blocks(means):
            target = means[(part, *box)]
            total = target if y.dtype.char in "fd" else np.empty(target.shape, FLOAT32)
            total.fill(0)
            _accumulate(np.add, planes[part], total, windows, box)
            np.divide(total, _divisors(windows, box, total.dtype, padding=padding), total)
            if total is not target:
                np.copyto(target, total, casting="unsafe")


def _blocks(results: Array) -> Iterator[tuple[slice, Box]]:
    """Cut results [plane, window along D1, ...] into ranges of planes and boxes of windows."""
    step = max(1, BLOCK // math.prod(results.shape[1:]))
    for first in range(0, results.shape[0], step):
        part = slice(first, min(first + step, results.shape[0]))
        for box in boxes(results.shape[1:], BLOCK):
            yield part, box


def _accumulate(function: np.ufunc, x: Array, total: Array, windows: Windows, box: Box) -> None:
    """Apply *function* to *total* and all values of x [plane, D1, ...] that the windows of *box* see.

    Goes window by window where these are fewer than the taps.
    """
    if math.prod(total.shape[1:]) >= math.prod(windows.kernel):
        for tap in taps(windows, box):
            view = total[(slice(None), *tap.windows)]
            function(view, x[(slice(None), *tap.values)], out=view)
        return
    axes = tuple(range(1, x.ndim))
    for window in itertools.product(*(range(part.start, part.stop) for part in box)):
        seen = [slice(None)]
        for axis, number in enumerate(window):
            first = number * windows.strides[axis] - windows.before[axis]
            kept = clipped(
                first, windows.dilations[axis], windows.kernel[axis], windows.sizes[axis]
            )
            seen += [] if kept is None else [kept[1]]
        if len(seen) == x.ndim:
            place = tuple(number - part.start for number, part in zip(window, box, strict=True))
            values = x[tuple(seen)]
            total[(slice(None), *place)] = function.reduce(values, axis=axes, dtype=total.dtype)


def _keep_larger(values: Array, largest: Array, indices: Array, positions: Array) -> None:
    """Take *values* that exceed *largest* or are the first, and their *positions*."""
    taken = np.less_equal(values, largest)
    np.logical_not(taken, taken)
    taken &= np.equal(largest, largest)  # the first NaN stays
    taken |= np.less(indices, 0)
    np.copyto(largest, values, where=taken)
    np.copyto(indices, positions, where=taken)


def _pitches(sizes: tuple[int, ...], *, column_major: bool) -> list[int]:
    """What a step along each axis adds to the index of an element in its plane."""
    if column_major:
        return [math.prod(sizes[:axis]) for axis in range(len(sizes))]
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _positions(tap: Tap, pitches: Sequence[int]) -> Array:
    """The index of each value of *tap* in its plane."""
    steps = [
        np.arange(values.start, values.stop, values.step) * pitch
        for values, pitch in zip(tap.values, pitches, strict=True)
    ]
    total: Array = sum(np.ix_(*steps), start=np.zeros((), INT64))
    return total


def _divisors(windows: Windows, box: Box, dtype: np.dtype[Any], *, padding: bool) -> Array:
    """How many taps of each window in *box* count: those inside the input, or inside its *padding* too; at least 1."""
    counts = []
    for axis, part in enumerate(box):
        before, after = windows.before[axis], windows.after[axis]
        low, high = (-before, windows.sizes[axis] + after) if padding else (0, windows.sizes[axis])
        first = np.arange(part.start, part.stop) * windows.strides[axis] - before
        # the number of taps before a place: the distance to it, divided by the dilation and rounded up
        ends = (-((first - place) // windows.dilations[axis]) for place in (low, high))
        skipped, reached = (np.clip(end, 0, windows.kernel[axis]) for end in ends)
        counts.append((reached - skipped).astype(dtype))
    total: Array = np.ones([count.size for count in counts], dtype)
    for count in np.ix_(*counts):
        total *= count
    np.maximum(total, dtype.type(1), out=total)
    return total
