"""Reductions: what is done to each input element, and to each result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []

_EACH_AND_RESULT: Final[Mapping[str, tuple[int, int]]] = {
    "ArgMax": (1, 0),
    "ArgMin": (1, 0),
    "ReduceL1": (2, 0),
    "ReduceL2": (2, cost("Sqrt")),
    "ReduceLogSum": (1, cost("Log")),
    "ReduceLogSumExp": (3 + cost("Exp"), 1 + cost("Log")),
    "ReduceMax": (1, 0),
    "ReduceMean": (1, 1),
    "ReduceMin": (1, 0),
    "ReduceProd": (1, 0),
    "ReduceSum": (1, 0),
    "ReduceSumSquare": (2, 0),
}


@rule(*_EACH_AND_RESULT)
def _reduction(node: PricedNode) -> Work:
    """For each input element 1; L1, L2 and SumSquare 2; LogSumExp 3 and exp.

    For each result: Mean 1, L2 a root, LogSum a log, LogSumExp a log and a sum.
    """
    each, result = _EACH_AND_RESULT[node.op_type]
    total = node.size(0) * each
    return flops(total + node.made * result if result else total)


@rule("CumProd", "CumSum")
def _cumulative(node: PricedNode) -> Work:
    """One for each element."""
    return flops(node.size(0))


@rule("QLinearReduceMean", domain=MS)
def _qlinear_mean(node: PricedNode) -> Work:
    """As ReduceMean, every input element dequantised, every output element quantised."""
    return flops(node.size(0) * (1 + cost("dequantise")) + node.made * (1 + cost("quantise")))


@rule("NonZero")
def _non_zero(node: PricedNode) -> Work:
    """One comparison for each input element."""
    return flops(node.size(0))
