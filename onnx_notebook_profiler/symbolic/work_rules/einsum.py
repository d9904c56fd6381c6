"""Einsum, operand by operand from the left; https://onnx.ai/onnx/operators/onnx__Einsum.html."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.symbolic.expression import Expr, broadcast
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import ZERO, Work, rule

__all__: list[str] = []

_Labels = tuple[str, ...]


def _labels(term: str, shape: Sequence[Expr] | None) -> _Labels:
    """A label for each axis; those of the ellipsis are ``.1``, ``.2``, … counted from its end."""
    before, dots, after = term.partition("...")
    if shape is None or not dots:
        return (*before, *after)
    hidden = len(shape) - len(before) - len(after)
    return (*before, *(f".{number}" for number in range(hidden, 0, -1)), *after)


def _read(node: PricedNode) -> tuple[list[_Labels], set[str], dict[str, Expr]]:
    """Labels of each operand, those of the result, and the size of each label."""
    text = str(node.attribute("equation", "")).replace(" ", "")
    left, arrow, right = text.partition("->")
    shapes = [node.shape(position) for position in range(len(node.node.input))]
    written = left.split(",")
    terms = [_labels(term, shape) for term, shape in zip(written, shapes, strict=False)]
    sizes: dict[str, Expr] = {}
    for term, shape in zip(terms, shapes, strict=False):
        if len(term) != len(shape):
            raise UnknownWork(f"the equation {shorten(text)} does not fit the inputs")
        for label, size in zip(term, shape, strict=True):
            sizes[label] = broadcast(sizes[label], size) if label in sizes else size
    if len(written) != len(shapes):
        raise UnknownWork(f"the equation {shorten(text)} does not fit the inputs")
    every = [label for term in terms for label in term]
    if arrow:
        result = set(right.replace("...", ""))
        kept = {label for label in every if label in result or (label[0] == "." and "..." in right)}
    else:
        kept = {label for label in every if label[0] == "." or every.count(label) == 1}
    return terms, kept, sizes


@rule("Einsum")
def _einsum(node: PricedNode) -> Work:
    """Operands are joined from the left: one MAC for each combination of the indices of both.

    A join that sums over no index is one FLOP for each; one operand alone is a sum for each element.
    """
    terms, kept, sizes = _read(node)
    held = set(terms[0])
    macs, flops = ZERO, ZERO
    for position, term in enumerate(terms[1:], start=1):
        joined = held | set(term)
        volume = Expr.product(sizes[label] for label in sorted(joined))
        held = joined & kept.union(*terms[position + 1 :])
        if held == joined:
            flops = flops + volume
        else:
            macs, flops = macs + volume, flops + volume * 2
    if len(terms) == 1 and held != held & kept:
        flops = Expr.product(sizes[label] for label in sorted(held))
    return Work(macs, flops)
