"""Windows as shifted ranges of a patch, for convolutions whose groups have one channel each.

A patch is a piece of the padded input, cut into phases: elements that lie whole strides apart are neighbours in one
*grid*. There, what a tap contributes to all windows of a box is one contiguous range, in which the windows stand with
gaps between the rows of the grid. Long ranges are what numpy copies fast.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._windows import Box, Windows, clipped

__all__ = ["Shifts", "shifts_of"]


class Shifts(NamedTuple):
    """How *shape* windows lie in a patch."""

    shape: tuple[int, ...]
    phases: tuple[tuple[int, ...], ...]
    grid: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]
    """For each tap, in row-major order: its phase, and where its range begins in the flat grid."""
    length: int
    """Elements of a range."""

    @property
    def _span(self) -> int:
        """Elements from the first window to the end of the last row of windows."""
        return self.shape[0] * math.prod(self.grid[1:])

    def cells(self, filters: int) -> int:
        """Elements of scratch for each channel: patch, columns and sums."""
        return (
            len(self.phases) * math.prod(self.grid)
            + len(self.taps) * self.length
            + filters * self._span
        )

    def split(self, scratch: Array, channels: int, filters: int) -> tuple[Array, Array, Array]:
        """Patch [phase, channel, grid...], columns [channel, tap, length] and sums [channel, filter, row, ...].

        A row of the sums is as long as a row of the grid.
        """
        patch = channels * len(self.phases) * math.prod(self.grid)
        columns = patch + channels * len(self.taps) * self.length
        sums = columns + channels * filters * self._span
        return (
            scratch[:patch].reshape(len(self.phases), channels, *self.grid),
            scratch[patch:columns].reshape(channels, len(self.taps), self.length),
            scratch[columns:sums].reshape(channels, filters, self.shape[0], *self.grid[1:]),
        )

    def fill(self, patch: Array, x: Array, windows: Windows, box: Box) -> None:
        """Copy what the windows of *box* see of x [channel, D1, ...]; the padding is 0."""
        for into, phase in zip(patch, self.phases, strict=True):
            ranges = []
            for axis, part in enumerate(box):
                stride = windows.strides[axis]
                first = part.start * stride - windows.before[axis] + phase[axis]
                kept = clipped(first, stride, self.grid[axis], windows.sizes[axis])
                if kept is not None:
                    ranges.append(kept)
            whole = all(
                to.stop - to.start == size for (to, _), size in zip(ranges, self.grid, strict=False)
            )
            if len(ranges) < len(box) or not whole:
                into.fill(0)
            if len(ranges) == len(box):
                place = (slice(None), *(to for to, _ in ranges))
                into[place] = x[(slice(None), *(of for _, of in ranges))]


@functools.lru_cache(maxsize=256)
def shifts_of(windows: Windows, shape: tuple[int, ...]) -> Shifts:
    """The shifts of a box of *shape* windows."""
    grid = tuple(
        count + (reach - 1) // stride
        for count, reach, stride in zip(shape, windows.reaches, windows.strides, strict=True)
    )
    pitches = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    places: dict[tuple[int, ...], int] = {}
    found = []
    for position in itertools.product(*map(range, windows.kernel)):
        moves = [
            divmod(k * dilation, stride)
            for k, dilation, stride in zip(
                position, windows.dilations, windows.strides, strict=True
            )
        ]
        place = places.setdefault(tuple(phase for _, phase in moves), len(places))
        found.append(
            (place, sum(whole * pitch for (whole, _), pitch in zip(moves, pitches, strict=True)))
        )
    length = sum((count - 1) * pitch for count, pitch in zip(shape, pitches, strict=True)) + 1
    return Shifts(shape, tuple(places), grid, tuple(found), length)
