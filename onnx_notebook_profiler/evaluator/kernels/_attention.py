"""The core of every attention: scores of queries and keys, softmax, weighted values; for a few heads at a time.

Vaswani et al., Attention Is All You Need (2017). Scratch: the float32 scores of one item's heads, as many heads at a
time as fill 1 MiB, at least one; and float32 copies of what is not laid out head by head.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._rows import row_type

__all__ = ["Rules", "attend", "causal_bias", "heads_first", "joined", "rotate", "window_bias"]

_ROOM: Final = 2**18
"""Scores at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """How scores become weights."""

    scale: float
    softcap: float = 0.0
    sink: bool = False
    """One more key of score 0 and value 0 in every row ("smooth softmax")."""


def heads_first(x: Array, heads: int) -> Array:
    """[B, S, H * D] as a view [B, H, S, D]; what has four axes already stays."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def causal_bias(queries: int, keys: int, offset: int) -> Array:
    """0 where key j <= query i + offset, else minus infinity; float32 [queries, keys]."""
    return np.where(np.tri(queries, keys, offset, np.bool_), np.float32(0), np.float32(-np.inf))


def window_bias(queries: int, keys: int, offset: int, left: int, right: int) -> Array:
    """0 where offset + i - left <= j <= offset + i + right, else minus infinity; a bound of -1 is none."""
    distance = np.arange(queries)[:, None] + offset - np.arange(keys)
    allowed = np.ones(distance.shape, np.bool_)
    if left >= 0:
        allowed &= distance <= left
    if right >= 0:
        allowed &= -distance <= right
    return np.where(allowed, np.float32(0), np.float32(-np.inf))


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
    bias: Any = None,
    shown: Array | None = None,
    stage: int = 0,
) -> None:
    """out[b, h] = softmax(q k' * scale + bias) v, where each group of query heads shares a key head.

    Args:
        q, k, v: [B, H, S, D], [B, K, T, D], [B, K, T, E]; H is a multiple of K.
        out: [B, H, S, E], may be a view.
        bias: None, or float32 that broadcasts to [B, H, S, T].
        shown: Where to put the scores [B, H, S, T] of a stage: 0 the scaled products, 1 after the cap, 2 after the
            bias, 3 the weights.
    """
    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1], k.shape[2]
    share = heads // groups
    wide = row_type(q.dtype)
    if bias is not None:
        bias = np.broadcast_to(bias, (batch, heads, queries, keys))
    step = max(1, _ROOM // max(share * queries * keys, 1))
    for item in range(batch):
        for first in range(0, groups, step):
            some = slice(first, first + step)
            own = slice(first * share, (first + step) * share)
            left = np.ascontiguousarray(q[item, own], dtype=wide)
            count = left.shape[0] // share
            left = left.reshape(count, share * queries, left.shape[-1])
            right = k[item, some].astype(wide, copy=False)
            scores = np.matmul(left, right.swapaxes(-1, -2))
            scores *= rules.scale
            seen = scores.reshape(count * share, queries, keys)
            target = None if shown is None else shown[item, own]
            _weigh(seen, rules, None if bias is None else bias[item, own], target, stage)
            values = np.matmul(scores, v[item, some].astype(wide, copy=False))
            out[item, own] = values.reshape(count * share, queries, v.shape[-1])


def _weigh(scores: Array, rules: Rules, bias: Any, shown: Any, stage: int) -> None:
    """Turn *scores* [heads, S, T] into weights, in place; a row in which no key is allowed becomes zeros."""
    if shown is not None and stage == 0:
        shown[...] = scores
    if rules.softcap > 0:
        scores /= rules.softcap
        np.tanh(scores, scores)
        scores *= rules.softcap
    if shown is not None and stage == 1:
        shown[...] = scores
    if bias is not None:
        scores += bias
    if shown is not None and stage == 2:
        shown[...] = scores
    top = scores.max(axis=-1, keepdims=True, initial=0.0 if rules.sink else -np.inf)
    top[np.isneginf(top)] = 0
    np.subtract(scores, top, scores)
    np.exp(scores, scores)
    total = scores.sum(axis=-1, keepdims=True)
    if rules.sink:
        total += np.exp(-top)
    total[total == 0] = 1
    np.divide(scores, total, scores)
    if shown is not None and stage == 3:
        shown[...] = scores


def rotate(x: Array, out: Array, cos: Array, sin: Array, *, interleaved: bool) -> None:
    """Rotary position embedding (Su et al., RoFormer, 2021) of x [B, S, H, D], which may be *out*.

    Args:
        cos, sin: [B or 1, S, R / 2]; the first R of the D numbers are turned, the others copied.
    """
    half = cos.shape[-1]
    cos, sin = cos[:, :, None, :], sin[:, :, None, :]
    turned = x[..., : 2 * half]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        places = (out[..., 0 : 2 * half : 2], out[..., 1 : 2 * half : 2])
    else:
        a, b = turned[..., :half], turned[..., half:]
        places = (out[..., :half], out[..., half : 2 * half])
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    places[0][...], places[1][...] = real, imaginary
    if out is not x:
        out[..., 2 * half :] = x[..., 2 * half :]
