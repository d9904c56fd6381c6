"""Attention: scores, softmax and values over all keys, those of the past included.

Masked, causal and windowed scores count like others; so does a cache where it is longer than what is valid in it.
"""

from __future__ import annotations

import dataclasses

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, macs, rule

__all__ = ["head_count"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Heads:
    """What the core works on: sizes of batch, heads, queries and keys, and the widths of all heads together."""

    batch: Expr
    heads: Expr
    queries: Expr
    keys: Expr
    width: Expr
    """Heads times the size of a key."""
    value_width: Expr
    """Heads times the size of a value."""


def _core(node: PricedNode, heads: _Heads, masks: int) -> tuple[Expr, Expr]:
    """MACs of scores and values; FLOPs for scale, masks, softcap and softmax."""
    pairs = heads.batch * heads.queries * heads.keys
    capped = node.attribute("softcap", 0.0)
    each = 1 + masks + cost("softmax") + (2 + cost("Tanh") if capped else 0)
    return pairs * (heads.width + heads.value_width), pairs * heads.heads * each


@rule("Attention")
def _attention(node: PricedNode) -> Work:
    """H S T (D + E) MACs for each item of the batch, and some FLOPs for each score.

    They are the scale, 1 for the mask, 1 if causal, tanh and 2 for softcap, and softmax.
    """
    q, k, v = (node.shape(position) for position in range(3))
    if len(q) == 4:
        batch, count, queries, size = q
        widths = count * size, count * v[3]
        keys = k[2]
    else:
        batch, queries, width = node.shape(0, 3)
        count = Expr.constant(int(node.attribute("q_num_heads", 0)))
        groups = int(node.attribute("kv_num_heads", 0))
        if not groups:
            raise UnknownWork("kv_num_heads is missing")
        widths = width, v[2] * count // groups
        keys = k[1]
    if node.has(4):
        keys = keys + node.shape(4, 4)[2]
    masks = node.has(3) + bool(node.attribute("is_causal", 0))
    return macs(*_core(node, _Heads(batch, count, queries, keys, *widths), masks))


def head_count(node: PricedNode, name: str = "num_heads") -> int:
    """The number of heads that an attribute gives."""
    count = int(node.attribute(name, 0))
    if count < 1:
        raise UnknownWork(f"{name} is missing")
    return count


def _projected(node: PricedNode, sizes: tuple[Expr, Expr], past: int, masks: int) -> Work:
    """Queries, keys and values of an input by weights [I, 3 H D], for *sizes* of batch and queries."""
    batch, queries = sizes
    columns = node.shape(1, 2)[1]
    widths: list[int] = node.attribute("qkv_hidden_sizes") or []
    width, value_width = (
        (Expr.constant(widths[0]), Expr.constant(widths[2]))
        if len(widths) == 3
        else (columns // 3, columns // 3)
    )
    keys = queries + (node.shape(past, 5)[3] if past and node.has(past) else 0)
    heads = _Heads(batch, ZERO + head_count(node), queries, keys, width, value_width)
    core, extra = _core(node, heads, masks)
    rows = Expr.product(node.shape(0)[:-1])
    bias = rows * columns if node.has(2) else ZERO
    return macs(core + node.size(0) * columns, extra + bias)


@rule("Attention", domain=MS)
def _contrib_attention(node: PricedNode) -> Work:
    """The projection of the input by the weights and its bias, then as Attention over the past and the new keys."""
    batch, queries, _ = node.shape(0, 3)
    masks = node.has(3) + node.has(5) + bool(node.attribute("unidirectional", 0))
    return _projected(node, (batch, queries), 4, masks)


@rule("QAttention", domain=MS)
def _quantised_attention(node: PricedNode) -> Work:
    """As com.microsoft's Attention; zero points subtracted from input and weights, and what is projected scaled."""
    batch, queries, _ = node.shape(0, 3)
    masks = node.has(5) + bool(node.attribute("unidirectional", 0))
    work = _projected(node, (batch, queries), 8, masks)
    points = node.size(0) * int(node.has(6)) + node.size(1) * int(node.has(7))
    assert work.flops is not None
    return Work(work.macs, work.flops + points + batch * queries * node.shape(1)[1])


@rule("PackedAttention", domain=MS)
def _packed_attention(node: PricedNode) -> Work:
    """As com.microsoft's Attention, each item as long as the longest; only the tokens that are there are projected."""
    batch, queries = node.shape(3, 2)
    return _projected(node, (batch, queries), 0, int(node.has(5)))


@rule("PackedMultiHeadAttention", domain=MS)
def _packed_multi_head(node: PricedNode) -> Work:
    """As MultiHeadAttention, each item as long as the longest; the bias is added to the tokens that are there."""
    query, count = node.shape(0), head_count(node)
    batch, queries = node.shape(4, 2)
    packed = len(query) == 4
    width = query[1] * query[3] if packed else query[1]
    value_width = width if packed else node.shape(2, 2)[1]
    heads = _Heads(batch, ZERO + count, queries, queries, width, value_width)
    core, extra = _core(node, heads, int(node.has(6)))
    bias = query[0] * (width * 2 + value_width) if node.has(3) else ZERO
    return macs(core, extra + bias)


@rule("DecoderMaskedMultiHeadAttention", domain=MS)
def _decoder_attention(node: PricedNode) -> Work:
    """As MultiHeadAttention for one query, over all places of the cache."""
    batch, queries, width = node.shape(0, 3)
    count = head_count(node)
    fresh = width
    if not node.has(1):
        fresh = width = width // 3
    value_width = width
    if node.has(1) and len(node.shape(1)) == 4:
        keys, fresh = node.shape(1)[2], ZERO
        value_width = node.shape(2, 4)[3] * count
    else:
        shared = bool(node.attribute("past_present_share_buffer", 0))
        keys = node.shape(5, 4)[2] + int(not shared) if node.has(5) else queries
    heads = _Heads(batch, ZERO + count, queries, keys, width, value_width)
    core, extra = _core(node, heads, node.has(3) + node.has(4))
    bias = batch * (width + fresh * 2) if node.has(10) else ZERO
    return macs(core, extra + bias)


@rule("MultiHeadAttention", domain=MS)
def _multi_head(node: PricedNode) -> Work:
    """As Attention, and the bias of queries, keys and values where there is one."""
    query, count = node.shape(0), head_count(node)
    fresh: Expr = ZERO
    if len(query) == 5:
        batch, queries = query[:2]
        width = value_width = query[2] * query[4]
        keys = fresh = queries
    else:
        batch, queries, width = node.shape(0, 3)
        key = node.shape(1)
        if len(key) == 5:
            keys = fresh = key[1]
            value_width = width
        elif len(key) == 4:
            keys, value_width = key[2], node.shape(2, 4)[3] * count
        else:
            keys = fresh = key[1]
            value_width = node.shape(2, 3)[2]
    bias = batch * (queries * width + fresh * (width + value_width)) if node.has(3) else ZERO
    if node.has(6):
        keys = keys + node.shape(6, 4)[2]
    masks = node.has(4) + node.has(5) + bool(node.attribute("unidirectional", 0))
    heads = _Heads(batch, ZERO + count, queries, keys, width, value_width)
    core, extra = _core(node, heads, masks)
    return macs(core, extra + bias)


@rule("GroupQueryAttention", domain=MS)
def _group_query(node: PricedNode) -> Work:
    """As Attention over the present cache, with a causal mask, and rotated queries and new keys.

    Where the size of the present cache is unknown, it is that of the past and the new keys.
    """
    count, groups = head_count(node), head_count(node, "kv_num_heads")
    batch, queries, hidden = node.shape(0, 3)
    width = hidden if node.has(1) else hidden * count // (count + 2 * groups)
    keys = _cached_keys(node, queries)
    masks = 1 + node.has(10)
    core, extra = _core(node, _Heads(batch, ZERO + count, queries, keys, width, width), masks)
    if node.attribute("do_rotary", 0):
        turned = node.shape(7, 2)[1] * 2 * (count + groups)
        extra = extra + batch * queries * turned * cost("rotate")
    return macs(core, extra)


def _cached_keys(node: PricedNode, queries: Expr) -> Expr:
    present = node.known_output(1)
    if present is not None and len(present.shape) == 4:
        return present.shape[2]
    return queries + (node.shape(3, 4)[2] if node.has(3) else 0)
