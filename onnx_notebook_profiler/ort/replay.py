"""A session's runs, one after the other, under an arena: whether they go through, and where they stop if not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from onnx_notebook_profiler.errors import AllocationError
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.ort.events import Arena, PlannedEvent, pattern_of, under_pattern
from onnx_notebook_profiler.ort.pattern import NO_PATTERN, MemoryPattern, rounded

__all__ = ["Outcome", "Refusal", "Run", "Session", "play", "replay", "session_of"]

_ALLOCATE, _FREE = RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE
_RESERVE = RuntimeEventAction.RESERVE


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What one run asks for."""

    events: tuple[PlannedEvent, ...]
    """Without a memory pattern: one buffer after the other."""
    block: tuple[PlannedEvent, ...] | None = None
    """With the pattern's block, where an earlier run left one; the run goes without it where it cannot be had."""


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """What a session asks for from its making to its last run."""

    made: tuple[PlannedEvent, ...]
    """While it is made: reservations, and chunks that may go back."""
    runs: tuple[Run, ...]

    @property
    def reserved_bytes(self) -> int:
        """Bytes reserved when the session is made."""
        return sum(event.nbytes for event in self.made if event.action is _RESERVE)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the chunks that the session keeps from its making on."""
        asked = (event for event in self.made if event.action is not _RESERVE)
        return sum(
            -rounded(event.nbytes) if event.action is _FREE else rounded(event.nbytes)
            for event in asked
        )

    @property
    def least_bytes(self) -> int:
        """Bytes that no arena can do without: the most that is live at once, each buffer rounded up as a chunk is."""
        most = 0
        for run in self.runs:
            held = 0
            for event in run.events:
                size = rounded(event.nbytes)
                held += -size if event.action is _FREE else size
                most = max(most, held)
        return self.reserved_bytes + self.kept_bytes + most

    def first(self, count: int = 1) -> Session:
        """The same session, ended after some runs."""
        return dataclasses.replace(self, runs=self.runs[:count])

    def without_patterns(self) -> Session:
        """The same session with the option ``enable_mem_pattern`` off."""
        return dataclasses.replace(self, runs=tuple(Run(run.events) for run in self.runs))


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """The request that an arena refused."""

    run: int
    """Counted from 0; -1: while the session was made."""
    event: PlannedEvent
    message: str
    """The arena's own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How the runs ended."""

    refusal: Refusal | None
    lost_blocks: tuple[int, ...]
    """Runs that had to go without their pattern's block."""

    @property
    def works(self) -> bool:
        """Whether all runs went through."""
        return self.refusal is None


class ShrinkingArena(Arena, Protocol):
    """An arena that can give empty regions back."""

    def shrink(self) -> Any:
        """Give back what holds no used chunk."""


def session_of(
    made: Iterable[PlannedEvent],
    runs: Iterable[tuple[int, tuple[PlannedEvent, ...]]],
    *,
    use_patterns: bool = True,
) -> Session:
    """Runs as they come after one another: the first with a key leaves its pattern to all later ones.

    Args:
        made: What is asked for when the session is made.
        runs: For each run the key of its inputs and its events without a pattern.
        use_patterns: Whether the session keeps patterns.
    """
    patterns: dict[int, MemoryPattern] = {}
    found = []
    for key, events in runs:
        known = patterns.get(key, NO_PATTERN)
        found.append(Run(events, under_pattern(events, known) if known.peak else None))
        if use_patterns and key not in patterns:
            patterns[key] = pattern_of(events)
    return Session(tuple(made), tuple(found))


def replay(
    session: Session,
    arena: ShrinkingArena,
    *,
    shrink: bool = False,
    keep_results: bool = False,
) -> Outcome:
    """Play all runs on *arena*, which stands afterwards as it did when they ended.

    Args:
        shrink: The run option ``memory.enable_memory_arena_shrinkage``: at the end of each run, before its results go.
        keep_results: The caller keeps all results: their buffers stay in the arena.
    """
    lost: list[int] = []
    refusal = play(session.made, {}, arena)
    if refusal is not None:
        return Outcome(Refusal(-1, *refusal), ())
    for number, run in enumerate(session.runs):
        events = run.events
        handles: dict[int, Any] = {}
        if run.block is not None:
            try:
                handles[0] = arena.allocate(run.block[0].nbytes, "pattern")
                events = run.block[1:]
            except AllocationError:
                lost.append(number)
        refusal = play(events, handles, arena, shrink=shrink, keep_results=keep_results)
        if refusal is not None:
            return Outcome(Refusal(number, *refusal), tuple(lost))
    return Outcome(None, tuple(lost))


def play(
    events: Sequence[PlannedEvent],
    handles: dict[int, Any],
    arena: ShrinkingArena,
    *,
    shrink: bool = False,
    keep_results: bool = False,
    after: Callable[[], None] | None = None,
) -> tuple[PlannedEvent, str] | None:
    """Events on an arena; the request that was refused and the arena's words, None where none was.

    Args:
        handles: What is live, by number of the request.
        after: Called after each request.
    """
    allocate, free = arena.allocate, arena.free
    to_shrink = shrink
    for event in events:
        if event.action is _ALLOCATE:
            try:
                handles[event.number] = allocate(event.nbytes, event.value or event.rule)
            except AllocationError as error:
                return event, str(error)
            if after is not None:
                after()
            continue
        if event.action is _RESERVE:
            handles[event.number] = arena.reserve(event.nbytes, event.value)
            continue
        if event.node == NO_NODE and event.rule == "output":
            if to_shrink:
                arena.shrink()
                to_shrink = False
            if keep_results:
                continue
        free(handles.pop(event.number))
    if to_shrink:
        arena.shrink()
    return None
