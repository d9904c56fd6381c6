"""From the bytes that a model's values need to those that an arena holds, step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from onnx_notebook_profiler.allocators import BFCArena
from onnx_notebook_profiler.errors import AllocationError
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.ort.events import PlannedEvent
from onnx_notebook_profiler.ort.replay import Session, play

__all__ = ["Waterfall", "waterfall"]

_ALLOCATE, _FREE = RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE


@dataclasses.dataclass(frozen=True, slots=True)
class Waterfall:
    """The most of each kind at any moment of the runs. Bytes."""

    tensors: int
    """Buffers of values, as the session plans them."""
    requested: int
    """With what kernels ask for, reserved weights, and the pattern's block in place of the values in it."""
    in_use: int
    """Rounded up to chunks."""
    held: int
    """With what the arena holds and nobody uses."""


def waterfall(session: Session, arena: BFCArena) -> Waterfall:
    """Play *session* on a fresh *arena*, up to its end or to a refused request."""
    tensors = 0
    most = _Most(arena)
    play(session.made, {}, arena, after=most.look)
    most.look()
    for run in session.runs:
        tensors = max(tensors, _tensors(run.events))
        events: Sequence[PlannedEvent] = run.events
        handles: dict[int, Any] = {}
        if run.block is not None:
            try:
                handles[0] = arena.allocate(run.block[0].nbytes)
                events = run.block[1:]
            except AllocationError:
                events = run.events
        if play(events, handles, arena, after=most.look) is not None:
            break
    return most.so_far(tensors)


class _Most:
    """The highest figures of an arena."""

    def __init__(self, arena: BFCArena) -> None:
        self._arena = arena
        self._requested = self._held = 0
        self.look()

    def look(self) -> None:
        now = self._arena.statistics()
        self._requested = max(self._requested, now.requested_in_use)
        self._held = max(self._held, now.total_allocated)

    def so_far(self, tensors: int) -> Waterfall:
        in_use = self._arena.statistics().max_in_use
        return Waterfall(tensors, self._requested, in_use, self._held)


def _tensors(events: tuple[PlannedEvent, ...]) -> int:
    """The most bytes of values at once, before the results go back."""
    held = most = 0
    for event in events:
        if event.rule == "scratch":
            continue
        if event.action is _ALLOCATE:
            held += event.nbytes
            most = max(most, held)
        elif event.node != NO_NODE:
            held -= event.nbytes
    return most
