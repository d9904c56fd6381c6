"""Pools; elements of the padding count like others."""

from __future__ import annotations

from math import prod

from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []

_NHWC = "com.ms.internal.nhwc"
_NCHWC = "com.microsoft.nchwc"


def _window(node: PricedNode) -> int:
    kernel = node.attribute("kernel_shape")
    if not kernel:
        raise UnknownWork("kernel_shape is missing")
    return prod(kernel)


def _power(node: PricedNode) -> tuple[int, int]:
    """FLOPs for each element and for each result of a norm: |x|, its power and the sum; the root."""
    p = node.attribute("p", 2)
    if p == 1:
        return 2, 0
    return (2, cost("Sqrt")) if p == 2 else (2 + cost("Pow"), cost("Pow"))


@rule("MaxPool", domain=_NHWC)
@rule("MaxPool", domain=_NCHWC)
@rule("MaxpoolWithMask", "NhwcMaxPool", domain=MS)
@rule("MaxPool")
def _max_pool(node: PricedNode) -> Work:
    """One comparison for each element of each window."""
    return flops(node.made * _window(node))


@rule("AveragePool", domain=_NHWC)
@rule("AveragePool", domain=_NCHWC)
@rule("AveragePool")
def _average_pool(node: PricedNode) -> Work:
    """One sum for each element of each window, and one division."""
    return flops(node.made * (_window(node) + 1))


@rule("LpPool")
def _lp_pool(node: PricedNode) -> Work:
    """|x| to the p and a sum for each element of each window (2 FLOPs for p = 1 or 2), and the root."""
    each, root = _power(node)
    return flops(node.made * (_window(node) * each + root))


@rule("GlobalMaxPool", domain=_NHWC)
@rule("GlobalMaxPool", domain=_NCHWC)
@rule("GlobalMaxPool")
def _global_max(node: PricedNode) -> Work:
    """One comparison for each input element."""
    return flops(node.size(0))


@rule("GlobalAveragePool", domain=_NHWC)
@rule("GlobalAveragePool", domain=_NCHWC)
@rule("GlobalAveragePool")
def _global_average(node: PricedNode) -> Work:
    """One sum for each input element, and one division for each mean."""
    return flops(node.size(0) + node.made)


@rule("GlobalLpPool")
def _global_lp(node: PricedNode) -> Work:
    """|x| to the p and a sum for each input element (2 FLOPs for p = 1 or 2), and the root."""
    each, root = _power(node)
    return flops(node.size(0) * each + node.made * root)


@rule("QLinearAveragePool", domain=MS)
def _qlinear_average(node: PricedNode) -> Work:
    """As AveragePool, every input element dequantised, every output element quantised."""
    each = _window(node) + 1 + cost("quantise")
    return flops(node.size(0) * cost("dequantise") + node.made * each)


@rule("QLinearGlobalAveragePool", domain=MS)
def _qlinear_global(node: PricedNode) -> Work:
    """As GlobalAveragePool, every input element dequantised, every output element quantised."""
    return flops(node.size(0) * (1 + cost("dequantise")) + node.made * (1 + cost("quantise")))


@rule("RoiAlign")
def _roi_align(node: PricedNode) -> Work:
    """sampling_ratio² samples for each output element, each of 4 corners at 2 FLOPs and one to fold it; a division.

    Unknown where sampling_ratio is 0: the data decides then.
    """
    ratio = int(node.attribute("sampling_ratio", 0))
    if ratio <= 0:
        raise UnknownWork("the size of each region, which only the data says, decides the samples")
    return flops(node.made * (ratio * ratio * 9 + 1))
