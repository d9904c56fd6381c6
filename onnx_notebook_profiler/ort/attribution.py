"""Says of each traced request which node made it and for which value: by the time at which each node ran."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.ort.events import request_bytes
from onnx_notebook_profiler.ort.measured_types import data_type_of
from onnx_notebook_profiler.ort.node_map import NodeMap, NodeOrigin
from onnx_notebook_profiler.ort.profile_json import NodeRow, ProfiledRun, read_profile
from onnx_notebook_profiler.ort.recording_allocator import FREE, RESERVE
from onnx_notebook_profiler.ort.trace import TraceEvent, TraceRule
from onnx_notebook_profiler.ort.tracing import RawRun, RawTrace, Row

__all__ = ["Attributed", "NodeBytes", "attribute"]

_STEP: Final = 1000
"""ns by which a node may begin later than its row says: the start is rounded down to µs."""

_ROUNDED: Final = 2 * _STEP
"""ns by which a node may end later than its row says: the duration is rounded down too."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """A node while it ran; ns since the Unix epoch."""

    start: int
    end: int
    at: int
    """Position of its row in the profile of its run."""
    row: NodeRow
    origin: NodeOrigin
    outputs: tuple[str, ...]
    """Names of its outputs that are there, in the graph that ran."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of its outputs; 0 where they have no size."""
        codes = ((data_type_of(kind), shape) for kind, shape in self.row.outputs)
        return tuple(request_bytes(code, shape) if code else 0 for code, shape in codes)


@dataclasses.dataclass(slots=True)
class NodeBytes:
    """What was live when a node ended, and what its kernel had beside that."""

    live: int
    io: int
    """The part that the caller gets."""
    scratch: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Attributed:
    """A trace told by nodes."""

    events: tuple[TraceEvent, ...]
    node_bytes: tuple[Mapping[int, NodeBytes], ...]
    """For each run, by position of the node's row in the profile; empty where requests are not told by node."""
    notes: tuple[str, ...]


def attribute(raw: RawTrace, nodes: NodeMap) -> Attributed:
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
    told = _Told(nodes.results)
    for row in raw.made:
        if row[0] == FREE:
            told.give_back(row, -1, None)
        else:
            told.ask(row, -1, None, "reserved" if row[0] == RESERVE else "session")
    held = []
    for number, run in enumerate(raw.runs):
        spans: list[_Span] = []
        if profiled:
            spans = list(_spans(profiled[number], raw.profile_began or 0, nodes))
        held.append(_attribute_run(told, number, run, spans))
    return Attributed(tuple(told.events), tuple(held), tuple(notes))


def _spans(run: ProfiledRun, began: int, nodes: NodeMap) -> Iterator[_Span]:
    """The nodes of a run, by start; an owner before what it holds."""
    found = []
    for at, row in enumerate(run.rows):
        node = nodes.node(row.name, row.number, row.op_type)
        names = tuple(name for name in node.output if name) if node is not None else ()
        start = began + row.start_us * 1000
        end = began + (row.start_us + row.duration_us) * 1000 + _ROUNDED
        origin = nodes.origin(row.name, row.number, row.op_type)
        found.append(_Span(start, end, at, row, origin, names))
    yield from sorted(found, key=lambda span: (span.start, -span.end))


class _Told:
    """Events as they are told, and the requests that are live."""

    def __init__(self, results: frozenset[str]) -> None:
        self.results = results
        self.events: list[TraceEvent] = []
        self.live = self.io = 0
        """Bytes that were asked for and not given back, and the part of them that the caller gets."""
        self._live: dict[int, TraceEvent] = {}
        self._numbers = itertools.count()

    def ask(self, row: Row, run: int, span: _Span | None, rule: TraceRule, value: str = "") -> None:
        """A request."""
        kind, at, address, nbytes = row
        node, path, ran = _place(span)
        event = TraceEvent(
            kind="reserve" if kind == RESERVE else "alloc",
            ns=at,
            nbytes=nbytes,
            buffer=next(self._numbers),
            address=address,
            run=run,
            node=node,
            ran=ran,
            value=value,
            rule=rule,
            path=path,
        )
        self._live[address] = event
        self._count(event, nbytes)

    def rule_of(self, row: Row) -> TraceRule:
        """What the buffer was asked for that goes back."""
        return self._live[row[2]].rule

    def give_back(self, row: Row, run: int, span: _Span | None) -> None:
        """The buffer of a request goes back."""
        _, at, address, _ = row
        asked = self._live.pop(address)
        node, path, ran = _place(None if asked.rule == "pattern" else span)
        event = dataclasses.replace(
            asked, kind="free", ns=at, run=run, node=node, path=path, ran=ran
        )
        self._count(event, -asked.nbytes)

    def _count(self, event: TraceEvent, nbytes: int) -> None:
        self.events.append(event)
        self.live += nbytes
        if event.rule == "output":
            self.io += nbytes


def _place(span: _Span | None) -> tuple[int, tuple[tuple[int, str], ...], str]:
    """Index and path of the author's node, and operator of what ran."""
    if span is None:
        return NO_NODE, (), ""
    index = span.origin.index
    return NO_NODE if index is None else index, span.origin.path, span.row.op_type


def _attribute_run(
    told: _Told, number: int, run: RawRun, spans: Sequence[_Span]
) -> Mapping[int, NodeBytes]:
    ends = _lifetimes(run.rows)
    running = _settled(run, list(_running(run.rows, spans)), ends)
    owners = [open_spans[-1] if open_spans else None for open_spans in running]
    values = _values(run, owners, ends, told.results)
    done, meter = _Done(spans), _Meter(told, spans)
    has_begun = False
    for at, (row, owner) in enumerate(zip(run.rows, owners, strict=True)):
        has_begun = has_begun or owner is not None
        if row[0] == FREE:
            over = row[1] > run.ended
            meter.advance(row[1] - (0 if told.rule_of(row) == "scratch" else _STEP))
            told.give_back(row, number, None if over else done.before(row[1], owner))
        else:
            meter.advance(row[1])
            rule = _rule(at, run, owners, ends) if has_begun else "pattern" if spans else "unknown"
            told.ask(row, number, owner, rule, values.get(at, ""))
        meter.note(running[at], told.events[-1])
    meter.advance(None)
    return meter.found


def _rule(
    at: int, run: RawRun, owners: Sequence[_Span | None], ends: Mapping[int, int]
) -> TraceRule:
    """What the request at position *at* is for, of those that a node made."""
    back = ends.get(at)
    if back is not None and run.rows[back][1] > run.ended:
        return "output"
    if owners[at] is None:
        return "unknown"
    return "own" if back is None or owners[back] is not owners[at] else "scratch"


def _settled(
    run: RawRun, running: list[tuple[_Span, ...]], ends: Mapping[int, int]
) -> list[tuple[_Span, ...]]:
    """Which nodes ran at each row, where the clock's step leaves two answers.

    In a node's first µs, what others asked for goes back just before it begins. So does the pattern's block come,
    which is the first request of a run, lives until all nodes are done, and has the size of no output.
    """
    begun = {back: at for at, back in ends.items()}
    for at, (row, open_spans) in enumerate(zip(run.rows, running, strict=True)):
        if not open_spans or row[1] >= open_spans[-1].start + _STEP:
            continue
        if row[0] == FREE:
            asked = begun.get(at)
            is_settled = asked is not None and running[asked][-1:] == open_spans[-1:]
        else:
            back = ends.get(at, at)
            is_block = at == 0 and not running[back] and run.rows[back][1] <= run.ended
            is_settled = not is_block or row[3] in open_spans[-1].sizes
        if not is_settled:
            running[at] = open_spans[:-1]
    return running


class _Meter:
    """The bytes that are live when each node ends: after its own requests, before anything of others goes back."""

    def __init__(self, told: _Told, spans: Sequence[_Span]) -> None:
        self.found: dict[int, NodeBytes] = {}
        self._told = told
        self._coming = list(reversed(spans))
        self._scratch: dict[int, int] = {}

    def advance(self, at: int | None) -> None:
        """Nodes that began up to *at* hold what is live now, until something is noted; None: all of them."""
        while self._coming and (at is None or self._coming[-1].start <= at):
            span = self._coming.pop()
            self.found[span.at] = NodeBytes(self._told.live, self._told.io)

    def note(self, running: Sequence[_Span], event: TraceEvent) -> None:
        """Something that happened while nodes ran, the innermost one last."""
        for span in running[:-1]:
            if span.end >= running[-1].end:  # else it is over, by less than the clock's step
                self._update(span)
        if not running:
            return
        is_release = event.kind == "free" and event.rule != "scratch"
        if is_release and event.ns > running[-1].end - _ROUNDED:
            return
        held = self._update(running[-1])
        if event.rule == "scratch":
            sign = -1 if event.kind == "free" else 1
            now = self._scratch.get(running[-1].at, 0) + sign * event.nbytes
            self._scratch[running[-1].at] = now
            held.scratch = max(held.scratch, now)

    def _update(self, span: _Span) -> NodeBytes:
        held = self.found[span.at]
        held.live, held.io = self._told.live, self._told.io
        return held


class _Done:
    """Which node ended last."""

    def __init__(self, spans: Iterable[_Span]) -> None:
        self._coming = sorted(spans, key=lambda span: span.end, reverse=True)
        self._last: _Span | None = None

    def before(self, at: int, within: _Span | None) -> _Span | None:
        """The node that ended last up to *at*, or the one that still runs where none ended inside of it.

        Times must not go back from call to call.
        """
        while self._coming and self._coming[-1].end <= at:
            self._last = self._coming.pop()
        if within is not None and (self._last is None or self._last.start < within.start):
            return within
        return self._last


def _running(rows: Sequence[Row], spans: Sequence[_Span]) -> Iterator[tuple[_Span, ...]]:
    """The nodes during which each row was written, the innermost one last; none between nodes."""
    open_spans: list[_Span] = []
    waiting = iter(spans)
    coming = next(waiting, None)
    for _, at, *_ in rows:
        while coming is not None and coming.start <= at:
            open_spans.append(coming)
            coming = next(waiting, None)
        open_spans = [span for span in open_spans if span.end > at]
        yield tuple(open_spans)


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
    run: RawRun,
    owners: Sequence[_Span | None],
    ends: Mapping[int, int],
    results: frozenset[str],
) -> Mapping[int, str]:
    """The value of each request that outlives its node, by position: outputs of the same size, in their order."""
    asked: dict[int, list[_Request]] = {}
    spans: dict[int, _Span] = {}
    for at, (row, owner) in enumerate(zip(run.rows, owners, strict=True)):
        if row[0] == FREE or owner is None:
            continue
        back = ends.get(at)
        if back is None or owners[back] is not owner:
            kept = back is None or run.rows[back][1] > run.ended
            asked.setdefault(id(owner), []).append(_Request(at, row[3], kept))
            spans[id(owner)] = owner
    found: dict[int, str] = {}
    for key, requests in asked.items():
        found.update(_matched(spans[key], requests, results))
    return found


class _Request(NamedTuple):
    at: int
    nbytes: int
    is_kept: bool
    """Whether it goes back when the run is over."""


def _matched(
    span: _Span, requests: Sequence[_Request], results: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Positions with the names of outputs; none where more outputs than requests have a size.

    What the caller gets is kept to the end, and what is kept so is what the caller gets, where the node makes any.
    """
    if len(span.outputs) != len(span.row.outputs):
        return
    groups: dict[tuple[int, bool], list[str]] = {}
    for name, size in zip(span.outputs, span.sizes, strict=True):
        if size:
            groups.setdefault((size, name in results), []).append(name)
    has_results = any(is_result for _, is_result in groups)
    for (size, is_result), names in groups.items():
        places = [
            one.at
            for one in requests
            if one.nbytes == size and (one.is_kept == is_result or not has_results)
        ]
        if len(places) == len(names):
            yield from zip(places, names, strict=True)
