"""RNN, GRU and LSTM, each step at full length: a row that ends early counts like the longest.

W [D, gates * H, I] and R [D, gates * H, H] hold a MAC for each step and each row of the batch; D is 1 or 2 directions.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import activation_flops, cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, ZERO, Work, macs, rule

__all__: list[str] = []


def _cells(node: PricedNode) -> tuple[Expr, Expr]:
    """Steps times rows of the batch; and that times directions times hidden size."""
    steps = Expr.product(node.shape(0, 3)[:2])
    directions, _, hidden = node.shape(2, 3)
    return steps, steps * directions * hidden


def _products(node: PricedNode, steps: Expr) -> Expr:
    return steps * (node.size(1) + node.size(2))


def _each(node: PricedNode, defaults: Sequence[str], uses: Sequence[int]) -> int:
    """FLOPs of the activations of one cell: *uses* says how often each is applied."""
    names = node.attribute("activations") or defaults
    total = sum(count * activation_flops(name) for name, count in zip(names, uses, strict=False))
    return total + (2 * sum(uses) if node.attribute("clip") else 0)


def _bias(node: PricedNode, steps: Expr) -> Expr:
    return steps * node.size(3) if node.has(3) else ZERO


@rule("RNN")
def _rnn(node: PricedNode) -> Work:
    """I + H MACs for each cell; to add both, the biases, the activation."""
    steps, cells = _cells(node)
    each = 1 + _each(node, ["Tanh"], [1])
    return macs(_products(node, steps), _bias(node, steps) + cells * each)


@rule("GRU")
def _gru(node: PricedNode) -> Work:
    """3 (I + H) MACs for each cell; 3 sums, the biases, 3 activations, the reset's product, 4 to mix old and new."""
    steps, cells = _cells(node)
    each = 3 + 1 + 4 + _each(node, ["Sigmoid", "Tanh"], [2, 1])
    return macs(_products(node, steps), _bias(node, steps) + cells * each)


@rule("LSTM")
def _lstm(node: PricedNode) -> Work:
    """4 (I + H) MACs for each cell, with peepholes 3 more; 4 sums, the biases, 5 activations, 4 for cell and output."""
    steps, cells = _cells(node)
    each = 4 + 4 + _each(node, ["Sigmoid", "Tanh", "Tanh"], [3, 1, 1])
    peepholes = steps * node.size(7) if node.has(7) else ZERO
    return macs(_products(node, steps) + peepholes, _bias(node, steps) + cells * each)


@rule("DynamicQuantizeLSTM", domain=MS)
def _quantised_lstm(node: PricedNode) -> Work:
    """As LSTM; X and each state quantised by their extremes, and both products scaled."""
    steps = Expr.product(node.shape(0, 3)[:2])
    directions, hidden, _ = node.shape(2, 3)
    cells = steps * directions * hidden
    each = 4 + 4 + 2 * 4 + _each(node, ["Sigmoid", "Tanh", "Tanh"], [3, 1, 1])
    peepholes = steps * node.size(7) if node.has(7) else ZERO
    quantised = (node.size(0) * directions + cells) * (2 + cost("quantise"))
    extra = _bias(node, steps) + cells * each + quantised
    return macs(_products(node, steps) + peepholes, extra)
