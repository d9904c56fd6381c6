"""What stands beside attention: linear attention, rotary embeddings, biases of positions."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.attention import head_count
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, macs, rule

__all__: list[str] = []


@rule("LinearAttention", domain=MS)
@rule("LinearAttention")
def _linear_attention(node: PricedNode) -> Work:
    """For each step and head, d_k d_v MACs to add k v to the state, and as many for each query head to read it.

    The delta rule takes as many again to find what the state holds for k, and 2 d_v FLOPs; a decay takes one FLOP for
    each number of the state, and exp of what is given; the scale one for each output element.
    """
    batch, steps, _ = node.shape(0, 3)
    groups = head_count(node, "kv_num_heads")
    value_width = node.shape(2, 3)[2]
    state = node.shape(1, 3)[2] * value_width // groups
    kind = str(node.attribute("update_rule", "gated_delta"))
    queries = head_count(node, "q_num_heads")
    readers = max(queries, groups)
    read = state * readers // groups
    places = batch * steps
    extra = places * (value_width // groups * readers)
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
        Expr.product(shape[:-1]) if len(shape) == 4 else Expr.product(shape[:2]) * head_count(node)
    )
    return flops(places * turned * cost("rotate"))


@rule("GemmaRotaryEmbedding", domain=MS)
def _gemma_rotary(node: PricedNode) -> Work:
    """A cosine and a sine for each angle, 3 for each number of the queries and keys."""
    angles = node.size(0) * (cost("Cos") + cost("Sin"))
    return flops(angles + (node.size(1) + node.size(3)) * cost("rotate"))


@rule("RelativePositionBias", domain=MS)
def _position_bias(node: PricedNode) -> Work:
    """For each pair of query and key its bucket: a log, and 5 for difference, comparison, product, sum and minimum."""
    return flops(node.made // node.shape(0, 2)[1] * (cost("Log") + 5))


@rule("GatedRelativePositionBias", domain=MS)
def _gated_bias(node: PricedNode) -> Work:
    """E MACs for each number of the query, its bias, and for each place and head E for a bias, E sums and two gates.

    The gates are two sigmoids and 4 FLOPs; each output element is one product.
    """
    size, gates = node.shape(3, 2)
    rows = node.size(0) // size
    each = gates * 2 + 2 * cost("Sigmoid") + 4
    return macs(node.size(0) * gates, node.size(0) + rows * each + node.made)
