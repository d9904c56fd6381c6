"""Convolution as matrix products: X [N, C, D1, ...] by W [M, C / group, K1, ...], over any number of spatial axes.

The windows of a box become the columns of a matrix. Along the first axes, as many as is cheapest, the taps are not laid
out: each of them is a product of its own on a shifted view of the same matrix, and the products are added up. That
saves copies where there are few filters for each channel. Scratch: :data:`COLUMNS`, :data:`SUMS` and :data:`PATCH`
bytes at most, or the columns of one window; W in another order, up to :data:`WEIGHTS`, where products are added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._finish import Finish
from onnx_notebook_profiler.evaluator.kernels._windows import Box, Windows, boxes, clipped, taps

__all__ = ["Dense", "dense", "multiply_columns"]

COLUMNS: Final = 2**21
CACHED: Final = 2**19
"""Bytes of columns that the cache holds besides what else is in use."""
SUMS: Final = 2**19
PATCH: Final = 2**20
WEIGHTS: Final = 2**19
LEAST: Final = 256
"""Columns below which packing the filters anew for each product costs more than cache misses."""

_COPY: Final = 0.25
_ADD: Final = 0.7
"""Nanoseconds for each element that is laid out, and for each one that is added up."""

_SMALL: Final = 10**6
"""Multiplications up to which OpenBLAS takes a way without packing, which suits few rows best."""
_FEW_ROWS: Final = 32


def multiply_columns(matrix: Array, columns: Array, out: Array) -> None:
    """``matrix @ columns``, a range of columns at a time where there are few rows."""
    rows, depth = matrix.shape[-2:]
    step = _SMALL // max(rows * depth, 1) // 16 * 16
    width = columns.shape[-1]
    if rows > _FEW_ROWS or width <= step or step < 64:
        np.matmul(matrix, columns, out)
        return
    for start in range(0, width, step):
        part = slice(start, start + step)
        np.matmul(matrix, columns[..., part], out[..., part])


class Dense(NamedTuple):
    """How a convolution is done: boxes of *room* windows, products along the first *lead* axes."""

    windows: Windows
    group: int
    channels: int
    filters: int
    lead: int
    room: int

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


def dense(windows: Windows, group: int, channels: int, filters: int, itemsize: int) -> Dense:
    """The way that should cost least; *channels* and *filters* are those of a group."""
    rank, kernel = len(windows.kernel), windows.kernel
    best, least = None, math.inf
    for lead in range(rank + 1):
        if any(stride > 1 for stride in windows.strides[:lead]):
            break
        plan = Dense(windows, group, channels, filters, lead, 0)
        if lead and (
            kernel[lead - 1] == 1
            or group * filters * channels * math.prod(kernel) * itemsize > WEIGHTS
        ):
            continue
        room = _room(plan, itemsize)
        if not room:
            continue
        shape = shape_of(next(boxes(windows.counts, room)))
        grown = math.prod(plan.grid(shape)) / math.prod(shape)
        added = filters * plan.products if lead else 0
        cost = (_COPY * plan.depth + _ADD * added) * grown
        if cost < least:
            best, least = plan._replace(room=room), cost
    assert best is not None
    return best


def _room(plan: Dense, itemsize: int) -> int:
    """How many windows a box holds; 0 where even a few do not fit."""
    places = math.prod(plan.windows.counts)
    column = max(plan.depth, 1) * itemsize
    if not plan.lead:
        fewest = min(LEAST, COLUMNS // column)
        return min(max(1, fewest, CACHED // column), places)
    sums = plan.products * plan.filters * itemsize
    room = places
    while room:
        cells = math.prod(plan.grid(shape_of(next(boxes(plan.windows.counts, room)))))
        if cells * column <= 2 * CACHED and cells * sums <= SUMS:
            return room if room >= min(LEAST, places) else 0
        room //= 2
    return 0


def shape_of(box: Box) -> tuple[int, ...]:
    """How many windows *box* has along each axis."""
    return tuple(part.stop - part.start for part in box)


def convolve(plan: Dense, x: Array, w: Array, out: Array, finish: Finish | None) -> None:
    """Fill *out*. Sums are made in the type of *w*, which may be wider than that of *x* and *out*."""
    windows, group, lead = plan.windows, plan.group, plan.lead
    given = x.reshape(x.shape[0], group, plan.channels, *windows.sizes)
    target = out.reshape(x.shape[0], group, plan.filters, -1)
    matrix = w.reshape(group, plan.filters, plan.channels, plan.products, -1)
    if lead:
        matrix = np.ascontiguousarray(matrix.transpose(0, 3, 1, 2, 4))
    matrix = matrix.reshape(group, *windows.kernel[:lead], plan.filters, plan.depth)
    narrow = w.dtype != out.dtype
    first = next(boxes(windows.counts, plan.room))
    cells = math.prod(plan.grid(shape_of(first)))
    each = plan.depth * cells
    count = min(max(1, CACHED // max(each * w.itemsize, 1)), group * x.shape[0])
    columns = np.empty(each * count, w.dtype)
    sums = np.empty(plan.products * plan.filters * cells * count if lead or narrow else 0, w.dtype)
    stop = 0
    for box in boxes(windows.counts, plan.room):
        shape = shape_of(box)
        start, stop = stop, stop + math.prod(shape)
        places = slice(start, stop)
        for items, groups in _parts(x.shape[0], group, count):
            tile = target[items, groups, :, places]
            grid = plan.grid(shape)
            laid = columns[: math.prod(tile.shape[:2]) * plan.depth * math.prod(grid)].reshape(
                *tile.shape[:2], plan.channels, *windows.kernel[lead:], *grid
            )
            lay_out(laid, given[items, groups], windows, box, lead)
            if lead:
                found = _added(plan, matrix[groups], laid, sums, shape)
                np.copyto(tile.reshape(found.shape), found, casting="unsafe")
            else:
                flat = laid.reshape(*tile.shape[:2], plan.depth, -1)
                into = sums[: tile.size].reshape(tile.shape) if narrow else tile
                multiply_columns(matrix[groups], flat, into)
                if narrow:
                    if finish is not None:
                        finish(into, items, groups, places)
                    np.copyto(tile, into, casting="unsafe")
                    continue
            if finish is not None:
                finish(tile, items, groups, places)


def _parts(batch: int, group: int, count: int) -> Iterator[tuple[slice, slice]]:
    """Ranges of items and groups, *count* pairs of them at most."""
    if count >= group:
        step = count // group
        for first in range(0, batch, step):
            yield slice(first, min(first + step, batch)), slice(0, group)
        return
    for item in range(batch):
        for first in range(0, group, count):
            yield slice(item, item + 1), slice(first, min(first + count, group))


def _added(plan: Dense, matrix: Array, laid: Array, sums: Array, shape: tuple[int, ...]) -> Array:
    """The products along the first axes, added up -> [item, group, filter, window...] in *sums*."""
    kernel = plan.windows.kernel[: plan.lead]
    grid = plan.grid(shape)
    pitches = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    moves = [pitches[axis] * plan.windows.dilations[axis] for axis in range(plan.lead)]
    width = sum((size - 1) * pitch for size, pitch in zip(shape, pitches, strict=True)) + 1
    cells, step = math.prod(grid), laid.itemsize
    items, groups = laid.shape[:2]
    shifted = as_strided(
        laid,
        (items, groups, *kernel, plan.depth, width),
        (
            *(stride for stride in laid.strides[:2]),
            *(move * step for move in moves),
            cells * step,
            step,
        ),
    )
    made = sums[: items * groups * plan.products * plan.filters * cells]
    multiply_columns(
        matrix,
        shifted,
        made.reshape(items, groups, *kernel, plan.filters, cells)[..., :width],
    )
    made = made.reshape(items, groups, plan.products, plan.filters, cells)
    total = made[:, :, 0, :, :width]
    for number in range(1, plan.products):
        np.add(total, made[:, :, number, :, :width], total)
    return made[:, :, 0].reshape(items, groups, plan.filters, *grid)[
        (..., *(slice(size) for size in shape))
    ]


def lay_out(laid: Array, x: Array, windows: Windows, box: Box, lead: int) -> None:
    """Fill *laid* [item, group, channel, tap..., window...] with what the windows of *box* see of x.

    Taps count along all but the first *lead* axes, and along those each element is a window. What is padded is copied
    first, so that a window never leaves its array; where that copy would be large, because few windows reach far, each
    tap is copied by itself.
    """
    rank = len(windows.sizes)
    shape = laid.shape[-rank:]
    kernel = (*([1] * lead), *windows.kernel[lead:])
    lengths, firsts = [], []
    for axis, (part, size) in enumerate(zip(box, shape, strict=True)):
        reach = (kernel[axis] - 1) * windows.dilations[axis] + 1
        lengths.append((size - 1) * windows.strides[axis] + reach)
        firsts.append(part.start * windows.strides[axis] - windows.before[axis])
    inside = all(
        first >= 0 and first + length <= size
        for first, length, size in zip(firsts, lengths, windows.sizes, strict=True)
    )
    if inside:
        corner = tuple(map(slice, firsts, map(int.__add__, firsts, lengths)))
        _copy_windows(laid, x[(..., *corner)], windows, kernel, lead)
        return
    if lead == rank or all(size == 1 for size in kernel):
        _copy_padded(laid.reshape(*x.shape[:3], *shape), x, firsts, windows)
        return
    head = math.prod(x.shape[:3])
    if head * math.prod(lengths) * x.itemsize <= PATCH:
        patch = np.empty((*x.shape[:3], *lengths), x.dtype)
        _copy_padded(patch, x, firsts, windows._replace_strides())
        _copy_windows(laid, patch, windows, kernel, lead)
        return
    _copy_taps(laid, x, windows, box, lead)


def _copy_taps(laid: Array, x: Array, windows: Windows, box: Box, lead: int) -> None:
    """Fill *laid* tap by tap."""
    laid.fill(0)
    grown = tuple(
        slice(part.start, part.start + size)
        for part, size in zip(box, laid.shape[-len(box) :], strict=True)
    )
    for tap in taps(windows.without_taps(lead), grown):
        place: tuple[Any, ...] = (..., *tap.position[lead:], *tap.windows)
        laid[place] = x[(..., *tap.values)]


def _copy_padded(patch: Array, x: Array, firsts: list[int], windows: Windows) -> None:
    """Fill patch [item, group, channel, ...] with x from *firsts* on in steps of the strides, and 0 around it."""
    rank = len(firsts)
    kept = [
        clipped(first, stride, length, size)
        for first, stride, length, size in zip(
            firsts, windows.strides, patch.shape[-rank:], windows.sizes, strict=True
        )
    ]
    seen = [ranges for ranges in kept if ranges is not None]
    if len(seen) < rank:
        patch.fill(0)
        return
    for axis, (to, _) in enumerate(seen):
        ahead = (slice(None),) * (patch.ndim - rank + axis)
        if to.start:
            patch[(*ahead, slice(0, to.start))] = 0
        if to.stop < patch.shape[patch.ndim - rank + axis]:
            patch[(*ahead, slice(to.stop, None))] = 0
    np.copyto(patch[(..., *(to for to, _ in seen))], x[(..., *(of for _, of in seen))])


def _copy_windows(
    laid: Array, patch: Array, windows: Windows, kernel: tuple[int, ...], lead: int
) -> None:
    """Copy the windows over *patch*, the first of which starts in its corner.

    With a stride along the last axis, elements that lie whole strides apart are first moved together, where several
    taps read them.
    """
    rank = len(kernel)
    stride = windows.strides[-1]
    if 1 < stride < kernel[-1] and windows.dilations[-1] == 1:
        width = -(-patch.shape[-1] // stride)
        for phase in range(stride):
            some = np.ascontiguousarray(patch[..., phase::stride])
            view = _view(some, windows, kernel, lead, laid.shape[-rank:], 1)
            count = len(range(phase, kernel[-1], stride))
            reached = as_strided(
                view,
                (*view.shape[: -rank - 1], count, *view.shape[-rank:]),
                view.strides,
                writeable=False,
            )
            place = (..., slice(phase, None, stride), *[slice(None)] * rank)
            np.copyto(laid[place], reached)
        assert width
        return
    np.copyto(laid, _view(patch, windows, kernel, lead, laid.shape[-rank:], stride))


def _view(
    patch: Array,
    windows: Windows,
    kernel: tuple[int, ...],
    lead: int,
    shape: tuple[int, ...],
    stride: int,
) -> Array:
    """Windows over *patch* without a copy; *stride* is the one along the last axis."""
    rank = len(kernel)
    steps = patch.strides[-rank:]
    strides = (*windows.strides[:-1], stride)
    return as_strided(
        patch,
        (*patch.shape[:-rank], *kernel[lead:], *shape),
        (
            *patch.strides[:-rank],
            *(
                step * dilation
                for step, dilation in zip(steps[lead:], windows.dilations[lead:], strict=True)
            ),
            *(step * one for step, one in zip(steps, strides, strict=True)),
        ),
        writeable=False,
    )
