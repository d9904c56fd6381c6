"""Determinants, inverses and distances."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, macs, rule

__all__: list[str] = []


def _matrices(node: PricedNode) -> tuple[Expr, Expr]:
    """How many matrices there are, and their size."""
    shape = node.shape(0)
    if len(shape) < 2:
        raise UnknownWork(f"input 0 has {len(shape)} axes, expected 2 or more")
    return Expr.product(shape[:-2]), shape[-1]


@rule("Det")
def _det(node: PricedNode) -> Work:
    """n³ / 3 MACs for each matrix, by elimination."""
    count, size = _matrices(node)
    return macs(count * (size * size * size // 3))


@rule("Inverse", domain=MS)
def _inverse(node: PricedNode) -> Work:
    """n³ MACs for each matrix, by elimination."""
    count, size = _matrices(node)
    return macs(count * size * size * size)


@rule("CDist", domain=MS)
def _distances(node: PricedNode) -> Work:
    """K MACs of differences, which are one FLOP each, for each pair; a root where the metric is euclidean."""
    products = node.made * node.shape(0, 2)[1]
    root = cost("Sqrt") if node.attribute("metric", "sqeuclidean") == "euclidean" else 0
    return macs(products, products + node.made * root)


@rule("DynamicTimeWarping", domain=MS)
def _time_warping(node: PricedNode) -> Work:
    """Two comparisons and one sum for each pair."""
    return Work(Expr.constant(0), node.size(0) * 3)
