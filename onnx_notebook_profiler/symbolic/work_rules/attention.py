"""Attention: scores, softmax and values over all keys, those of the past included.

Masked, causal and windowed scores count like others; so does a cache where it is longer than what is valid in it.
"""

from __future__ import annotations

import dataclasses

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, flops, macs, rule

__all__: list[str] = []


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


def _num_heads(node: PricedNode, name: str = "num_heads") -> int:
    count = int(node.attribute(name, 0))
    if count < 1:
        raise UnknownWork(f"{name} is missing")
    return count


@rule("Attention", domain=MS)
def _contrib_attention(node: PricedNode) -> Work:
    """The projection of the input by the weights and its bias, then as Attention over the past and the new keys."""
    batch, queries, _ = node.shape(0, 3)
    projected = node.shape(1, 2)[1]
    widths: list[int] = node.attribute("qkv_hidden_sizes") or []
    width, value_width = (
        (Expr.constant(widths[0]), Expr.constant(widths[2]))
        if len(widths) == 3
        else (projected // 3, projected // 3)
    )
    keys = queries + (node.shape(4, 5)[3] if node.has(4) else 0)
    masks = node.has(3) + node.has(5) + bool(node.attribute("unidirectional", 0))
    heads = _Heads(batch, ZERO + _num_heads(node), queries, keys, width, value_width)
    core, extra = _core(node, heads, masks)
    bias = batch * queries * projected if node.has(2) else ZERO
    return macs(core + node.size(0) * projected, extra + bias)


@rule("MultiHeadAttention", domain=MS)
def _multi_head(node: PricedNode) -> Work:
    """As Attention, and the bias of queries, keys and values where there is one."""
    query, count = node.shape(0), _num_heads(node)
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
    count, groups = _num_heads(node), _num_heads(node, "kv_num_heads")
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


@rule("LinearAttention")
def _linear_attention(node: PricedNode) -> Work:
    """For each step and head, d_k d_v MACs to add k v to the state, and as many for each query head to read it.

    The delta rule takes as many again to find what the state holds for k, and 2 d_v FLOPs; a decay takes one FLOP for
    each number of the state, and exp of what is given; the scale one for each output element.
    """
    batch, steps, query_width = node.shape(0, 3)
    groups = _num_heads(node, "kv_num_heads")
    value_width = node.shape(2, 3)[2]
    state = node.shape(1, 3)[2] * value_width // groups
    kind = str(node.attribute("update_rule", "gated_delta"))
    queries = _num_heads(node, "q_num_heads")
    read = query_width * value_width // groups
    places = batch * steps
    extra = places * (value_width // groups * queries)
    if "gated" in kind:
        extra = extra + places * state + node.size(4) * cost("Exp")
    if "delta" in kind:
        extra = extra + places * value_width * 2
    return macs(places * (state * (2 if "delta" in kind else 1) + read), extra)


@rule("RotaryEmbedding", domain=MS)
@rule("RotaryEmbedding")
def _rotary(node: PricedNode) -> Work:
    """3 for each element that is turned."""
    turned = int(node.attribute("rotary_embedding_dim", 0))
    if not turned:
        return flops(node.size(0) * cost("rotate"))
    shape = node.shape(0)
    places = (
        Expr.product(shape[:-1]) if len(shape) == 4 else Expr.product(shape[:2]) * _num_heads(node)
    )
    return flops(places * turned * cost("rotate"))
