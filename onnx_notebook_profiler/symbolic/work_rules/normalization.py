"""Normalisations: what is done to each element, and to each row that has a mean and a variance of its own."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []

_CENTRED = 5
"""Sum for the mean, difference, square and its sum, product with the inverse deviation."""
_CENTRED_ROW = 5
"""Mean, variance, epsilon, root, inverse."""
_UNCENTRED = 3
"""Square and its sum, product with the inverse root."""
_UNCENTRED_ROW = 4
"""Mean, epsilon, root, inverse."""
_ONE_EPSILON_OPSET = 14


@rule("BatchNormalization")
def _batch(node: PricedNode) -> Work:
    """A product and a sum for each element, 5 for each channel; in training the statistics, too: 4 for each element."""
    trains = node.attribute("training_mode", 0) and node.opset >= _ONE_EPSILON_OPSET
    return flops(node.size(0) * (6 if trains else 2) + node.size(1) * 5)


def _rows(node: PricedNode) -> Expr:
    """How many rows are normalised along the axes from ``axis`` on."""
    shape = node.shape(0)
    axis = int(node.attribute("axis", -1))
    if not -len(shape) <= axis < len(shape):
        raise UnknownWork(f"axis {axis} is not one of {len(shape)}")
    return Expr.product(shape[: axis % len(shape)])


@rule("LayerNormalization")
def _layer(node: PricedNode) -> Work:
    """For each element 5 to centre and divide, 1 to scale and 1 for the bias; 5 for each row."""
    each = _CENTRED + 1 + node.has(2)
    return flops(node.size(0) * each + _rows(node) * _CENTRED_ROW)


@rule("RMSNormalization", "SimplifiedLayerNormalization")
@rule("SimplifiedLayerNormalization", domain=MS)
def _rms(node: PricedNode) -> Work:
    """For each element 3 to divide by the root mean square, 1 to scale; 4 for each row."""
    return flops(node.size(0) * (_UNCENTRED + 1) + _rows(node) * _UNCENTRED_ROW)


@rule("InstanceNormalization")
def _instance(node: PricedNode) -> Work:
    """For each element 5 to centre and divide, 2 to scale and shift; 5 for each plane."""
    shape = node.shape(0)
    return flops(node.size(0) * (_CENTRED + 2) + shape[0] * shape[1] * _CENTRED_ROW)


@rule("GroupNormalization")
def _group(node: PricedNode) -> Work:
    """For each element 5 to centre and divide, 2 to scale and shift; 5 for each group."""
    groups = node.shape(0)[0] * int(node.attribute("num_groups", 1))
    return flops(node.size(0) * (_CENTRED + 2) + groups * _CENTRED_ROW)


@rule("GroupNorm", "SkipGroupNorm", domain=MS)
def _contrib_group(node: PricedNode) -> Work:
    """The sums with skip and bias, then as GroupNormalization, and sigmoid's cost for SiLU."""
    each = node.has(3) + node.has(4) + _CENTRED + 2
    each += cost("Sigmoid") if node.attribute("activation", 0) else 0
    groups = node.shape(0)[0] * int(node.attribute("groups", 1))
    return flops(node.made * each + groups * _CENTRED_ROW)


@rule("MeanVarianceNormalization")
def _mean_variance(node: PricedNode) -> Work:
    """For each element 5 to centre and divide; 5 for each mean."""
    shape = node.shape(0)
    axes = {axis % len(shape) for axis in node.attribute("axes", (0, 2, 3))}
    rows = Expr.product(size for axis, size in enumerate(shape) if axis not in axes)
    return flops(node.size(0) * _CENTRED + rows * _CENTRED_ROW)


@rule("LpNormalization")
def _lp(node: PricedNode) -> Work:
    """For each element |x| or its square, the sum, the division; for p = 2 a root for each row."""
    shape = node.shape(0)
    axis = int(node.attribute("axis", -1)) % len(shape)
    rows = Expr.product((*shape[:axis], *shape[axis + 1 :]))
    roots = rows * (cost("Sqrt") if node.attribute("p", 2) == 2 else 0)
    return flops(node.size(0) * 3 + roots)


@rule("LRN")
def _lrn(node: PricedNode) -> Work:
    """For each element its square, ``size`` sums, a product and a sum, a power, the division."""
    return flops(node.size(0) * (int(node.attribute("size", 1)) + 4 + cost("Pow")))


@rule("SkipLayerNormalization", domain=MS)
def _skip_layer(node: PricedNode) -> Work:
    """The sums with skip and bias, then as LayerNormalization."""
    each = 1 + node.has(4) + _CENTRED + 1 + node.has(3)
    return flops(node.size(0) * each + Expr.product(node.shape(0)[:-1]) * _CENTRED_ROW)


@rule("SkipSimplifiedLayerNormalization", domain=MS)
def _skip_rms(node: PricedNode) -> Work:
    """The sums with skip and bias, then as RMSNormalization."""
    each = 1 + node.has(3) + _UNCENTRED + 1
    return flops(node.size(0) * each + Expr.product(node.shape(0)[:-1]) * _UNCENTRED_ROW)


@rule("EmbedLayerNormalization", domain=MS)
def _embed_layer(node: PricedNode) -> Work:
    """The sum of the two or three embeddings, then as LayerNormalization."""
    return flops(_embedded(node))


@rule("QEmbedLayerNormalization", domain=MS)
def _quantised_embed_layer(node: PricedNode) -> Work:
    """Each embedding dequantised where it is taken, then as EmbedLayerNormalization."""
    tables = 2 + node.has(1)
    return flops(_embedded(node) + node.made * tables * cost("dequantise"))


def _embedded(node: PricedNode) -> Expr:
    each = 1 + node.has(1) + _CENTRED + 2
    return node.made * each + node.size(0) * _CENTRED_ROW
