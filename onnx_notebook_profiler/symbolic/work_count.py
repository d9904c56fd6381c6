"""The work of each node of a graph, by the rule of its operator; of a node that runs others, by theirs."""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from onnx import NodeProto, TensorProto

from onnx_notebook_profiler.errors import ExpressionError, ModelError
from onnx_notebook_profiler.plan import GraphPlan, Step
from onnx_notebook_profiler.plan.views import viewed_inputs
from onnx_notebook_profiler.symbolic.data_sizes import Decided
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from onnx_notebook_profiler.symbolic.work import QUANTITIES, ModelWork, NodeWork
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import (
    ZERO,
    Work,
    find_read_rule,
    find_rule,
)
from onnx_notebook_profiler.symbolic.work_rules.without_rule import (
    NO_RULE,
    NO_SHAPES,
    ONE_OF_TWO,
    TRIPS,
    WITHOUT_RULE,
)

__all__ = ["count_work", "operator_label"]

_T = TypeVar("_T")
_STANDARD = ("", "ai.onnx")
_Types = Mapping[str, ValueType | UnknownSize]
_Constant = Callable[[str], TensorProto | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Graph:
    """A graph and what is known of the values that its nodes see, those of outer graphs included."""

    plan: GraphPlan
    found: Decided
    types: _Types
    constant: _Constant


def count_work(plan: GraphPlan, found: Decided, dims: Sequence[str]) -> ModelWork:
    """The work of each node of *plan*, over *dims*.

    Args:
        plan: Of the main graph.
        found: Types of its values and bodies.
        dims: The model's dimensions.
    """
    graph = _Graph(plan, found, found.types, _constants(plan))
    return ModelWork.of(_nodes(graph, dims), dims)


def operator_label(node: NodeProto) -> str:
    """What the operator of a node is called: with its domain, but for those of onnx itself."""
    return node.op_type if node.domain in _STANDARD else f"{node.domain}::{node.op_type}"


def _nodes(graph: _Graph, dims: Sequence[str]) -> Iterator[NodeWork]:
    for step in graph.plan.steps:
        yield _with_bodies(graph, step, dims) if step.bodies else _alone(graph, step)


def _constants(plan: GraphPlan, outer: _Constant | None = None) -> _Constant:
    """The tensor that a name holds: an initializer, or the value of a Constant."""
    made = {
        step.node.output[0]: attribute.t
        for step in plan.steps
        if step.node.op_type == "Constant" and step.node.domain in _STANDARD
        for attribute in step.node.attribute
        if attribute.name == "value"
    }
    captured = frozenset(plan.captures)

    def constant(name: str) -> TensorProto | None:
        weight = plan.initializers.get(name, made.get(name))
        if weight is None and outer is not None and name in captured:
            return outer(name)
        return weight if isinstance(weight, TensorProto) else None

    return constant


# a node that runs others


def _with_bodies(graph: _Graph, step: Step, dims: Sequence[str]) -> NodeWork:
    """The work of all bodies, each as often as it runs."""
    label = operator_label(step.node)
    bodies: dict[str, ModelWork] = {}
    runs: dict[str, Expr | None] = {}
    for body in step.bodies:
        found = graph.found.body(step.index, body.name)
        if found is not None:
            types = ChainMap({**found.types}, {**graph.types})
            inner = _Graph(body.plan, found, types, _constants(body.plan, graph.constant))
            bodies[body.name] = ModelWork.of(_nodes(inner, dims), dims)
        times = graph.found.runs(step.index, body.name)
        runs[body.name] = Expr.constant(1) if step.is_call else times
    sums = {name: _once(body) for name, body in bodies.items()}
    reasons: list[str] = []
    if len(sums) < len(step.bodies):
        whole: dict[str, Expr | None] = dict.fromkeys(QUANTITIES)
        reasons.append(NO_SHAPES)
    elif step.node.op_type == "If" and not step.is_call:
        whole = _of_branches(sums, runs, reasons)
    else:
        whole = _of_runs(sums, runs, reasons)
        _add_stacking(graph, step, whole, reasons)
    reasons += dict.fromkeys(
        node.reason for body in bodies.values() for node in body if node.reason
    )
    reason = "; ".join(dict.fromkeys(reasons)) if None in whole.values() else ""
    return NodeWork(
        step.index,
        label,
        whole["macs"],
        whole["flops"],
        whole["read"],
        whole["written"],
        reason,
        bodies=bodies,
    )


def _once(body: ModelWork) -> dict[str, Expr | None]:
    """What the nodes of a body add up to in one run; None where one of them is unknown."""
    return {name: _sum([getattr(node, name) for node in body]) for name in QUANTITIES}


def _sum(parts: Sequence[Expr | None]) -> Expr | None:
    known = [part for part in parts if part is not None]
    return Expr.sum(known) if len(known) == len(parts) else None


def _of_branches(
    sums: Mapping[str, Mapping[str, Expr | None]],
    runs: Mapping[str, Expr | None],
    reasons: list[str],
) -> dict[str, Expr | None]:
    """The work of the branch that runs; known without it only where both do the same."""
    taken = [name for name, times in runs.items() if times != ZERO]
    if len(taken) == 1:
        return dict(sums[taken[0]])
    whole: dict[str, Expr | None] = {}
    for quantity in QUANTITIES:
        one, *others = [sums[name][quantity] for name in taken]
        whole[quantity] = one if all(other == one for other in others) else None
        if any(other != one for other in others):
            reasons.append(ONE_OF_TWO)
    return whole


def _of_runs(
    sums: Mapping[str, Mapping[str, Expr | None]],
    runs: Mapping[str, Expr | None],
    reasons: list[str],
) -> dict[str, Expr | None]:
    """The work of each body times its runs; a body that never works may run as often as it likes."""
    whole: dict[str, Expr | None] = {}
    for quantity in QUANTITIES:
        parts: list[Expr | None] = []
        for name, once in sums.items():
            work, times = once[quantity], runs[name]
            if work is not None and times is None and work != ZERO:
                reasons.append(TRIPS)
            unknown = work is None or (times is None and work != ZERO)
            parts.append(None if unknown else (work or ZERO) * (times or ZERO))
        whole[quantity] = _sum(parts)
    return whole


def _add_stacking(
    graph: _Graph, step: Step, whole: dict[str, Expr | None], reasons: list[str]
) -> None:
    """What a loop puts together of all its runs is read and written once more."""
    states = _carried(step)
    if states is None:
        return
    node = PricedNode(step.node, 1, graph.types, graph.constant)
    stacked = _tried(lambda: node.bytes_of(step.node.output[states:]), reasons)
    for quantity in ("read", "written"):
        whole[quantity] = _sum([whole[quantity], stacked])


def _carried(step: Step) -> int | None:
    """How many outputs of a loop are states that one run hands to the next; None where it is no loop."""
    if step.is_call or step.node.domain not in _STANDARD:
        return None
    if step.node.op_type == "Loop":
        return len(step.node.input) - 2
    if step.node.op_type == "Scan":
        scanned = {one.name: one.i for one in step.node.attribute}["num_scan_inputs"]
        return len(step.node.input) - int(scanned)
    return None


# a node of its own


def _alone(graph: _Graph, step: Step) -> NodeWork:
    key = ("" if step.node.domain in _STANDARD else step.node.domain, step.node.op_type)
    opset = graph.plan.opsets.get(key[0], 1)
    views = viewed_inputs(step.node, opset, graph.constant)
    is_view = bool(views) and views[0] >= 0
    node = PricedNode(step.node, opset, graph.types, graph.constant, is_view=is_view)
    reasons: list[str] = []
    find = find_rule(*key)
    if find is None:
        work = None
        reasons.append(WITHOUT_RULE.get(key, NO_RULE))
    else:
        work = _tried(lambda: find(node), reasons)
    if work is not None and (work.macs is None or work.flops is None):
        reasons.append("the data decides it")
    work = work or Work(None, None)
    read = _tried(lambda: _read(node, key), reasons)
    written = _tried(lambda: _written(node, views), reasons)
    return NodeWork(
        step.index,
        operator_label(step.node),
        work.macs,
        work.flops,
        read,
        written,
        "; ".join(dict.fromkeys(reasons)),
        is_ruled=find is not None,
    )


def _tried(count: Callable[[], _T], reasons: list[str]) -> _T | None:
    """What *count* gives; None where it is unknown, with the reason added to *reasons*."""
    try:
        return count()
    except (UnknownWork, ExpressionError, ModelError) as error:
        reasons.append(str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        reasons.append("its shapes or attributes are not what its operator expects")
    return None


def _read(node: PricedNode, key: tuple[str, str]) -> Expr:
    """Bytes that a node reads."""
    if node.is_view:
        return ZERO
    special = find_read_rule(*key)
    return special(node) if special is not None else node.bytes_of(node.node.input)


def _written(node: PricedNode, views: Sequence[int]) -> Expr:
    """Bytes of the outputs that are no views."""
    return node.bytes_of(
        name for name, view in zip(node.node.output, views, strict=True) if view < 0
    )
