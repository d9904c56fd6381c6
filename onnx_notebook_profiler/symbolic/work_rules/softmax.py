"""Softmax and its relatives."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, flops, rule

__all__: list[str] = []

_ONE_AXIS_OPSET = 13


def _rows(node: PricedNode) -> Expr:
    """How many distributions there are: from opset 13 on along one axis, before along all from ``axis`` on."""
    shape = node.shape(0)
    if not shape:
        return Expr.constant(1)
    axis = int(node.attribute("axis", -1)) % len(shape)
    rest = shape[axis + 1 :] if node.opset >= _ONE_AXIS_OPSET else ()
    return Expr.product((*shape[:axis], *rest))


@rule("Softmax")
def _softmax(node: PricedNode) -> Work:
    """The cost of softmax for each element: max, difference, exp, sum, division."""
    return flops(node.size(0) * cost("softmax"))


@rule("LogSoftmax")
def _log_softmax(node: PricedNode) -> Work:
    """As Softmax, with a difference in place of the division, and a log for each row."""
    return flops(node.size(0) * cost("softmax") + _rows(node) * cost("Log"))


@rule("Hardmax")
def _hardmax(node: PricedNode) -> Work:
    """One comparison for each element."""
    return flops(node.size(0))


@rule("BiasSoftmax", domain=MS)
def _bias_softmax(node: PricedNode) -> Work:
    """A sum and the cost of softmax for each element."""
    return flops(node.size(0) * (1 + cost("softmax")))


@rule("QLinearSoftmax", domain=MS)
def _qlinear_softmax(node: PricedNode) -> Work:
    """Each element dequantised, softmax, quantised."""
    return flops(node.size(0) * (cost("dequantise") + cost("softmax") + cost("quantise")))


@rule("NegativeLogLikelihoodLoss")
def _nll_loss(node: PricedNode) -> Work:
    """For each target one for the sign, with weights one more.

    Where it is reduced, one more for the sum, and for the mean of weights another one.
    """
    return flops(_loss(node, has_weights=node.has(2)))


@rule("SoftmaxCrossEntropyLoss")
def _softmax_loss(node: PricedNode) -> Work:
    """LogSoftmax of the scores, then as NegativeLogLikelihoodLoss."""
    shape = node.shape(0)
    log = node.size(0) * cost("softmax") + Expr.product((*shape[:1], *shape[2:])) * cost("Log")
    return flops(log + _loss(node, has_weights=node.has(2)))


def _loss(node: PricedNode, *, has_weights: bool) -> Expr:
    each = 1 + has_weights
    if node.attribute("reduction", "mean") != "none":
        each += 1 + (has_weights and node.attribute("reduction", "mean") == "mean")
    return ZERO + node.size(1) * each
