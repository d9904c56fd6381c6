"""Matrix products: plain, fused, integer and quantised."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import activation_flops, cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, macs, rule

__all__: list[str] = []


def _last(node: PricedNode, position: int) -> Expr:
    shape = node.shape(position)
    if not shape:
        raise UnknownWork(f"input {position} is a scalar, expected a matrix")
    return shape[-1]


@rule("MatMul")
def _matmul(node: PricedNode) -> Work:
    """K MACs for each output element."""
    return macs(node.made * _last(node, 0))


def _gemm_product(node: PricedNode) -> Expr:
    """M N K."""
    shape = node.shape(0, 2)
    return node.made * shape[0 if node.attribute("transA", 0) else 1]


def _scaled(node: PricedNode, bias: int) -> Expr:
    """FLOPs for ``alpha``, ``beta`` and the addend at *bias*."""
    extra = node.made if node.attribute("alpha", 1.0) != 1 else ZERO
    if node.has(bias) and node.attribute("beta", 1.0) != 0:
        extra = extra + node.made
        if node.attribute("beta", 1.0) != 1:
            extra = extra + node.size(bias)
    return extra


@rule("FusedGemm", domain=MS)
@rule("Gemm")
def _gemm(node: PricedNode) -> Work:
    """M N K MACs; one FLOP for each output element for alpha and for C, one for each of C for beta; the activation."""
    extra = _scaled(node, 2)
    return macs(
        _gemm_product(node), extra + node.made * activation_flops(node.attribute("activation", ""))
    )


@rule("GemmFastGelu", domain=MS)
def _gemm_gelu(node: PricedNode) -> Work:
    """K MACs for each output element, the bias, Gelu by tanh."""
    each = cost("gelu by tanh") + node.has(2)
    return macs(node.made * _last(node, 0), node.made * each)


@rule("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul", domain=MS)
def _fused_matmul(node: PricedNode) -> Work:
    """K MACs for each output element, one FLOP for alpha, the activation's cost."""
    shape = node.shape(0)
    if node.attribute("transA", 0) and len(shape) > 1:
        depth = shape[0] if node.attribute("transBatchA", 0) else shape[-2]
    else:
        depth = _last(node, 0)
    each = (node.attribute("alpha", 1.0) != 1) + activation_flops(node.attribute("activation", ""))
    return macs(node.made * depth, node.made * each)


@rule("MatMulNBits", domain=MS)
def _matmul_nbits(node: PricedNode) -> Work:
    """K MACs for each output element, the bias, and every weight dequantised once."""
    depth, columns = int(node.attribute("K", 0)), int(node.attribute("N", 0))
    extra = node.made * int(node.has(5)) + depth * columns * cost("dequantise")
    return macs(node.made * depth, extra)


@rule("MatMulBnb4", domain=MS)
def _matmul_bnb4(node: PricedNode) -> Work:
    """K MACs for each output element, and every weight scaled once."""
    depth, columns = int(node.attribute("K", 0)), int(node.attribute("N", 0))
    summed = depth if node.attribute("transB", 1) else columns
    return macs(node.made * summed, ZERO + depth * columns)


@rule("MatMulInteger16", domain=MS)
@rule("MatMulInteger")
def _matmul_integer(node: PricedNode) -> Work:
    """K MACs for each output element, one FLOP for each element whose zero point is subtracted."""
    return macs(node.made * _last(node, 0), _zero_points(node, {2: 0, 3: 1}))


def _zero_points(node: PricedNode, operands: dict[int, int]) -> Expr:
    """One FLOP for each element of the inputs whose zero point is given: *operands* maps one to the other."""
    return Expr.sum(node.size(data) for point, data in operands.items() if node.has(point))


@rule("MatMulIntegerToFloat", domain=MS)
def _matmul_to_float(node: PricedNode) -> Work:
    """As MatMulInteger, then a product with the scale and the bias for each output element."""
    extra = _zero_points(node, {4: 0, 5: 1}) + node.made * (1 + node.has(6))
    return macs(node.made * _last(node, 0), extra)


@rule("DynamicQuantizeMatMul", domain=MS)
def _dynamic_matmul(node: PricedNode) -> Work:
    """A quantised by its extremes, then as MatMulIntegerToFloat."""
    quantised = node.size(0) * (2 + cost("quantise") + 1)
    extra = quantised + _zero_points(node, {3: 1}) + node.made * (1 + node.has(4))
    return macs(node.made * _last(node, 0), extra)


@rule("QLinearMatMul", domain=MS)
@rule("QLinearMatMul")
def _qlinear_matmul(node: PricedNode) -> Work:
    """K MACs for each output element, zero points subtracted from A and B, every output element quantised."""
    extra = _zero_points(node, {2: 0, 5: 3}) + node.made * cost("quantise")
    return macs(node.made * _last(node, 0), extra)


@rule("QGemm", domain=MS)
def _qgemm(node: PricedNode) -> Work:
    """M N K MACs, zero points, C, and every output element quantised, or scaled where the output is float."""
    each = int(node.has(6)) + (cost("quantise") if node.has(7) else 1)
    return macs(_gemm_product(node), _zero_points(node, {2: 0, 5: 3}) + node.made * each)
