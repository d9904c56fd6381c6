"""What a run of onnxruntime asks of its allocator: a stream of events that follows from the plan and the sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from onnx import TensorProto

from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import INITIALIZER_NODE, NO_NODE
from onnx_notebook_profiler.ort.pattern import (
    NO_PATTERN,
    MemoryPattern,
    lay_out,
    lay_out_in_order,
    planned_values,
    rounded,
)
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan
from onnx_notebook_profiler.plan.ort_types import element_bits

__all__ = [
    "Arena",
    "EventRule",
    "PlannedEvent",
    "RunEvents",
    "Scratch",
    "pattern_of",
    "place_events",
    "request_bytes",
    "reserved_events",
    "run_events",
    "runs_events",
    "under_pattern",
]

EventRule = Literal["output", "own", "scratch", "pattern", "reserved", "session", "unknown"]
"""What a request is for; session: something that is kept from the making of the session on, and is no weight."""

_ALLOCATE, _FREE = RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE
_RESERVE = RuntimeEventAction.RESERVE


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedEvent:
    """One request to the allocator, or one buffer that goes back to it."""

    action: RuntimeEventAction
    """ALLOCATE, FREE or RESERVE."""
    value: str
    """The value whose buffer it is; empty for scratch, the pattern's block and packed weights."""
    node: int
    """Index of the node that runs; NO_NODE at the beginning and the end of a run, INITIALIZER_NODE before any."""
    rule: EventRule
    nbytes: int
    """Bytes asked for."""
    number: int
    """Which buffer of its run: that of the request, counted from 0. A free has the number of its request."""
    fits_pattern: bool = False
    """Whether a memory pattern has a place for it: the own buffer of a tensor, but for one of strings."""
    chunk: Any = None
    """What an arena handed out; None while no arena has seen the event."""
    padding: int | None = None
    """Bytes of the chunk beyond those asked for; None while no arena has seen the event."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunEvents:
    """The events of one run, with the pattern that it ran under and the one that it leaves to later runs."""

    events: tuple[PlannedEvent, ...]
    pattern: MemoryPattern
    left_pattern: MemoryPattern


@dataclasses.dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes that a kernel asks for and gives back while it runs; measured, no rule gives them."""

    nbytes: int
    before_outputs: bool = False
    """Whether it is asked for before the outputs are; it then goes back last."""


def request_bytes(data_type: int, shape: Sequence[int], *, string_bytes: int = 32) -> int:
    """Bytes that the runtime asks for to hold a tensor.

    Args:
        data_type: TensorProto code.
        string_bytes: Size of the platform's string object: 32 on Linux and Windows, 24 on macOS.
    """
    elements = math.prod(shape)
    if data_type == TensorProto.STRING:
        return elements * string_bytes
    return (elements * element_bits(data_type) + 7) // 8


class _Stream:
    """Events of a run as they are written, and the buffers that are live."""

    def __init__(self) -> None:
        self.events: list[PlannedEvent] = []
        self.count = 0
        self.live: dict[str, PlannedEvent] = {}

    def allocate(
        self, value: str, node: int, rule: EventRule, nbytes: int, *, fits_pattern: bool = False
    ) -> PlannedEvent | None:
        """A request; none for 0 bytes, for which the runtime asks nobody."""
        if nbytes == 0:
            return None
        event = PlannedEvent(_ALLOCATE, value, node, rule, nbytes, self.count, fits_pattern)
        self.count += 1
        self.events.append(event)
        if value:
            self.live[value] = event
        return event

    def free(self, event: PlannedEvent | None, node: int) -> None:
        """The buffer of a request goes back."""
        if event is not None:
            self.live.pop(event.value, None)
            self.events.append(dataclasses.replace(event, action=_FREE, node=node))


def run_events(
    plan: AllocationPlan,
    nbytes: Mapping[str, int],
    *,
    pattern: MemoryPattern = NO_PATTERN,
    scratch: Mapping[int, Sequence[Scratch]] | None = None,
) -> RunEvents:
    """The events of one run, the caller's outputs given back at its end.

    Args:
        nbytes: Bytes of every value that :attr:`Placement.is_allocated`, at the sizes of this run.
        pattern: What an earlier run with the same key left; none for a first run.
        scratch: What the kernel of a node asks for beyond its outputs, by node.
    """
    stream = _Stream()
    planned = frozenset(planned_values(plan))
    made: dict[int, list[str]] = {}
    for value, placement in plan.placements.items():
        if placement.is_allocated:
            made.setdefault(placement.node, []).append(value)
    for node in plan.order.nodes:
        requests = (scratch or {}).get(node, ())
        early, late = (
            [one for one in requests if one.before_outputs is first] for first in (True, False)
        )
        held = [stream.allocate("", node, "scratch", one.nbytes) for one in early]
        for value in made.get(node, ()):
            rule: EventRule = "output" if plan.placements[value].rule == "output" else "own"
            stream.allocate(value, node, rule, nbytes[value], fits_pattern=value in planned)
        for one in late:
            stream.free(stream.allocate("", node, "scratch", one.nbytes), node)
        for event in held:
            stream.free(event, node)
        for value in plan.releases.get(node, ()):
            stream.free(stream.live.get(value), node)
    for value in (*plan.at_end, *plan.outputs):
        stream.free(stream.live.get(value), NO_NODE)
    events = under_pattern(stream.events, pattern)
    return RunEvents(events, pattern, lay_out(plan, nbytes))


def under_pattern(
    events: Iterable[PlannedEvent], pattern: MemoryPattern
) -> tuple[PlannedEvent, ...]:
    """A run with the block of *pattern* in place of the requests that find their place in it.

    Args:
        events: The run as it is without a pattern.
    """
    asked = list(events)
    if not pattern.peak:
        return tuple(asked)
    block = PlannedEvent(_ALLOCATE, "", NO_NODE, "pattern", pattern.peak, 0)
    numbers: dict[int, int] = {}
    found = [block]
    is_held = True
    for event in asked:
        if event.action is not _FREE:
            if event.fits_pattern and pattern.holds(event.value, event.nbytes):
                continue
            numbers[event.number] = len(numbers) + 1
        elif event.node == NO_NODE and is_held:
            found.append(dataclasses.replace(block, action=_FREE))
            is_held = False
        if event.number in numbers:
            found.append(dataclasses.replace(event, number=numbers[event.number]))
    if is_held:
        found.append(dataclasses.replace(block, action=_FREE))
    return tuple(found)


def pattern_of(events: Iterable[PlannedEvent]) -> MemoryPattern:
    """The pattern that a run without a block leaves to later runs, by its events alone."""
    return lay_out_in_order(
        (event.value, event.nbytes if event.action is _ALLOCATE else None)
        for event in events
        if event.fits_pattern and not (event.action is _FREE and event.node == NO_NODE)
    )


def runs_events(
    plan: AllocationPlan,
    runs: Iterable[tuple[int, Mapping[str, int]]],
    *,
    use_patterns: bool = True,
    scratch: Mapping[int, Sequence[Scratch]] | None = None,
) -> Iterator[RunEvents]:
    """The events of several runs of one session: the first with a key leaves the pattern for all later ones.

    Args:
        runs: For each run the key of its inputs (:func:`~onnx_notebook_profiler.ort.pattern.pattern_key`) and bytes
            of its values.
        use_patterns: The session option ``enable_mem_pattern``, where the pattern applies.
    """
    patterns: dict[int, MemoryPattern] = {}
    for key, nbytes in runs:
        known = patterns.get(key, NO_PATTERN)
        run = run_events(plan, nbytes, pattern=known, scratch=scratch)
        if use_patterns:
            patterns.setdefault(key, run.left_pattern)
        yield run


def reserved_events(sizes: Mapping[str, int]) -> tuple[PlannedEvent, ...]:
    """What a session reserves when it is made: bytes by weight, such as packed ones; measured, no rule gives them."""
    return tuple(
        PlannedEvent(_RESERVE, name, INITIALIZER_NODE, "reserved", size, number)
        for number, (name, size) in enumerate(sizes.items())
        if size
    )


class Arena(Protocol):
    """What events are played on: :class:`~onnx_notebook_profiler.BFCArena`, or anything that acts like it."""

    def allocate(self, nbytes: int, owner: str = "") -> Any:
        """A chunk for *nbytes* bytes."""

    def free(self, handle: Any) -> None:
        """A chunk goes back."""

    def reserve(self, nbytes: int, owner: str = "") -> Any:
        """Bytes outside of the chunks."""


def place_events(events: Iterable[PlannedEvent], arena: Arena) -> Iterator[PlannedEvent]:
    """Play *events* of one run on *arena*; each comes back with the chunk that it got and the chunk's padding.

    Raises:
        AllocationError: The arena refuses; the events before that one have been yielded.
    """
    handles: dict[int, PlannedEvent] = {}
    for event in events:
        if event.action is _FREE:
            placed = handles.pop(event.number)
            arena.free(placed.chunk)
            yield dataclasses.replace(event, chunk=placed.chunk, padding=placed.padding)
            continue
        is_reserve = event.action is _RESERVE
        chunk = arena.reserve(event.nbytes) if is_reserve else arena.allocate(event.nbytes)
        size = event.nbytes if is_reserve else getattr(chunk, "size", rounded(event.nbytes))
        placed = dataclasses.replace(event, chunk=chunk, padding=size - event.nbytes)
        if not is_reserve:
            handles[event.number] = placed
        yield placed
