"""Operators that make numbers from none."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []


@rule("Range", domain=MS)
@rule("Range")
def _range(node: PricedNode) -> Work:
    """A product and a sum for each output element."""
    return flops(node.made * 2)


@rule("RandomNormal", "RandomNormalLike")
def _normal(node: PricedNode) -> Work:
    """The cost of a normal number for each output element; the generator's integers are not counted."""
    return flops(node.made * cost("normal number"))


@rule("RandomUniform", "RandomUniformLike")
def _uniform(node: PricedNode) -> Work:
    """The cost of a uniform number for each output element; the generator's integers are not counted."""
    return flops(node.made * cost("uniform number"))


@rule("Bernoulli")
def _bernoulli(node: PricedNode) -> Work:
    """A uniform number and a comparison for each element."""
    return flops(node.made * (cost("uniform number") + 1))
