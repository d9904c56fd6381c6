"""Sorting and selecting, counted in comparisons."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []


@rule("TopK")
def _top_k(node: PricedNode) -> Work:
    """For each row of n elements n (1 + ⌈log2 k⌉) comparisons: a heap of k; unknown for a symbolic k."""
    shape = node.output().shape
    axis = int(node.attribute("axis", -1))
    kept = shape[axis] if shape else Expr.constant(1)
    return flops(node.size(0) * (1 + node.bits(kept, "k")))


@rule("Unique", domain=MS)
@rule("Unique")
def _unique(node: PricedNode) -> Work:
    """To sort n elements n ⌈log2 n⌉ comparisons, of whole slices where an axis is given; unknown for a symbolic n."""
    axis = node.attribute("axis")
    count = node.size(0) if axis is None else node.shape(0)[int(axis)]
    return flops(node.size(0) * node.bits(count, "n"))


@rule("OneHot")
def _one_hot(node: PricedNode) -> Work:
    """One comparison for each output element."""
    return flops(node.made)
