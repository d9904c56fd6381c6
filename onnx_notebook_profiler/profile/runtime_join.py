"""Turns the runs of a session of onnxruntime into a profile: rows of its last run, at the author's nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from onnx_notebook_profiler.events import RuntimeEvent
from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.ort.events import request_bytes
from onnx_notebook_profiler.ort.measured import MeasuredNode, MeasuredRun, Measurement
from onnx_notebook_profiler.ort.measured_types import data_type_of
from onnx_notebook_profiler.ort.trace import Trace, TraceEvent
from onnx_notebook_profiler.profile.join import by_operator, sum_known
from onnx_notebook_profiler.profile.result import LiveBuffer, NodeProfile, Profile
from onnx_notebook_profiler.symbolic.context import ComputeContext

__all__ = ["join_measured"]


def join_measured(
    measured: Measurement,
    model: LoadedModel,
    context: ComputeContext,
    dims: Mapping[str, int],
    generated: Sequence[str],
    *,
    trace: Trace | None = None,
) -> Profile:
    """The profile of a session's last run; ``measured_runs`` has all of them.

    Args:
        context: Computed for the author's model.
        trace: Of the same runs.
    """
    run = measured.runs[-1]
    rows = list(_rows(run, model))
    nodes = tuple(row for row in rows if not row.path)
    known = [(row.live_bytes, row) for row in rows if row.live_bytes is not None]
    peak = max(known, key=lambda pair: pair[0], default=None)
    at = rows.index(peak[1]) if peak is not None else -1
    events = run.events()
    requests = trace.runtime_events(run.number) if trace is not None else ()
    return Profile(
        model_name=model.name,
        dims=dims,
        generated=tuple(generated),
        events=_in_time(events, requests),
        allocator_events=requests,
        nodes=nodes,
        body_nodes=tuple(row for row in rows if row.path),
        operators=by_operator(nodes),
        peak_bytes=peak[0] if peak is not None else None,
        peak_node=_main_node(peak[1]) if peak is not None else -1,
        peak_label=_label(peak[1]) if peak is not None else "",
        live_at_peak=_live(trace, run, run.nodes[at]) if trace is not None and at >= 0 else (),
        coverage=context.coverage,
        unknown=(),
        node_count=len(model.proto.graph.node),
        total_ns=sum(node.time_ns for node in nodes),
        backend=f"onnxruntime {measured.version}",
        notes=(*measured.notes, *_words(measured)),
        measured_runs=measured.runs,
        trace=trace,
    )


def _words(measured: Measurement) -> Iterator[str]:
    runs = measured.runs
    if len(runs) > 1:
        times = ", ".join(f"run {run.number + 1}: {_highest(run)}" for run in (runs[0], runs[-1]))
        if any(node.live_bytes is not None for node in runs[-1].nodes):
            yield f"the most live bytes at a node were {times}"
    if measured.gone:
        count = len(measured.gone)
        yield f"nothing that ran stands for {count} of the model's nodes: folded into constants, or not needed"
    unknown = sum(node.origin.how == "unknown" for node in runs[-1].nodes)
    if unknown:
        yield f"which nodes of the model {unknown} of the nodes that ran stand for cannot be told"


def _highest(run: MeasuredRun) -> str:
    live = [node.live_bytes for node in run.nodes if node.live_bytes is not None]
    return f"{max(live, default=0):,} B"


def _rows(run: MeasuredRun, model: LoadedModel) -> Iterator[NodeProfile]:
    highest = 0
    for node in run.nodes:
        highest = max(highest, node.live_bytes or 0)
        known = node.live_bytes is not None
        index = node.origin.index
        yield NodeProfile(
            index=-1 if index is None else index,
            name=_author_name(node, model),
            op=node.op,
            outputs=node.outputs,
            time_ns=node.row.duration_us * 1000,
            output_bytes=_output_bytes(node),
            live_bytes=node.live_bytes,
            peak_bytes=highest if known else None,
            execution_bytes=_without(node.live_bytes, node.io_bytes),
            io_bytes=node.io_bytes,
            predicted_bytes=None,
            predicted_execution_bytes=None,
            predicted_io_bytes=None,
            difference="",
            path=node.origin.path,
            tier="onnxruntime",
            scratch_bytes=node.scratch_bytes,
            stands_for=node.origin.nodes,
            mapping=node.origin.how,
        )


def _author_name(node: MeasuredNode, model: LoadedModel) -> str:
    """The name that the author gave to what the node stands for; empty in bodies of a session's own making."""
    author = node.origin.node_in(model.proto)
    return author.name if author is not None else ""


def _output_bytes(node: MeasuredNode) -> int | None:
    """Bytes of all outputs, shared buffers included; None where one is no tensor of a type that has a size."""
    if not node.row.outputs and node.row.output_bytes is None:
        return None
    sizes: list[int | None] = []
    for kind, shape in node.row.outputs:
        code = data_type_of(kind)
        sizes.append(request_bytes(code, shape) if code else None if math.prod(shape) else 0)
    return sum_known(sizes)


def _without(live: int | None, io: int | None) -> int | None:
    return None if live is None or io is None else live - io


def _main_node(row: NodeProfile) -> int:
    return row.path[0][0] if row.path else row.index


def _label(row: NodeProfile) -> str:
    inside = "".join(f"node {index} {body}, " for index, body in row.path)
    number = f" {row.index}" if row.index >= 0 else ""
    return f"{inside}node{number} {row.op}" + (f" '{row.name}'" if row.name else "")


def _in_time(
    ran: Sequence[RuntimeEvent], requests: Sequence[RuntimeEvent]
) -> tuple[RuntimeEvent, ...]:
    """One stream: requests at their time, nodes when they began."""
    return tuple(sorted((*ran, *requests), key=lambda event: event.timestamp_ns))


def _live(trace: Trace, run: MeasuredRun, node: MeasuredNode) -> tuple[LiveBuffer, ...]:
    """The buffers that were live when *node* ended, largest first."""
    held: dict[int, TraceEvent] = {}
    for event in trace.events:
        if event.run > run.number or (event.run == run.number and event.ns > node.end_ns):
            break
        if event.kind == "free":
            is_own = event.rule != "scratch" and event.ns >= node.start_ns
            if not (is_own and event.run == run.number):
                held.pop(event.buffer, None)
        else:
            held[event.buffer] = event
    accounts = {"output": "io", "reserved": "initializer", "session": "initializer"}
    names = {"pattern": "(block of the memory pattern)", "reserved": "(reserved weight)"}
    found = (
        LiveBuffer(
            event.value or names.get(event.rule, "(not told)"),
            event.nbytes,
            accounts.get(event.rule, "execution"),
            event.node,
            event.ran,
        )
        for event in held.values()
    )
    return tuple(sorted(found, key=lambda one: (-one.nbytes, one.node_index, one.name)))
