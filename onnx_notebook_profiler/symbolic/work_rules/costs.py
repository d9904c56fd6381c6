"""The FLOPs of functions of one element, each counted from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork

__all__ = [
    "COSTS",
    "ELEMENTWISE",
    "TRANSCENDENTAL",
    "Cost",
    "activation_flops",
    "cost",
    "gelu_flops",
]

TRANSCENDENTAL: Final = 8
"""FLOPs of exp, log, sin, tanh, erf and their like: about the length of the polynomial that libraries evaluate."""

_T = TRANSCENDENTAL


class Cost(NamedTuple):
    """FLOPs for each element, and the formula that they are counted from."""

    flops: int
    formula: str


def _same(flops: int, formula: str, names: str) -> dict[str, Cost]:
    return dict.fromkeys(names.split(), Cost(flops, formula))


ELEMENTWISE: Final[Mapping[str, Cost]] = {
    **_same(1, "one operation", "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor"),
    **_same(1, "one operation", "Ceil Div Equal Floor Greater GreaterOrEqual IsInf IsNaN Less"),
    **_same(1, "one operation", "LessOrEqual Mod Mul Neg Not Or Reciprocal Relu Round Sign Sqrt"),
    **_same(1, "one operation", "Sub ThresholdedRelu Where Xor"),
    **_same(2, "compare, multiply", "LeakyRelu PRelu"),
    **_same(2, "min, max", "Clip"),
    **_same(3, "two comparisons, one sum", "Shrink"),
    **_same(3, "x / (1 + |x|)", "Softsign"),
    **_same(4, "max(0, min(1, a x + b))", "HardSigmoid"),
    **_same(5, "x max(0, min(1, a x + b))", "HardSwish"),
    **_same(_T, "one function", "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Sin Sinh"),
    **_same(_T, "one function", "Tan Tanh"),
    **_same(_T + 3, "1 / (1 + exp(-x))", "Sigmoid"),
    **_same(_T + 3, "x > 0, a (exp(x) - 1)", "Elu"),
    **_same(_T + 4, "g (x > 0, a (exp(x) - 1))", "Selu"),
    **_same(_T + 6, "max(0, x) + min(0, a (exp(x / a) - 1))", "Celu"),
    **_same(_T + 4, "0.5 x (1 + erf(x / √2))", "Gelu"),
    **_same(_T + 4, "x / (1 + exp(-a x))", "Swish QuickGelu"),
    **_same(_T + 5, "a b / (1 + exp(-alpha a))", "SwiGLU"),
    **_same(2 * _T + 1, "log(1 + exp(x))", "Softplus"),
    **_same(2 * _T + 1, "exp(y log(x))", "Pow"),
    **_same(3 * _T + 2, "x tanh(log(1 + exp(x)))", "Mish"),
}
"""Operators that cost the same for each element of their output."""

COSTS: Final[Mapping[str, Cost]] = {
    **ELEMENTWISE,
    "Affine": Cost(2, "a x + b"),
    "ScaledTanh": Cost(_T + 2, "a tanh(b x)"),
    "gelu by tanh": Cost(_T + 8, "0.5 x (1 + tanh(c (x + d x x x)))"),
    "quantise": Cost(5, "divide, round, add zero point, min, max"),
    "dequantise": Cost(2, "subtract zero point, multiply"),
    "softmax": Cost(_T + 4, "max, x - max, exp, sum, divide"),
    "rotate": Cost(3, "x cos - y sin"),
    "normal number": Cost(2 * _T + 6, "m + s √(-2 log u) cos(2π v)"),
    "uniform number": Cost(2, "low + u (high - low)"),
}
"""Those, and the parts that other rules are put together from."""

_BY_LOWER_NAME = {name.lower(): cost.flops for name, cost in COSTS.items() if " " not in name}


def cost(name: str) -> int:
    """FLOPs for one element."""
    return COSTS[name].flops


def activation_flops(name: str) -> int:
    """FLOPs for one element of an activation that an attribute names; 0 for an empty name."""
    if not name:
        return 0
    if name.lower() not in _BY_LOWER_NAME:
        raise UnknownWork(f"no cost is known for the activation {shorten(name)}")
    return _BY_LOWER_NAME[name.lower()]


def gelu_flops(node: PricedNode) -> int:
    """FLOPs for one element of Gelu, as its attribute ``approximate`` says."""
    return cost("gelu by tanh" if node.attribute("approximate") == "tanh" else "Gelu")
