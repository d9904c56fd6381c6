"""Operators that do the same to each element."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.work_rules.costs import ELEMENTWISE, cost, gelu_flops
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []


@rule("QuickGelu", domain=MS)
@rule(*(name for name in ELEMENTWISE if name not in {"Gelu", "Pow", "QuickGelu"}))
def _elementwise(node: PricedNode) -> Work:
    """Its cost for each output element."""
    return flops(node.made * ELEMENTWISE[node.op_type].flops)


@rule("Pow")
def _pow(node: PricedNode) -> Work:
    """Its cost for each output element; a fixed exponent 2 is one product, 3 two, 0.5 a root."""
    known = {2.0: 1, 3.0: 2, 0.5: cost("Sqrt")}
    exponent = node.number(1)
    return flops(
        node.made * (cost("Pow") if exponent is None else known.get(exponent, cost("Pow")))
    )


@rule("Gelu", domain=MS)
@rule("Gelu")
def _gelu(node: PricedNode) -> Work:
    """The cost of Gelu by erf or by tanh for each output element."""
    return flops(node.made * gelu_flops(node))


@rule("Max", "Mean", "Min", "Sum")
def _variadic(node: PricedNode) -> Work:
    """For each output element one less than there are inputs; Mean one more, to divide."""
    count = sum(map(bool, node.node.input)) - (node.op_type != "Mean")
    return flops(node.made * count)


@rule("SwiGLU", domain=MS)
def _clamped_swiglu(node: PricedNode) -> Work:
    """As SwiGLU for each output element; one more for beta, 3 to clamp both halves."""
    clamps = 3 if node.attribute("limit", 0.0) else 0
    shift = 1 if node.attribute("activation_beta", 0.0) else 0
    return flops(node.made * (cost("SwiGLU") + shift + clamps))


@rule("ScaledSiLU", domain=MS)
def _scaled_silu(node: PricedNode) -> Work:
    """The cost of Swish for each element."""
    return flops(node.made * cost("Swish"))


@rule("BiasAdd", "BiasDropout", domain=MS)
def _bias_add(node: PricedNode) -> Work:
    """One sum for each output element and each input beyond the first (bias, skip)."""
    return flops(node.made * (1 + node.has(2)))


@rule("BiasGelu", "FastGelu", "BiasSplitGelu", domain=MS)
def _bias_gelu(node: PricedNode) -> Work:
    """A sum where there is a bias, and Gelu; BiasSplitGelu two sums, Gelu and a product."""
    if node.op_type == "BiasSplitGelu":
        return flops(node.made * (2 + cost("Gelu") + 1))
    each = cost("gelu by tanh" if node.op_type == "FastGelu" else "Gelu")
    return flops(node.made * (each + node.has(1)))


@rule("ComplexMul", "ComplexMulConj", domain=MS)
def _complex_product(node: PricedNode) -> Work:
    """4 products and 2 sums for each complex number, which is two elements."""
    return flops(node.made * 3)


@rule("IsAllFinite", domain=MS)
def _all_finite(node: PricedNode) -> Work:
    """One comparison for each input element."""
    total = node.size(0)
    for position in range(1, len(node.node.input)):
        total = total + node.size(position)
    return flops(total)


@rule("Dropout")
def _dropout(node: PricedNode) -> Work:
    """Nothing at inference; in training a random number, a comparison and a product for each element."""
    if node.is_view:
        return flops(0)
    return flops(node.made * (cost("uniform number") + 2))
