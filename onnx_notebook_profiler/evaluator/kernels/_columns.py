"""Convolution as matrix products: X [N, C, D1, ...] by W [M, C / group, K1, ...], over any number of spatial axes.

The windows of a box become the columns of a matrix. Along the first axes, as many as is cheapest, the taps are not laid
out: each of them is a product of its own on a shifted view of the same matrix, and the products are added up. That
saves copies where there are few filters for each channel. Scratch: :data:`COLUMNS`, :data:`SUMS` and :data:`PATCH`
bytes at most, or the columns of one window; W in another order, up to :data:`WEIGHTS`, where products are added up.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._finish import Finish
from onnx_notebook_profiler.evaluator.kernels._tiles import Plan, Tile, tiles_of
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, boxes

__all__ = ["convolve", "lay_out", "multiply_columns", "plan_of", "room_of"]

COLUMNS: Final = 2**21
CACHED: Final = 2**20
"""Bytes of columns that the cache holds besides what else is in use."""
SUMS: Final = 2**19
PATCH: Final = 2**20
WEIGHTS: Final = 2**19
LEAST: Final = 256
"""Columns below which packing the filters anew for each product costs more than cache misses."""

_COPY: Final = 0.25
_ADD: Final = 0.7
"""Nanoseconds for each element that is laid out, and for each one that is added up."""
_RATE: Final = 40.0
"""Multiplications in a nanosecond; about 30 where few rows are multiplied by many columns."""
_SMALL: Final = 10**6
"""Multiplications up to which OpenBLAS takes a way without packing, which suits few rows best."""
_FEW_ROWS: Final = 32
_FEW_WEIGHTS: Final = 1200
_DEEP: Final = 150


def multiply_columns(matrix: Array, columns: Array, out: Array) -> None:
    """``matrix @ columns``, a range of columns at a time where the matrix is small."""
    rows, depth = matrix.shape[-2:]
    step = _SMALL // max(rows * depth, 1) // 16 * 16
    width = columns.shape[-1]
    few = rows <= _FEW_ROWS or rows * depth <= _FEW_WEIGHTS
    if not few or width <= step or step < 64:
        np.matmul(matrix, columns, out)
        return
    for start in range(0, width, step):
        part = slice(start, start + step)
        np.matmul(matrix, columns[..., part], out[..., part])


@functools.lru_cache(maxsize=256)
def plan_of(
    windows: Windows,
    group: int,
    channels: int,
    filters: int,
    itemsize: int,
    *,
    narrow: bool,
    summed: bool = True,
) -> Plan:
    """The way that should cost least; *channels* and *filters* are those of a group.

    With *narrow* the sums are made in a wider type than the results have, and take scratch. Without *summed* there is
    one product for each box.
    """
    kernel = windows.kernel
    best, least = None, math.inf
    for lead in range(len(kernel) + 1 if summed else 1):
        if any(stride > 1 for stride in windows.strides[:lead]):
            break
        if lead and (
            kernel[lead - 1] == 1
            or group * filters * channels * math.prod(kernel) * itemsize > WEIGHTS
        ):
            continue
        plan = Plan(windows, group, channels, filters, lead, 0, narrow)
        plan = plan._replace(room=room_of(plan, itemsize))
        if not plan.room:
            continue
        if not lead and summed:
            plan = _in_chunks(plan, itemsize)
        shape = tuple(part.stop - part.start for part in next(boxes(windows.counts, plan.room)))
        grown = math.prod(plan.grid(shape)) / math.prod(shape)
        added = filters * plan.products if lead else 0
        rate = _RATE * 0.75 if filters <= _FEW_ROWS and plan.depth > _DEEP else _RATE
        cost = (_COPY * plan.depth + _ADD * added) * grown
        cost += filters * plan.depth * plan.products / rate
        if cost < least:
            best, least = plan, cost
    assert best is not None
    return best


def room_of(plan: Plan, itemsize: int) -> int:
    """How many windows a box holds; 0 where even a few do not fit."""
    counts = plan.windows.counts
    places = math.prod(counts)
    column = max(plan.depth, 1) * itemsize
    if not plan.lead:
        column += plan.filters * itemsize if plan.narrow else 0
        fewest = min(LEAST, COLUMNS // column)
        return min(max(1, fewest, CACHED // column), places)
    sums = plan.products * plan.filters * itemsize
    room = places
    while room:
        box = next(boxes(counts, room))
        cells = math.prod(plan.grid(tuple(part.stop - part.start for part in box)))
        if cells * column <= COLUMNS and cells * sums <= SUMS:
            return room if room >= min(LEAST, places) else 0
        room = room * 3 // 4
    return 0


def _in_chunks(plan: Plan, itemsize: int) -> Plan:
    """With many taps few windows fit, unless the channels are laid out some at a time and the products are added up."""
    places, taps = math.prod(plan.windows.counts), math.prod(plan.windows.kernel)
    room = min(LEAST, places)
    chunk = CACHED // (room * taps * itemsize)
    fits = room * plan.filters * itemsize <= SUMS
    if plan.room >= room or not fits or not 0 < chunk < plan.channels:
        return plan
    return plan._replace(room=room, chunk=chunk)


def convolve(plan: Plan, x: Array, w: Array, out: Array, finish: Finish | None) -> None:
    """Fill *out*. Sums are made in the type of *w*, which may be wider than that of *x* and *out*."""
    windows, group, lead, filters = plan.windows, plan.group, plan.lead, plan.filters
    batch, depth, taps = x.shape[0], plan.depth, windows.kernel[lead:]
    given = x.reshape(batch, group, plan.channels, *windows.sizes)
    target = out.reshape(batch, group, filters, -1)
    matrix = w
    if lead:
        matrix = w.reshape(group, filters, plan.channels, plan.products, math.prod(taps))
        matrix = np.ascontiguousarray(matrix.transpose(0, 3, 1, 2, 4))
    matrix = matrix.reshape(group, *windows.kernel[:lead], filters, depth)
    tiles = tiles_of(plan)
    if plan.chunk:
        _convolve_in_chunks(plan, given, matrix, target, finish)
        return
    cells = tiles[0].cells
    each, summed = depth * cells, plan.products * filters * cells
    if not lead and not plan.narrow:
        summed = 0
    count = CACHED // (max(each, 2 * summed, 1) * w.itemsize)
    count = min(max(1, count), group * batch)
    columns, sums = np.empty(each * count, w.dtype), np.empty(summed * count, w.dtype)
    for tile in tiles:
        for items, groups in _parts(batch, group, count):
            made = target[items, groups, :, tile.places]
            head = made.shape[:2]
            laid = columns[: head[0] * head[1] * depth * tile.cells]
            laid = laid.reshape(*head, plan.channels, *taps, *tile.grid)
            lay_out(plan, tile, laid, given[items, groups])
            into = sums[: made.size].reshape(made.shape) if plan.narrow else made
            if lead:
                _add_products(plan, tile, matrix[groups], laid, sums, into)
            else:
                flat = laid.reshape(*head, depth, tile.cells)
                multiply_columns(matrix[groups], flat, into)
            if finish is not None:
                finish(into, items, groups, tile.places)
            if plan.narrow:
                np.copyto(made, into, casting="unsafe")


def _convolve_in_chunks(
    plan: Plan, given: Array, matrix: Array, target: Array, finish: Finish | None
) -> None:
    """One item and group after the other, some channels at a time."""
    taps, kernel, filters = math.prod(plan.windows.kernel), plan.windows.kernel, plan.filters
    cells = tiles_of(plan)[0].cells
    columns = np.empty(plan.chunk * taps * cells, matrix.dtype)
    sums, product = np.empty((2, filters * cells), matrix.dtype)
    for item, group in itertools.product(*map(range, given.shape[:2])):
        own = slice(item, item + 1), slice(group, group + 1)
        for tile in tiles_of(plan):
            made = target[(*own, slice(None), tile.places)]
            total = sums[: made.size].reshape(made.shape)
            for first in range(0, plan.channels, plan.chunk):
                some = slice(first, min(first + plan.chunk, plan.channels))
                laid = columns[: (some.stop - first) * taps * tile.cells]
                shape = (1, 1, some.stop - first, *kernel, *tile.grid)
                lay_out(plan, tile, laid.reshape(shape), given[(*own, some)])
                into = product[: made.size].reshape(made.shape) if first else total
                weights = matrix[group, :, first * taps : some.stop * taps]
                np.matmul(weights, laid.reshape(-1, tile.cells), into[0, 0])
                if first:
                    np.add(total, into, total)
            if finish is not None:
                finish(total, *own, tile.places)
            np.copyto(made, total, casting="unsafe")


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


def _add_products(
    plan: Plan, tile: Tile, matrix: Array, laid: Array, sums: Array, into: Array
) -> None:
    """Make the products along the first axes in *sums* and add them up in into [item, group, filter, window]."""
    filters, products, cells, width = plan.filters, plan.products, tile.cells, tile.width
    items, groups = laid.shape[:2]
    kernel, step = plan.windows.kernel[: plan.lead], laid.itemsize
    shifted = as_strided(
        laid,
        (items, groups, *kernel, plan.depth, width),
        (*laid.strides[:2], *(move * step for move in tile.moves), cells * step, step),
        writeable=False,
    )
    made = sums[: items * groups * products * filters * cells]
    multiply_columns(
        matrix, shifted, made.reshape(items, groups, *kernel, filters, cells)[..., :width]
    )
    flat = made.reshape(items, groups, products, filters, cells)[..., :width]
    total = flat[:, :, 0]
    for number in range(1, products - 1):
        np.add(total, flat[:, :, number], total)
    if width == into.shape[-1]:
        np.add(total, flat[:, :, -1], into)
        return
    placed = made.reshape(items, groups, products, filters, *tile.grid)
    windows: tuple[Any, ...] = (..., *map(slice, tile.shape))
    placed = placed[windows]
    np.add(placed[:, :, 0], placed[:, :, -1], into.reshape(items, groups, filters, *tile.shape))


def lay_out(plan: Plan, tile: Tile, laid: Array, x: Array) -> None:
    """Fill *laid* [item, group, channel, tap..., window...] with what the windows of *tile* see of x.

    Taps count along all but the first axes of the plan; along those each element is a window. What is padded is copied
    first, so that a window never leaves its array; where that copy would be large, because few windows reach far, each
    tap is copied by itself.
    """
    if tile.inside is not None:
        _copy_windows(plan, tile, laid, x[tile.inside])
        return
    patch = laid
    if not tile.direct:
        shape = (*x.shape[:3], *tile.lengths)
        if math.prod(shape) * x.itemsize > PATCH:
            laid.fill(0)
            for place, values in tile.taps(plan):
                laid[place] = x[values]
            return
        patch = np.empty_like(x, shape=shape, subok=False)
    else:
        patch = laid[(slice(None),) * 3 + (0,) * (len(plan.windows.kernel) - plan.lead)]
    for place in tile.zeros:
        patch[place] = 0
    if tile.kept is not None:
        to, of = tile.kept
        patch[to] = x[of]
    if not tile.direct:
        _copy_windows(plan, tile, laid, patch)


def _copy_windows(plan: Plan, tile: Tile, laid: Array, patch: Array) -> None:
    """Copy the windows over *patch*, the first of which starts in its corner.

    With a stride along the last axis, elements that lie whole strides apart are first moved together, where several
    taps read them.
    """
    windows = plan.windows
    stride, taps, rank = windows.strides[-1], windows.kernel[plan.lead :], len(windows.kernel)
    spread = windows.dilations[-1] > 1 or patch.strides[-1] != patch.itemsize
    most = min(taps[-1] // 2, tile.shape[-1] // 8) if taps else 0
    if not 1 < stride <= most or spread:
        np.copyto(laid, _view(plan, tile, patch, taps, stride))
        return
    for phase in range(stride):
        some: Any = patch[..., phase::stride]
        if some.size * some.itemsize <= PATCH:
            some = np.ascontiguousarray(some)
        step = some.strides[-1] // some.itemsize
        read = (*taps[:-1], len(range(phase, taps[-1], stride)))
        place: tuple[Any, ...] = (..., slice(phase, None, stride), *[slice(None)] * rank)
        np.copyto(laid[place], _view(plan, tile, some, read, step))


def _view(plan: Plan, tile: Tile, patch: Array, taps: tuple[int, ...], stride: int) -> Array:
    """Windows over *patch* without a copy; *stride* is the one along the last axis."""
    windows, lead = plan.windows, plan.lead
    rank = len(windows.sizes)
    steps = patch.strides[-rank:]
    along = [step * one for step, one in zip(steps, windows.strides, strict=True)]
    along[-1] = steps[-1] * stride
    between = [step * one for step, one in zip(steps[lead:], windows.dilations[lead:], strict=True)]
    return as_strided(
        patch,
        (*patch.shape[:-rank], *taps, *tile.grid),
        (*patch.strides[:-rank], *between, *along),
        writeable=False,
    )
