"""The boxes of windows that a convolution goes over, and for each of them which elements are copied where.

All of that follows from shapes alone, so it is worked out once.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

from onnx_notebook_profiler.evaluator.kernels._windows import Box, Windows, boxes, clipped, taps

__all__ = ["Plan", "Tile", "tiles_of"]

Index = tuple[Any, ...]


class Plan(NamedTuple):
    """How a convolution is done: boxes of *room* windows, products of their own along the first *lead* axes."""

    windows: Windows
    group: int
    channels: int
    filters: int
    lead: int
    room: int
    narrow: bool
    """The sums are of a wider type than the results."""
    chunk: int = 0
    """Channels that are laid out at a time; 0: all of them."""

    @property
    def products(self) -> int:
        """Matrix products that are added up."""
        return math.prod(self.windows.kernel[: self.lead])

    @property
    def depth(self) -> int:
        """Rows of the columns of one group."""
        return self.channels * math.prod(self.windows.kernel[self.lead :])

    def grid(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Columns for *shape* windows, along each axis: along the first ones shifts need more of them."""
        reaches = self.windows.reaches
        return tuple(
            size + reaches[axis] - 1 if axis < self.lead else size
            for axis, size in enumerate(shape)
        )


class Tile(NamedTuple):
    """A box of windows. Indices are for arrays of which the spatial axes come last."""

    box: Box
    places: slice
    """The box in the flat grid of all windows."""
    shape: tuple[int, ...]
    grid: tuple[int, ...]
    cells: int
    """Columns in the grid."""
    width: int
    """Columns from the first window to the last."""
    moves: tuple[int, ...]
    """Columns from one tap to the next, along the first axes."""
    lengths: tuple[int, ...]
    """Elements that the windows see, along each axis."""
    inside: Index | None
    """Where these are in X, if none of them is padding."""
    zeros: tuple[Index, ...]
    kept: tuple[Index, Index] | None
    """Where the padding is among what the windows see, and where the rest of it goes and comes from."""
    direct: bool
    """What the windows see is already laid out: nothing is read twice."""

    def taps(self, plan: Plan) -> list[tuple[Index, Index]]:
        """For each tap where its values go in the grid [tap..., window...], and where they are in X."""
        lead = plan.lead
        windows = _without_taps(plan.windows, lead)
        grown = tuple(
            slice(part.start, part.start + size)
            for part, size in zip(self.box, self.grid, strict=True)
        )
        return [
            ((..., *tap.position[lead:], *tap.windows), (..., *tap.values))
            for tap in taps(windows, grown)
        ]


def _without_taps(windows: Windows, lead: int) -> Windows:
    return dataclasses.replace(windows, kernel=(*([1] * lead), *windows.kernel[lead:]))


@functools.lru_cache(maxsize=128)
def tiles_of(plan: Plan) -> tuple[Tile, ...]:
    """The tiles in order; the first is the largest."""
    found, stop = [], 0
    for box in boxes(plan.windows.counts, plan.room):
        start, stop = stop, stop + math.prod(part.stop - part.start for part in box)
        found.append(_tile(plan, box, slice(start, stop)))
    return tuple(found)


def _tile(plan: Plan, box: Box, places: slice) -> Tile:
    windows, lead = plan.windows, plan.lead
    shape = tuple(part.stop - part.start for part in box)
    grid = plan.grid(shape)
    pitches = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    seen = _without_taps(windows, lead)
    direct = all(size == 1 for size in seen.kernel)
    strides = windows.strides if direct else (1,) * len(shape)
    lengths = grid
    if not direct:
        lengths = tuple(
            (size - 1) * stride + reach
            for size, stride, reach in zip(grid, windows.strides, seen.reaches, strict=True)
        )
    firsts = [
        part.start * stride - before
        for part, stride, before in zip(box, windows.strides, windows.before, strict=True)
    ]
    ranges = [
        clipped(first, stride, length, size)
        for first, stride, length, size in zip(firsts, strides, lengths, windows.sizes, strict=True)
    ]
    kept = [one for one in ranges if one is not None]
    zeros: list[Index] = []
    rank = len(shape)
    if len(kept) < rank:
        zeros.append((...,))
    else:
        for axis, (to, _) in enumerate(kept):
            behind = (slice(None),) * (rank - axis - 1)
            if to.start:
                zeros.append((..., slice(0, to.start), *behind))
            if to.stop < lengths[axis]:
                zeros.append((..., slice(to.stop, None), *behind))
    copied = ((..., *(to for to, _ in kept)), (..., *(of for _, of in kept)))
    return Tile(
        box=box,
        places=places,
        shape=shape,
        grid=grid,
        cells=math.prod(grid),
        width=sum((size - 1) * pitch for size, pitch in zip(shape, pitches, strict=True)) + 1,
        moves=tuple(pitches[axis] * windows.dilations[axis] for axis in range(lead)),
        lengths=lengths,
        inside=None if zeros or direct else copied[1],
        zeros=tuple(zeros),
        kept=copied if len(kept) == rank else None,
        direct=direct,
    )
