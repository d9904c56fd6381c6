"""Bytes of the values of a graph, and which of them have none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.views import keeps_bytes
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.value_bytes import (
    numpy_bytes,
    runtime_bytes,
    stored_bytes,
)
from onnx_notebook_profiler.symbolic.value_types import UnknownSize, ValueType

__all__ = ["Measure", "bytes_of_values", "measure_of"]

Measure = Callable[[ValueType], Expr | None]
_MEASURES: dict[str, Measure] = {
    "model": stored_bytes,
    "evaluator": numpy_bytes,
    "onnxruntime": runtime_bytes,
}
Types = Mapping[str, ValueType | UnknownSize]


def measure_of(account: str) -> Measure:
    """How an account counts the bytes of a value: as numpy or onnxruntime holds it, or as ONNX stores it."""
    return functools.cache(_MEASURES[account])


def bytes_of_values(
    plan: GraphPlan, types: Types, measure: Measure, outer: Mapping[str, Expr | None] | None = None
) -> dict[str, Expr | None]:
    """Bytes of every value; what only rearranges its input has as many, also where its shape is unknown.

    Args:
        plan: Of the graph.
        types: Of its values.
        measure: Bytes of a type.
        outer: Bytes of the values around a body.
    """
    found: dict[str, Expr | None] = {}
    for name in plan.slots:
        kind = types.get(name)
        found[name] = measure(kind) if isinstance(kind, ValueType) else None
    found.update((name, nbytes) for name, nbytes in _captured(plan, outer))
    for step in plan.steps:
        if not step.is_call and keeps_bytes(step.node):
            source, result = step.node.input[0], step.node.output[0]
            if found[result] is None:
                found[result] = found[source]
    return found


def _captured(
    plan: GraphPlan, outer: Mapping[str, Expr | None] | None
) -> Iterator[tuple[str, Expr | None]]:
    for name in plan.captures if outer else ():
        yield name, outer.get(name) if outer else None
