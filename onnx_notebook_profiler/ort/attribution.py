"""Says of each traced request which node made it and for which value: by the time at which each node ran."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from onnx import ModelProto

from onnx_notebook_profiler.ort.events import request_bytes
from onnx_notebook_profiler.ort.measured_types import data_type_of
from onnx_notebook_profiler.ort.node_map import NodeMap, NodeOrigin
from onnx_notebook_profiler.ort.profile_json import NodeRow, ProfiledRun, read_profile
from onnx_notebook_profiler.ort.recording_allocator import FREE, RESERVE
from onnx_notebook_profiler.ort.trace import TraceEvent, TraceRule
from onnx_notebook_profiler.ort.tracing import RawRun, RawTrace, Row

__all__ = ["attribute"]

_NO_ORIGIN: Final = NodeOrigin("unknown")


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """A node while it ran; ns since the Unix epoch."""

    start: int
    end: int
    row: NodeRow
    origin: NodeOrigin
    outputs: tuple[str, ...]
    """Names of its outputs that are there, in the graph that ran."""


def attribute(
    raw: RawTrace, nodes: NodeMap, ran: ModelProto
) -> tuple[tuple[TraceEvent, ...], tuple[str, ...]]:
    """The events of a trace, and what has to be said of them.

    A request belongs to the innermost node during which it was made; what goes back before that node ends was scratch.
    The others are its outputs, in their order, as far as sizes tell; a buffer that goes back between nodes belongs to
    the node before.
    """
    notes: list[str] = []
    profiled: Sequence[ProfiledRun] = read_profile(raw.profile) if raw.profile else ()
    if raw.profile_began is None:
        notes.append("requests are not told by node: the profile's clock is none that is known")
        profiled = ()
    elif len(profiled) != len(raw.runs):
        notes.append("requests are not told by node: the profile misses runs")
        profiled = ()
    outputs = frozenset(value.name for value in ran.graph.output)
    told = _Told(outputs)
    for row in raw.made:
        told.add(row, -1, None, "reserved" if row[0] == RESERVE else "session")
    for number, run in enumerate(raw.runs):
        spans: list[_Span] = []
        if profiled:
            spans = list(_spans(profiled[number], raw.profile_began or 0, nodes))
        _attribute_run(told, number, run, spans)
    return tuple(told.events), tuple(notes)


def _spans(run: ProfiledRun, began: int, nodes: NodeMap) -> Iterator[_Span]:
    """The nodes of a run, by start; an owner before what it holds."""
    found = []
    for row in run.rows:
        node = nodes.node(row.name, row.number)
        names = tuple(name for name in node.output if name) if node is not None else ()
        start = began + row.start_us * 1000
        end = began + (row.start_us + row.duration_us + 2) * 1000  # both were rounded down
        origin = nodes.origin(row.name, row.number)
        found.append(_Span(start, end, row, origin, names))
    yield from sorted(found, key=lambda span: (span.start, -span.end))


class _Told:
    """Events as they are told, and the requests that are live."""

    def __init__(self, outputs: frozenset[str]) -> None:
        self.outputs = outputs
        self.events: list[TraceEvent] = []
        self._live: dict[int, TraceEvent] = {}
        self._numbers = itertools.count()

    def add(self, row: Row, run: int, span: _Span | None, rule: TraceRule, value: str = "") -> None:
        kind, at, address, nbytes = row
        origin = span.origin if span is not None else _NO_ORIGIN
        place: dict[str, Any] = {
            "node": -1 if origin.index is None else origin.index,
            "path": origin.path,
            "ran": span.row.op_type if span is not None else "",
        }
        if kind == FREE:
            asked = self._live.pop(address)
            event = dataclasses.replace(asked, kind="free", ns=at, run=run, **place)
        else:
            if value in self.outputs:
                rule = "output"
            event = TraceEvent(
                kind="reserve" if kind == RESERVE else "alloc",
                ns=at,
                nbytes=nbytes,
                buffer=next(self._numbers),
                address=address,
                run=run,
                value=value,
                rule=rule,
                **place,
            )
            self._live[address] = event
        self.events.append(event)


def _attribute_run(told: _Told, number: int, run: RawRun, spans: Sequence[_Span]) -> None:
    owners = list(_owners(run.rows, spans))
    ends = _lifetimes(run.rows)
    values = _values(run.rows, owners, ends)
    first = min((span.start for span in spans), default=None)
    before: _Span | None = None
    for at, (row, owner) in enumerate(zip(run.rows, owners, strict=True)):
        rule: TraceRule = "unknown"
        if row[0] != FREE:
            if owner is not None:
                back = ends.get(at)
                scratch = back is not None and owners[back] is owner
                rule = "scratch" if scratch else "own"
            elif first is not None and row[1] < first:
                rule = "pattern"
        before = owner or before
        place = before if row[0] == FREE and row[1] <= run.ended else owner
        if row[0] == FREE and at not in values and _is_over(row, run, spans):
            place = None
        told.add(row, number, place, rule, values.get(at, ""))


def _is_over(row: Row, run: RawRun, spans: Sequence[_Span]) -> bool:
    """Whether a buffer goes back when all nodes are done."""
    return row[1] > run.ended or not spans


def _owners(rows: Sequence[Row], spans: Sequence[_Span]) -> Iterator[_Span | None]:
    """The innermost node during which each row was written; None between nodes."""
    open_spans: list[_Span] = []
    waiting = iter(spans)
    coming = next(waiting, None)
    for _, at, *_ in rows:
        while coming is not None and coming.start <= at:
            open_spans.append(coming)
            coming = next(waiting, None)
        open_spans = [span for span in open_spans if span.end > at]
        yield open_spans[-1] if open_spans else None


def _lifetimes(rows: Iterable[Row]) -> Mapping[int, int]:
    """Where each request's buffer goes back, by positions in the run; those of a later run are missing."""
    live: dict[int, int] = {}
    ends: dict[int, int] = {}
    for at, (kind, _, address, _) in enumerate(rows):
        if kind != FREE:
            live[address] = at
        elif address in live:
            ends[live.pop(address)] = at
    return ends


def _values(
    rows: Sequence[Row], owners: Sequence[_Span | None], ends: Mapping[int, int]
) -> Mapping[int, str]:
    """The value of each request that outlives its node: outputs of the same size, in their order."""
    asked: dict[int, list[int]] = {}
    spans: dict[int, _Span] = {}
    for at, (row, owner) in enumerate(zip(rows, owners, strict=True)):
        if row[0] == FREE or owner is None:
            continue
        back = ends.get(at)
        if back is None or owners[back] is not owner:
            asked.setdefault(id(owner), []).append(at)
            spans[id(owner)] = owner
    found: dict[int, str] = {}
    for key, places in asked.items():
        found.update(_matched(spans[key], [(at, rows[at][3]) for at in places]))
    return found


def _matched(span: _Span, asked: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Positions with the names of outputs; none where more outputs than requests have a size."""
    if len(span.outputs) != len(span.row.outputs):
        return
    sizes: dict[int, list[str]] = {}
    for name, (kind, shape) in zip(span.outputs, span.row.outputs, strict=True):
        code = data_type_of(kind)
        if code:
            sizes.setdefault(request_bytes(code, shape), []).append(name)
    for size, names in sizes.items():
        places = [at for at, nbytes in asked if nbytes == size]
        if len(places) == len(names):
            yield from zip(places, names, strict=True)
