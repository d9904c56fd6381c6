"""Optimisers of ai.onnx.preview.training, counted from the pseudocode of their schemas."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import Work, flops, rule

__all__: list[str] = []

_TRAINING = "ai.onnx.preview.training"


def _parameters(node: PricedNode, states: int) -> Expr:
    """Elements of all tensors that are optimised; each comes with a gradient and *states* tensors more."""
    count = (len(node.node.input) - 2) // (2 + states)
    return Expr.sum(node.size(position) for position in range(2, 2 + count))


@rule("Adagrad", domain=_TRAINING)
def _adagrad(node: PricedNode) -> Work:
    """For each parameter: 2 for the norm, 2 for the sum of squares, a root, epsilon, 3 for the step."""
    return flops(_parameters(node, 1) * (2 + 2 + cost("Sqrt") + 1 + 3))


@rule("Adam", domain=_TRAINING)
def _adam(node: PricedNode) -> Work:
    """For each parameter: 2 for the norm, 7 for the averages, a root, epsilon, 3 for the step, 1 for a norm after."""
    after = 1 if node.attribute("norm_coefficient_post", 0.0) else 0
    return flops(_parameters(node, 2) * (2 + 3 + 4 + cost("Sqrt") + 1 + 3 + after))


@rule("Momentum", domain=_TRAINING)
def _momentum(node: PricedNode) -> Work:
    """For each parameter: 2 for the norm, 3 for the momentum, 2 for the step, 2 more where it is Nesterov's."""
    each = 9 if node.attribute("mode") == "nesterov" else 7
    return flops(_parameters(node, 1) * each)
