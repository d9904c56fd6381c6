"""Quantisation, and operators on quantised tensors that do the same to each element."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []

_FROM = cost("dequantise")
_TO = cost("quantise")


@rule("QuantizeLinear", domain=MS)
@rule("QuantizeLinear")
def _quantize(node: PricedNode) -> Work:
    """The cost of quantise for each element."""
    return flops(node.size(0) * _TO)


@rule("DequantizeLinear", domain=MS)
@rule("DequantizeLinear")
def _dequantize(node: PricedNode) -> Work:
    """The cost of dequantise for each element, one less without a zero point."""
    return flops(node.size(0) * (_FROM if node.has(2) else _FROM - 1))


@rule("GatherBlockQuantized", domain=MS)
def _gather_quantized(node: PricedNode) -> Work:
    """The cost of dequantise for each output element."""
    return flops(node.made * _FROM)


@rule("DynamicQuantizeLinear")
def _dynamic_quantize(node: PricedNode) -> Work:
    """Minimum, maximum and the cost of quantise for each element."""
    return flops(node.size(0) * (2 + _TO))


@rule("QLinearAdd", "QLinearMul", domain=MS)
def _qlinear_binary(node: PricedNode) -> Work:
    """Each element of A and B dequantised; one operation and the cost of quantise for each output element."""
    return flops((node.size(0) + node.size(3)) * _FROM + node.made * (1 + _TO))


@rule("QLinearLeakyRelu", "QLinearSigmoid", domain=MS)
def _qlinear_unary(node: PricedNode) -> Work:
    """Each element dequantised, the function's cost, quantised."""
    return flops(node.made * (_FROM + cost(node.op_type.removeprefix("QLinear")) + _TO))


@rule("QLinearWhere", domain=MS)
def _qlinear_where(node: PricedNode) -> Work:
    """One choice for each output element, dequantised and quantised."""
    return flops(node.made * (cost("Where") + _FROM + _TO))


@rule("QLinearConcat", domain=MS)
def _qlinear_concat(node: PricedNode) -> Work:
    """Each element dequantised and quantised."""
    parts = range(2, len(node.node.input), 3)
    return flops(Expr.sum(node.size(position) for position in parts) * (_FROM + _TO))
