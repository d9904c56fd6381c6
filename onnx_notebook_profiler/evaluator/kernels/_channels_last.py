"""Convolution where channels come after the spatial axes: X [N, block, D1, ..., channel], Y alike.

Plain channels-last tensors have one block of all channels; onnxruntime's NCHWc has blocks of 8 or 16. The windows of a
tile are the rows of a matrix [window, block * tap * channel] that is multiplied by the filters. Scratch: what
:mod:`_columns` states; where each channel has a filter of its own, :data:`ROOM` bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._columns import lay_out, plan_of, room_of
from onnx_notebook_profiler.evaluator.kernels._tiles import Plan, Tile, tiles_of
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, boxes, taps

__all__ = ["ROOM", "convolve_each_channel", "convolve_last"]

ROOM: Final = 2**19
"""Bytes of products that are made at a time."""

_FEW_BLOCKS: Final = 2
"""Blocks of filters that are multiplied one by one; more of them are put together first."""

After = Callable[[Array, int, slice, slice], None]
"""Changes a tile [block, window, channel], given the item, the blocks and the windows that it holds."""


def convolve_last(
    x: Array, matrix: Array, out: Array, windows: Windows, after: After | None
) -> None:
    """Fill out [N, block, window, filter] from x [N, block, D1, ..., channel].

    Args:
        matrix: The filters [block of out, block of x * tap * channel, filter], whose type may be wider than *out*'s.
        after: Changes tiles [block, window, filter] while they are in the cache.
    """
    count, _, filters = matrix.shape
    blocks, channels = x.shape[1], x.shape[-1]
    narrow = matrix.dtype != out.dtype
    plan = _plan(windows, blocks * channels, count * filters, matrix.dtype.itemsize)
    joined = plan.lead > 0 or count > _FEW_BLOCKS
    if joined:
        matrix = _joined(plan, matrix, blocks)
    columns = np.empty(plan.depth * tiles_of(plan)[0].cells, matrix.dtype)
    given = np.moveaxis(x, -1, 2)
    inner = (blocks, *windows.kernel[plan.lead :], channels)
    for item, tile in itertools.product(range(x.shape[0]), tiles_of(plan)):
        laid, rows = _matrix(columns, tile.grid, inner)
        lay_out(plan, tile, laid, given[item : item + 1])
        made = out[item, :, tile.places]
        into = made
        if joined:
            sums = _added(plan, tile, rows, matrix)
            into = sums.reshape(tile.width, count, filters).transpose(1, 0, 2)
        elif narrow:
            into = np.matmul(rows, matrix)
        else:
            np.matmul(rows, matrix, into)
        if after is not None:
            after(into, item, slice(0, count), tile.places)
        if into is not made:
            np.copyto(made, into, casting="unsafe")


def _plan(windows: Windows, channels: int, filters: int, itemsize: int) -> Plan:
    """With several taps along the first axis these are products of their own, where that can be."""
    plan = Plan(windows, 1, channels, filters, 1, 0, narrow=True)
    if channels > 1 and windows.strides[0] == 1 < windows.kernel[0] and len(windows.kernel) > 1:
        room = room_of(plan, itemsize)
        if room:
            return plan._replace(room=room)
    return plan_of(windows, 1, channels, filters, itemsize, narrow=True, summed=False)


def _joined(plan: Plan, matrix: Array, blocks: int) -> Array:
    """The filters of all blocks side by side: [product, block of x * tap * channel, filter]."""
    count, _, filters = matrix.shape
    split = matrix.reshape(count, blocks, plan.products, -1, filters)
    turned = np.ascontiguousarray(split.transpose(2, 1, 3, 0, 4))
    return turned.reshape(plan.products, plan.depth, count * filters)


def _added(plan: Plan, tile: Tile, rows: Array, matrix: Array) -> Array:
    """The products along the first axis, added up: [window, filter]."""
    move = tile.moves[0] if plan.lead else 0
    total: Array = np.matmul(rows[: tile.width], matrix[0])
    if plan.products > 1:
        product = np.empty_like(total)
        for number in range(1, plan.products):
            start = number * move
            np.matmul(rows[start : start + tile.width], matrix[number], product)
            np.add(total, product, total)
    return total


def _matrix(scratch: Array, grid: tuple[int, ...], inner: tuple[int, ...]) -> tuple[Array, Array]:
    """A matrix [window, block * tap * channel], and before it as [1, block, channel, tap..., window...].

    In memory windows come last where there is one channel: then neighbours in X stay neighbours.
    """
    rank, taps = len(grid), len(inner) - 2
    cells, depth = math.prod(grid), math.prod(inner)
    flat = scratch[: depth * cells]
    if inner[-1] == 1:
        laid = flat.reshape(*inner, *grid)
        order = (0, taps + 1, *range(1, taps + 1), *range(taps + 2, taps + 2 + rank))
        return laid.transpose(order)[None], flat.reshape(depth, cells).T
    laid = flat.reshape(*grid, *inner)
    order = (rank, rank + taps + 1, *range(rank + 1, rank + taps + 1), *range(rank))
    return laid.transpose(order)[None], flat.reshape(cells, depth)


def convolve_each_channel(
    x: Array, w: Array, out: Array, windows: Windows, after: After | None
) -> None:
    """As :func:`convolve_last`, where w [block, K1, ..., channel] has one filter for each channel."""
    batch, blocks, channels = x.shape[0], x.shape[1], x.shape[-1]
    target = out.reshape(batch, blocks, *windows.counts, channels)
    room = max(1, ROOM // (2 * channels * w.itemsize))
    stop = 0
    for box in boxes(windows.counts, room):
        shape = tuple(part.stop - part.start for part in box)
        start, stop = stop, stop + math.prod(shape)
        seen = taps(windows, box)
        step = max(1, room // math.prod(shape))
        for item, first in itertools.product(range(batch), range(0, blocks, step)):
            some = slice(first, min(first + step, blocks))
            total = np.zeros((some.stop - first, *shape, channels), w.dtype)
            product = np.empty_like(total)
            # along the last axis the weights are repeated, so that numpy sees long rows
            factor = np.empty((len(total), *[1] * (len(shape) - 1), shape[-1], channels), w.dtype)
            for tap in seen:
                weight: tuple[Any, ...] = (some, *tap.position)
                values: tuple[Any, ...] = (item, some, *tap.values)
                place: tuple[Any, ...] = (slice(None), *tap.windows)
                np.copyto(factor, w[weight].reshape(-1, *[1] * len(shape), channels))
                seen_factor = factor[..., : tap.windows[-1].stop - tap.windows[-1].start, :]
                np.multiply(x[values], seen_factor, product[place])
                np.add(total[place], product[place], total[place])
            if after is not None:
                after(total.reshape(len(total), -1, channels), item, some, slice(start, stop))
            into: tuple[Any, ...] = (item, some, *box)
            np.copyto(target[into], total, casting="unsafe")
