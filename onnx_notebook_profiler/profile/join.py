"""Turns the events of a run into rows, and sets the predicted bytes beside the measured ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.evaluator.observe import RunRecord
from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.profile.live import live_buffers, place_of
from onnx_notebook_profiler.profile.result import NodeProfile, OperatorTotal, Profile
from onnx_notebook_profiler.symbolic.context import ComputeContext
from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["by_operator", "highest_known", "join", "sizes_of", "sum_known"]


def join(record: RunRecord, context: ComputeContext, generated: Sequence[str]) -> Profile:
    """The profile of a run: measured from its events, predicted by *context* at the sizes that were fed.

    Args:
        context: Computed for the same model with ``account="evaluator"``.
    """
    plan = record.evaluator.plan
    dims = sizes_of(context, record.feeds)
    rows = list(_measure(record.events, plan))
    nodes = tuple(_predict(_merge(row for row in rows if not row.path), context, dims, record))
    peak = _peak_event(record.events)
    return Profile(
        model_name=record.evaluator.model.name,
        dims=dims,
        generated=tuple(generated),
        events=record.events,
        allocator_events=record.allocator_events,
        nodes=nodes,
        body_nodes=tuple(
            _predict_inside(_merge(row for row in rows if row.path), context, dims, record)
        ),
        operators=by_operator(nodes),
        peak_bytes=peak.live_bytes if peak is not None else 0,
        peak_node=_main_node(peak),
        peak_label=_label(peak, plan),
        live_at_peak=live_buffers(record, peak),
        coverage=context.coverage,
        unknown=context.unknown,
        node_count=len(plan.steps),
        total_ns=sum(node.time_ns for node in nodes),
        error="" if record.error is None else f"{type(record.error).__name__}: {record.error}",
    )


def sizes_of(context: ComputeContext, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of symbolic dimensions that the feeds show, in the order of the context's dimensions."""
    sizes: dict[str, int] = {}
    for name, shape in context.input_dims.items():
        value = feeds.get(name)
        if shape is None or not isinstance(value, np.ndarray) or value.ndim != len(shape):
            continue
        for size, actual in zip(shape, value.shape, strict=True):
            for symbol in size.symbols:
                if size == Expr.symbol(symbol):
                    sizes.setdefault(symbol, actual)
    return {name: sizes[name] for name in context.dims if name in sizes}


def _peak_event(events: Iterable[RuntimeEvent]) -> RuntimeEvent | None:
    """The first node at which most bytes were live."""
    ran = (event for event in events if event.action == RuntimeEventAction.RUN_NODE)
    return max(ran, key=lambda event: event.live_bytes, default=None)


def _main_node(event: RuntimeEvent | None) -> int:
    """The node of the main graph that an event belongs to."""
    if event is None:
        return -1
    return event.subgraph_path[0][0] if event.subgraph_path else event.node_index


def _label(event: RuntimeEvent | None, plan: GraphPlan) -> str:
    """``node 3 Conv 'features.0'``, for a node in a body with the nodes around it."""
    if event is None:
        return ""
    parts = []
    for depth, (index, body) in enumerate(event.subgraph_path):
        step = place_of(plan, event.subgraph_path[:depth]).steps[index]
        parts.append(f"node {index} {step.node.op_type} {body}")
    name = place_of(plan, event.subgraph_path).steps[event.node_index].node.name
    parts.append(f"node {event.node_index} {_op(event)}" + (f" '{name}'" if name else ""))
    return ", ".join(parts)


def _op(event: RuntimeEvent) -> str:
    if event.op_domain in ("", "ai.onnx"):
        return event.op_type
    return f"{event.op_domain}::{event.op_type}"


# measured


def _measure(events: Sequence[RuntimeEvent], plan: GraphPlan) -> Iterator[NodeProfile]:
    """One row for each run_node event, in order."""
    highest = 0
    added: dict[tuple[tuple[tuple[int, str], ...], int], int] = {}
    for event in events:
        place = (event.subgraph_path, event.node_index)
        if event.action == RuntimeEventAction.ADD and event.node_index >= 0:
            added[place] = added.get(place, 0) + event.nbytes
        if event.action != RuntimeEventAction.RUN_NODE:
            continue
        highest = max(highest, event.live_bytes)
        node = place_of(plan, event.subgraph_path).steps[event.node_index].node
        yield NodeProfile(
            index=event.node_index,
            name=node.name,
            op=_op(event),
            outputs=tuple(name for name in node.output if name),
            time_ns=event.duration_ns,
            output_bytes=added.pop(place, 0),
            live_bytes=event.live_bytes,
            peak_bytes=highest,
            execution_bytes=event.allocated_bytes,
            io_bytes=event.io_allocated_bytes,
            predicted_bytes=None,
            predicted_execution_bytes=None,
            predicted_io_bytes=None,
            difference="",
            path=event.subgraph_path,
            tier=event.tier,
            scratch_bytes=event.scratch_bytes,
            in_place=event.in_place,
        )


def _merge(rows: Iterable[NodeProfile]) -> list[NodeProfile]:
    """One row for each node: times added up, bytes of the run with the most."""
    merged: dict[tuple[object, int], NodeProfile] = {}
    for row in rows:
        key = (row.path, row.index)
        before = merged.get(key)
        if before is not None:
            most = max(before, row, key=lambda one: one.live_bytes or 0)
            row = dataclasses.replace(  # noqa: PLW2901 - the row of all runs so far
                most,
                time_ns=before.time_ns + row.time_ns,
                runs=before.runs + 1,
                peak_bytes=highest_known((before.peak_bytes, row.peak_bytes)),
            )
        merged[key] = row
    return list(merged.values())


def highest_known(sizes: Iterable[int | None]) -> int | None:
    """The highest of *sizes*; None where none is known."""
    return max((size for size in sizes if size is not None), default=None)


def sum_known(sizes: Iterable[int | None]) -> int | None:
    """The sum of *sizes*; None where one is not known."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def by_operator(nodes: Sequence[NodeProfile]) -> tuple[OperatorTotal, ...]:
    """Totals for each operator, those that make most bytes first."""
    groups: dict[str, list[NodeProfile]] = {}
    for node in nodes:
        groups.setdefault(node.op, []).append(node)
    totals = [
        OperatorTotal(
            op=op,
            count=len(group),
            time_ns=sum(node.time_ns for node in group),
            output_bytes=sum_known(node.output_bytes for node in group),
            peak_live_bytes=highest_known(node.live_bytes for node in group),
        )
        for op, group in groups.items()
    ]
    return tuple(sorted(totals, key=lambda total: (-(total.output_bytes or 0), total.op)))


# predicted


def _predict(
    nodes: Sequence[NodeProfile],
    context: ComputeContext,
    dims: Mapping[str, int],
    record: RunRecord,
) -> Iterator[NodeProfile]:
    """The rows with the formulas' figures beside the measured ones."""
    try:
        totals, io_totals = context.totals(dims), context.io_totals(dims)
        unknown = context.unsized_nodes()
    except SizeError as error:
        for node in nodes:
            yield dataclasses.replace(node, difference=f"not predicted: {error}")
        return
    one_account = record.evaluator.allocator is not None and (
        record.evaluator.allocator is record.evaluator.io_allocator
    )
    shift, reason = _known_difference(record)
    for node in nodes:
        if unknown[node.index]:
            yield dataclasses.replace(node, difference="a value of unknown size is alive")
            continue
        total = int(totals[node.index])
        io = 0 if one_account else int(io_totals[node.index])
        same = (node.execution_bytes, node.io_bytes) == (total - io, io)
        named = (node.live_bytes or 0) - total == shift and reason
        yield dataclasses.replace(
            node,
            predicted_bytes=total,
            predicted_execution_bytes=total - io,
            predicted_io_bytes=io,
            difference="" if same else reason if named else _unnamed(record),
        )


def _predict_inside(
    rows: Sequence[NodeProfile],
    context: ComputeContext,
    dims: Mapping[str, int],
    record: RunRecord,
) -> Iterator[NodeProfile]:
    """The rows of nodes inside other nodes with the formulas' bytes beside the measured ones."""
    moments = {(moment.path, moment.index): moment for moment in context.inside}
    shift, reason = _known_difference(record)
    for row in rows:
        moment = moments.get((row.path, row.index))
        if moment is None or moment.unknown:
            yield dataclasses.replace(row, difference="a value of unknown size is alive")
            continue
        try:
            total = moment.total.evaluate(dims)
        except SizeError as error:
            yield dataclasses.replace(row, difference=f"not predicted: {error}")
            continue
        apart = (row.live_bytes or 0) - total
        named = _unnamed(record) if row.runs > 1 else "it ran once"
        difference = "" if not apart else reason if apart == shift and reason else named
        yield dataclasses.replace(row, predicted_bytes=total, difference=difference)


def _known_difference(record: RunRecord) -> tuple[int, str]:
    """Bytes that a run holds beside the plan, and the words for them."""
    plan, copied, fed = record.evaluator.plan, 0, 0
    for event in record.events:
        if (
            event.action == RuntimeEventAction.ADD
            and event.kind == "input"
            and not event.subgraph_path
        ):
            value = record.feeds.get(event.name)
            if isinstance(value, np.ndarray) and value.ndim:
                copied += event.nbytes
            if event.name in plan.initializers and isinstance(value, np.ndarray):
                fed += value.nbytes
    reasons = []
    if copied:
        reasons.append("feeds copied to be contiguous")
    if fed:
        reasons.append("feeds in place of initializers")
    if record.baseline_bytes:
        reasons.append("buffers of other runs in the allocator")
    return copied - fed + record.baseline_bytes, ", ".join(reasons)


def _unnamed(record: RunRecord) -> str:
    if not record.evaluator.release_intermediates:
        return "nothing is released"
    if record.evaluator.inplace:
        return "outputs took over the bytes of inputs"
    return "unexplained"
