"""The core of every attention: scores of queries and keys, softmax, weighted values; block by block.

Vaswani et al., Attention Is All You Need (2017). Scratch: the scores of one block, at most 1 MiB or 64 queries of the
heads that share a key, never more than all scores; the queries of the block, scaled; copies in float32 of the keys and
values of the block where they are narrower; the edges of a band, one block's rows wide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import BFLOAT16
from onnx_notebook_profiler.evaluator.kernels._sums import add_rows

__all__ = ["OPEN", "Mask", "Rules", "attend", "chosen", "heads_first", "joined"]

_ROOM: Final = 2**16
"""Scores at a time."""

_ROWS: Final = 64
"""Queries at a time, at least, and twice as many at most where a band lets most keys of a block be left out."""

_LEAST: Final = {
    "e": np.float16(-65504),
    "f": np.finfo(np.float32).min,
    "d": np.finfo(np.float64).min,
    BFLOAT16.char: BFLOAT16.type(-3.38e38),
}
"""What a row of minus infinities is compared with, so that it becomes zeros."""

_NEGATIVE_INFINITY: Final = np.array(-np.inf, np.float32).view(np.int32)


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """How scores become weights."""

    scale: float
    softcap: float = 0.0
    sink: Array | None = None
    """[H]: the score of one more key of each head, whose value is 0."""
    stage: int = 0
    """Which scores are shown: 0 the scaled products, 1 after the cap, 2 after the bias, 3 the weights."""
    narrow: np.dtype[Any] | None = None
    """The type to which scores and weights are rounded; None: they are not."""
    precision: np.dtype[Any] | None = None
    """The type in which the softmax is computed; None: that of the scores."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mask:
    """Query i sees key j where i + offset - left <= j <= i + offset + right; a bound of -1 is none."""

    biases: tuple[Array, ...] = ()
    """Added to the scores, or bool: False forbids; each has four axes that broadcast to [B, H, S, T]."""
    offset: int = 0
    left: int = -1
    right: int = -1

    @property
    def banded(self) -> bool:
        """Whether there is a bound."""
        return self.left >= 0 or self.right >= 0


OPEN: Final = Mask()

_UNCAPPED: Final = Rules(1.0)
_ONE: Final = np.float32(1)
_SAFE: Final = 60.0
_ENOUGH: Final = 1e-20

_Parts = Sequence[tuple[int, int, Array]]
"""The first column, the one after the last, and what is added to them."""


class _Block(NamedTuple):
    """Items, heads of the keys, and queries that are computed together."""

    items: slice
    groups: slice
    rows: slice


def heads_first(x: Array, heads: int) -> Array:
    """[B, S, H * D] as a view [B, H, S, D]; what has four axes already stays."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def chosen(allowed: Array) -> Array:
    """0 where *allowed* is true, else minus infinity; float32."""
    bits = allowed.view(np.int8).astype(np.int32)
    np.subtract(bits, 1, bits)
    np.bitwise_and(bits, _NEGATIVE_INFINITY, bits)
    return bits.view(np.float32)


def joined(past: Any, new: Array, present: Any) -> Array:
    """The cache with the new keys or values at its end [B, H, P + S, D], in *present* where that is wanted."""
    if past is None:
        if present is not None:
            present[...] = new
        return new
    if present is None:
        return np.concatenate((past, new), axis=2)
    present[:, :, : past.shape[2]] = past
    present[:, :, past.shape[2] :] = new
    whole: Array = present
    return whole


def attend(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    rules: Rules,
    mask: Mask = OPEN,
    shown: Array | None = None,
) -> None:
    """out[b, h] = softmax(q k' * scale + bias) v, where each group of query heads shares a key head.

    Args:
        q, k, v: [B, H, S, D], [B, K, T, D], [B, K, T, E]; H is a multiple of K.
        out: [B, H, S, E], may be a view.
        shown: Where to put the scores [B, H, S, T] of the rules' stage.
    """
    if 0 in (*out.shape[:3], k.shape[2]):
        out[...] = 0
        return
    share = q.shape[1] // k.shape[1]
    wide = row_type(q.dtype)
    banded = mask.banded and shown is None
    edges: dict[int, list[tuple[int, int, Array]]] = {}
    held: tuple[Any, ...] = ()
    for block in _blocks(q.shape, k.shape, banded=banded):
        items, groups, rows = block
        if held[:2] != (items, groups):
            held = (
                items,
                groups,
                k[items, groups].astype(wide, copy=False),
                v[items, groups].astype(wide, copy=False),
            )
        _, _, right, values = held
        heads = slice(groups.start * share, groups.stop * share)
        target = out[items, heads, rows]
        first, last = _seen(mask, rows, k.shape[2]) if banded else (0, k.shape[2])
        if first >= last:
            target[...] = 0
            continue
        left = _scaled(q[items, heads, rows], rules.scale, wide, right.shape[1])
        parts = [
            (0, last - first, _piece(bias, items, heads, rows, first, last)) for bias in mask.biases
        ]
        if mask.banded:
            if rows.start not in edges:
                edges[rows.start] = _edges(mask, rows, first, last)
            parts += edges[rows.start]
        sink = None if rules.sink is None else rules.sink[heads, None, None]
        view = None if shown is None else shown[items, heads, rows]
        scores = np.empty((*left.shape[:3], last - first), wide)
        seen = scores.reshape(*target.shape[:3], last - first)
        for weigh in (_weigh_fast, _weigh):
            np.matmul(left, right[:, :, first:last].swapaxes(-1, -2), out=scores)
            total = weigh(seen, rules, parts, sink, view)
            if total is not None:
                break
        _apply(scores, values[:, :, first:last], total, target)


def _blocks(q: tuple[int, ...], k: tuple[int, ...], *, banded: bool) -> Iterator[_Block]:
    """The blocks, those of the same keys one after the other."""
    batch, heads, queries, _ = q
    groups, keys = k[1:3]
    share = heads // groups
    one = share * queries * keys
    items, some, rows = 1, 1, queries
    if groups * one <= _ROOM:
        items, some = _ROOM // (groups * one), groups
    elif one <= _ROOM:
        some = _ROOM // one
    else:
        rows = max(_ROWS, _ROOM // (share * keys))
    if banded and queries > 2 * _ROWS:
        rows = min(rows, 2 * _ROWS)
    for item in range(0, batch, items):
        for group in range(0, groups, some):
            for row in range(0, queries, rows):
                yield _Block(
                    slice(item, min(item + items, batch)),
                    slice(group, min(group + some, groups)),
                    slice(row, min(row + rows, queries)),
                )


def _seen(mask: Mask, rows: slice, keys: int) -> tuple[int, int]:
    """The first key that one of the *rows* sees, and the one after the last."""
    first = max(0, rows.start + mask.offset - mask.left) if mask.left >= 0 else 0
    last = min(keys, rows.stop + mask.offset + mask.right) if mask.right >= 0 else keys
    return first, last


def _edges(mask: Mask, rows: slice, first: int, last: int) -> list[tuple[int, int, Array]]:
    """Biases of the keys, counted from *first*, that some but not all of the *rows* see."""
    found = []
    start, stop = rows.start + mask.offset, rows.stop + mask.offset
    places = np.arange(start, stop)[:, None]
    if mask.right >= 0:
        begin = max(first, start + mask.right + 1)
        if begin < last:
            allowed = np.arange(begin, last) <= places + mask.right
            found.append((begin - first, last - first, chosen(allowed)))
    if mask.left >= 0:
        end = min(last, stop - 1 - mask.left)
        if end > first:
            allowed = np.arange(first, end) >= places - mask.left
            found.append((0, end - first, chosen(allowed)))
    return found


def _scaled(q: Array, scale: float, wide: np.dtype[Any], groups: int) -> Array:
    """The queries of a block [items, groups, share * rows, D], times the scale."""
    items, heads, rows, size = q.shape
    left = np.empty(q.shape, wide)
    if q.dtype == wide:
        np.multiply(q, scale, left)
    else:
        left[...] = q
        np.multiply(left, scale, left)
    return left.reshape(items, groups, heads // groups * rows, size)


def _piece(bias: Array, items: slice, heads: slice, rows: slice, first: int, last: int) -> Array:
    """The part of *bias* for a block; an axis of size 1 stays. Booleans become 0 and minus infinity."""
    whole = slice(0, 1)
    part = bias[
        items if bias.shape[0] > 1 else whole,
        heads if bias.shape[1] > 1 else whole,
        rows if bias.shape[2] > 1 else whole,
        slice(first, last) if bias.shape[3] > 1 else whole,
    ]
    return chosen(part) if part.dtype == np.bool_ else part


def _weigh_fast(scores: Array, rules: Rules, parts: _Parts, sink: Any, shown: Any) -> Any:
    """As :func:`_weigh`, without a look for the greatest score of each row; None where that does not do.

    Exponentials of scores up to 60 neither overflow nor add up to more than float32 holds, and where those of a row add
    up to no less than 1e-20, the ones that became zero would not have changed it.
    """
    if shown is not None or rules.narrow is not None or rules.precision is not None:
        return None
    _bias(scores, rules, parts)
    if not scores.max() <= _SAFE or (sink is not None and not sink.max() <= _SAFE):
        return None
    np.exp(scores, scores)
    total = np.empty((*scores.shape[:3], 1), scores.dtype)
    add_rows(scores.reshape(-1, scores.shape[3]), total.reshape(-1))
    if sink is not None:
        total += np.exp(sink)
    return total if total.min() >= _ENOUGH else None


def _bias(scores: Array, rules: Rules, parts: _Parts) -> None:
    """Cap the scores and add the biases."""
    if rules.softcap > 0:
        cap = scores.dtype.type(rules.softcap)
        np.divide(scores, cap, scores)
        np.tanh(scores, scores)
        np.multiply(scores, cap, scores)
    for first, last, part in parts:
        column = scores[..., first:last]
        np.add(column, part, column, casting="unsafe")


def _weigh(scores: Array, rules: Rules, parts: _Parts, sink: Any, shown: Any) -> Any:
    """Turn *scores* [items, heads, S, T] into weights, in place, but for the division by the totals that it returns.

    A row in which no key is allowed becomes zeros. Where the rules name types or the weights are shown, the division is
    done and the totals are 1.
    """
    seen = scores if rules.narrow is None else scores.astype(rules.narrow)
    if shown is not None and rules.stage == 0:
        shown[...] = seen
    _bias(seen, rules, ())
    if shown is not None and rules.stage == 1:
        shown[...] = seen
    _bias(seen, _UNCAPPED, parts)
    if shown is not None and rules.stage == 2:
        shown[...] = seen
    if rules.precision is not None:
        seen = seen.astype(rules.precision)
    total = _exponentials(seen, sink)
    if seen is scores and (shown is None or rules.stage != 3):
        return total
    np.divide(seen, total, seen)
    if rules.narrow is not None:
        seen = seen.astype(rules.narrow, copy=False)
    if seen is not scores:
        scores[...] = seen
    if shown is not None and rules.stage == 3:
        shown[...] = seen
    return _ONE


def _exponentials(scores: Array, sink: Any) -> Array:
    """exp(scores - their maximum), in place; returns the sums of the rows, 1 instead of 0."""
    top = np.maximum.reduce(scores, axis=-1, keepdims=True)
    if sink is not None:
        top = np.maximum(top, sink, dtype=top.dtype)
    np.maximum(top, _LEAST[scores.dtype.char], out=top)
    np.subtract(scores, top, scores)
    np.exp(scores, scores)
    total: Array = np.add.reduce(scores, axis=-1, keepdims=True)
    if sink is not None:
        total += np.exp(sink - top)
    total[total == 0] = 1
    return total


def _apply(weights: Array, values: Array, total: Any, target: Array) -> None:
    """Fill target: weights [items, groups, share * rows, T] times values [items, groups, T, E], by the totals."""
    if weights.shape[1] == target.shape[1] and target.dtype == weights.dtype:
        np.matmul(weights, values, out=target)
        if total is not _ONE:
            np.divide(target, total, target)
    else:
        made = np.matmul(weights, values).reshape(target.shape)
        np.divide(made, total, target, casting="unsafe")
