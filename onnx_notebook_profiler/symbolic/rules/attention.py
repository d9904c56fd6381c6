"""Attention with a cache, and convolution with a state."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []


@rule("CausalConvWithState")
def infer_causal_conv(call: Call) -> None:
    """As the input, and the last ``k - 1`` of its columns, W [C, 1, k].

    https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
    """
    x, w = call.shape(0), call.shape(1)
    call.give(0, x, call.dtype(0))
    call.give(1, (*x[:2], w[-1] - 1), call.dtype(0))


@rule("Attention", domain=CONTRIB)
def infer_contrib_attention(call: Call) -> None:
    """Output [B, S, H E] and the cache [2, B, H, T, D] of X [B, S, I] and W [I, 3 H D]."""
    x, weights, past = call.shape(0), call.shape(1), call.known_shape(4)
    heads = int(call.attributes["num_heads"])
    given = call.attributes.get("qkv_hidden_sizes")
    width = weights[1] // 3 if not given else Expr.constant(int(given[2]))
    call.give(0, (*x[:2], width), call.dtype(0))
    keys = x[1] + (past[3] if past is not None else 0)
    call.give(1, (2, x[0], heads, keys, width // heads), call.dtype(0))


@rule("MultiHeadAttention", domain=CONTRIB)
def infer_multi_head_attention(call: Call) -> None:
    """Output [B, S, H E], present_key and present_value [B, H, T, D], products [B, H, S, T]."""
    heads = int(call.attributes["num_heads"])
    q = call.shape(0)
    if len(q) == 5:  # [B, S, H, 3, D]: queries, keys and values in one
        batch, queries, depth = q[0], q[1], q[4]
        keys, width = queries, depth
    else:
        batch, queries, depth = q[0], q[1], q[2] // heads
        keys, width = _keys_and_width(call, heads)
    past = call.known_shape(6)
    if call.has(6) and past is None:
        raise Undecided("the shape of its cache is not known")
    total = keys + (past[2] if past is not None else 0)
    call.give(0, (batch, queries, width * heads), call.dtype(0))
    call.give(1, (batch, heads, total, depth), call.dtype(0))
    call.give(2, (batch, heads, total, width), call.dtype(0))
    call.give(3, (batch, heads, queries, total), call.dtype(0))


def _keys_and_width(call: Call, heads: int) -> tuple[Expr, Expr]:
    """How many keys there are, and how wide a value is in each head."""
    k = call.shape(1)
    if len(k) == 5:  # [B, T, H, 2, D]: keys and values in one
        return k[1], k[4]
    v = call.shape(2)
    keys = k[2] if len(k) == 4 else k[1]
    return keys, v[3] if len(v) == 4 else v[2] // heads
