"""MaxPool and AveragePool, over any number of spatial axes: X [N, C, D1, ...] -> Y [N, C, ...].

https://onnx.ai/onnx/operators/onnx__MaxPool.html and https://onnx.ai/onnx/operators/onnx__AveragePool.html. The work
goes over blocks of at most :data:`BLOCK` results; what a call holds beyond inputs and outputs is a few arrays of that
many elements. Windows that see nothing but padding have the lowest value as maximum, and 0 as average.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._fold import fold
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
    pool_windows,
    taps,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BLOCK", "AveragePool", "MaxPool", "fold_largest", "fold_means"]

BLOCK: Final = 2**16
"""Results that are computed at a time."""
_REMEMBERED: Final = 64


class _Pool(Kernel):
    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._known: dict[tuple[int, ...], Windows] = {}

    def _windows(self, x: Array) -> Windows:
        """Remembered for the last shapes."""
        windows = self._known.get(x.shape)
        if windows is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            windows = self._known[x.shape] = pool_windows(self.spec, x)
        return windows

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
        if places is None:
            fold_largest(planes, largest, windows)
            return
        largest.fill(_lowest(x.dtype))
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
        fold_means(planes, means, windows, padding=padding)


def fold_largest(planes: Array, largest: Array, windows: Windows) -> None:
    """Fill largest [plane, window...] from planes [plane, D1, ...]."""
    for part, box in _blocks(largest):
        fold(np.maximum, _lowest(planes.dtype), planes[part], largest[(part, *box)], windows, box)


def fold_means(planes: Array, means: Array, windows: Windows, *, padding: bool) -> None:
    """Fill means [plane, window...] from planes [plane, D1, ...]; with *padding* its zeros count."""
    for part, box in _blocks(means):
        target = means[(part, *box)]
        total = target if means.dtype.char in "fd" else np.empty(target.shape, FLOAT32)
        fold(np.add, 0, planes[part], total, windows, box)
        np.divide(total, divisors(windows, box, total.dtype, padding=padding), total)
        if total is not target:
            np.copyto(target, total, casting="unsafe")


def _lowest(dtype: np.dtype[Any]) -> float:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _blocks(results: Array) -> Iterator[tuple[slice, Box]]:
    """Cut results [plane, window along D1, ...] into ranges of planes and boxes of windows."""
    step = max(1, BLOCK // math.prod(results.shape[1:]))
    for first in range(0, results.shape[0], step):
        part = slice(first, min(first + step, results.shape[0]))
        for box in boxes(results.shape[1:], BLOCK):
            yield part, box


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


def divisors(windows: Windows, box: Box, dtype: np.dtype[Any], *, padding: bool) -> Array | int:
    """How many taps of each window in *box* count: those inside the input, or inside its *padding* too; at least 1."""
    counts = _tap_counts(windows, padding)
    if all(len(set(found)) == 1 for found in counts):
        return max(1, math.prod(found[0] for found in counts))
    total: Array = np.ones([part.stop - part.start for part in box], dtype)
    for factor in np.ix_(*(np.array(found[part]) for found, part in zip(counts, box, strict=True))):
        total *= factor.astype(dtype)
    np.maximum(total, dtype.type(1), out=total)
    return total


@functools.lru_cache(maxsize=256)
def _tap_counts(windows: Windows, padding: bool) -> tuple[tuple[int, ...], ...]:
    """Along each axis, how many taps of each window lie inside the input, or inside its *padding* too."""
    axes = []
    for axis, size in enumerate(windows.sizes):
        before, after = windows.before[axis], windows.after[axis]
        low, high = (-before, size + after) if padding else (0, size)
        dilation, kernel = windows.dilations[axis], windows.kernel[axis]
        found = []
        for number in range(windows.counts[axis]):
            first = number * windows.strides[axis] - before
            # the number of taps before a place: the distance to it, divided by the dilation and rounded up
            skipped, reached = (
                min(max(-((first - place) // dilation), 0), kernel) for place in (low, high)
            )
            found.append(reached - skipped)
        axes.append(tuple(found))
    return tuple(axes)
