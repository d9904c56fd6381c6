"""Convolutions in all their forms. Taps that fall into the padding count like others.

A filter has C / group * kernel taps for each output channel; each tap is one MAC for each output position.
"""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import activation_flops, cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, macs, rule

__all__: list[str] = []

_NHWC = "com.ms.internal.nhwc"
_NCHWC = "com.microsoft.nchwc"


def _taps(node: PricedNode, weight: int = 1) -> Expr:
    """Taps of one filter of a weight [M, C / group, kernel...]."""
    shape = node.shape(weight)
    if len(shape) < 3:
        raise UnknownWork(f"input {weight} has {len(shape)} axes, expected a filter with 3 or more")
    return Expr.product(shape[1:])


def _after(node: PricedNode, bias: int, addend: int | None = None) -> Expr:
    """FLOPs for the bias, an addend and an activation."""
    each = int(node.has(bias)) + (addend is not None and node.has(addend))
    return node.made * (each + activation_flops(node.attribute("activation", "")))


@rule("Conv", domain=_NHWC)
@rule("NhwcConv", "NhwcFusedConv", "FusedConv", domain=MS)
@rule("Conv", domain=_NCHWC)
@rule("Conv")
def _conv(node: PricedNode) -> Work:
    """C / group * kernel MACs for each output element; one FLOP for the bias, one for an addend, the activation."""
    is_plain = node.op_type == "Conv" and node.node.domain not in (_NHWC, _NCHWC)
    return macs(node.made * _taps(node), _after(node, 2, None if is_plain else 3))


@rule("ConvTransposeWithDynamicPads", domain=MS)
@rule("ConvTranspose")
def _conv_transpose(node: PricedNode) -> Work:
    """M / group * kernel MACs for each input element; one FLOP for each output element for the bias."""
    bias = 3 if node.op_type == "ConvTransposeWithDynamicPads" else 2
    product = node.size(0) * _taps(node)
    return macs(product, node.made if node.has(bias) else ZERO)


@rule("ConvInteger")
def _conv_integer(node: PricedNode) -> Work:
    """As Conv; one FLOP for each element whose zero point is subtracted."""
    points = node.size(0) * int(node.has(2)) + node.size(1) * int(node.has(3))
    return macs(node.made * _taps(node), points)


@rule("QLinearConv", domain=MS)
@rule("QLinearConv")
def _qlinear_conv(node: PricedNode) -> Work:
    """As Conv; zero points subtracted from X and W, every output element quantised."""
    extra = node.size(0) + node.size(3) + node.made * (cost("quantise") + node.has(8))
    return macs(node.made * _taps(node, 3), extra)


@rule("DeformConv")
def _deform_conv(node: PricedNode) -> Work:
    """As Conv; for each tap of each channel 2 FLOPs for each of the 2 to the n corners, and one where there is a mask.

    The offsets are added to the places: one FLOP for each.
    """
    shape = node.shape(1)
    places = Expr.product(node.output().shape[2:]) * Expr.product(shape[2:])
    sampled = node.shape(0)[0] * node.shape(0)[1] * places
    axes = len(shape) - 2
    each = 2 * 2**axes + node.has(4)
    return macs(node.made * _taps(node), _after(node, 3) + sampled * each + node.size(2))


@rule("CausalConvWithState", domain=MS)
@rule("CausalConvWithState")
def _causal_conv(node: PricedNode) -> Work:
    """A MAC for each tap and output element; one FLOP for the bias, the activation's cost."""
    name = str(node.attribute("activation", "none") or "none")
    each = 0 if name == "none" else activation_flops("Swish" if name == "silu" else name)
    return macs(node.made * node.shape(1, 3)[2], node.made * (each + node.has(2)))


@rule("Col2Im")
def _col2im(node: PricedNode) -> Work:
    """One sum for each input element."""
    return Work(ZERO, node.size(0))
