"""A session's requests as the real onnxruntime makes them, traced in a process of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.model import LoadedModel, describe_node
from onnx_notebook_profiler.ort.events import PlannedEvent
from onnx_notebook_profiler.ort.pattern import pattern_key
from onnx_notebook_profiler.ort.replay import Run, Session
from onnx_notebook_profiler.ort.settings import SessionSettings
from onnx_notebook_profiler.ort.trace import Trace, TraceEvent
from onnx_notebook_profiler.ort.trace_model import trace_model

__all__ = ["TracedModel"]

Sizes = Mapping[str, int]
Events = tuple[PlannedEvent, ...]
_Name = tuple[tuple[str, int], ...]
"""Sizes as a key."""

_UNSTEADY = (
    "Two sessions of this model asked for different things: onnxruntime does not optimize it, or does not order its "
    "nodes, the same way each time. The figures are those of one session; another may need more."
)
_ACTIONS = {
    "alloc": RuntimeEventAction.ALLOCATE,
    "free": RuntimeEventAction.FREE,
    "reserve": RuntimeEventAction.RESERVE,
}


class TracedModel:
    """A model whose runs the real onnxruntime makes, one thread, in a process of its own.

    Args:
        feeds: Makes the feeds of a run at given sizes.
        optimized: Whether the session optimizes the graph.
    """

    name = "trace"
    is_bound = False

    def __init__(
        self, model: LoadedModel, feeds: Callable[[Sizes], Mapping[str, Any]], *, optimized: bool
    ) -> None:
        self.model = model
        self._feeds = feeds
        self._optimize = "all" if optimized else "none"
        self._labels: dict[int, str] = {
            at: describe_node(at, node) for at, node in enumerate(model.proto.graph.node)
        }
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._made: Events = ()
        self._first: dict[_Name, Events] = {}
        """What a run of these sizes asks for without a pattern."""
        self._later: dict[_Name, Events] = {}
        """What it asks for under the pattern that a run of the same sizes left."""
        self._keys: dict[_Name, int] = {}
        self.version = ""
        """onnxruntime's; empty before anything was traced."""
        self._notes: tuple[str, ...] = ()
        self._unsteady: tuple[str, ...] = ()

    @property
    def caveat(self) -> str:
        """What has to be said of the requests."""
        return " ".join((*self._notes, *self._unsteady))

    @property
    def labels(self) -> Mapping[int, str]:
        """What each node is called; those that the runtime put in have numbers beyond the author's."""
        return self._labels

    def key(self, sizes: Sizes) -> int:
        """The key of the memory pattern for runs of these sizes."""
        name = _name(sizes)
        if name not in self._keys:
            self._keys[name] = pattern_key(np.shape(one) for one in self._feeds(sizes).values())
        return self._keys[name]

    def prepare(self, sizes: Iterable[Sizes], *, pattern: bool) -> None:
        """Trace runs of these sizes, all in as few sessions as their keys allow.

        Raises:
            ProfilerError: As :func:`~onnx_notebook_profiler.ort.trace_model.trace_model`.
        """
        asked = {_name(one): one for one in sizes}
        new = {name: one for name, one in asked.items() if name not in self._first}
        if new:
            found = self._trace(list(new.values()), pattern=False)
            self._made = self._planned(found, -1)
            self._first.update((name, self._planned(found, at)) for at, name in enumerate(new))
        left = {name: one for name, one in asked.items() if pattern and name not in self._later}
        while left:
            keys: dict[int, _Name] = {}
            for name, one in left.items():
                keys.setdefault(self.key(one), name)
            group = list(keys.values())
            found = self._trace([left[name] for name in group for _ in range(2)], pattern=True)
            for at, name in enumerate(group):
                first = self._planned(found, 2 * at)
                self._compare(self._first[name], first)
                # Both runs of one session: another one may have ordered its nodes otherwise.
                self._first[name] = first
                self._later[name] = self._planned(found, 2 * at + 1)
                del left[name]

    def session(self, sizes: Sequence[Sizes], *, pattern: bool) -> Session:
        """What a session asks for whose runs have these sizes.

        Raises:
            ProfilerError: As :func:`~onnx_notebook_profiler.ort.trace_model.trace_model`.
        """
        names = [_name(one) for one in sizes]
        self.prepare(sizes, pattern=pattern and len(set(names)) < len(names))
        first: dict[int, _Name] = {}
        if pattern:
            for name, one in zip(names, sizes, strict=True):
                if first.setdefault(self.key(one), name) != name:
                    return self._under_foreign_patterns(names, sizes)
        runs = []
        seen: set[_Name] = set()
        for name in names:
            later = self._later.get(name) if pattern and name in seen else None
            runs.append(_run(self._first[name], later))
            seen.add(name)
        return Session(self._made, tuple(runs))

    def _compare(self, one: Events, other: Events) -> None:
        """Note where two sessions asked for different things in the same run."""
        if _asked(one) != _asked(other):
            self._unsteady = (_UNSTEADY,)

    def _under_foreign_patterns(self, names: Sequence[_Name], sizes: Sequence[Sizes]) -> Session:
        """Runs of different sizes share a pattern: traced as they come after one another."""
        found = self._trace(sizes, pattern=True)
        runs = []
        for at, name in enumerate(names):
            runs.append(_run(self._first[name], self._planned(found, at)))
        return Session(self._made, tuple(runs))

    def _trace(self, sizes: Sequence[Sizes], *, pattern: bool) -> Trace:
        feeds: dict[_Name, Mapping[str, Any]] = {}
        for one in sizes:
            feeds.setdefault(_name(one), self._feeds(one))
        settings = SessionSettings(optimize=self._optimize, threads=1, pattern=pattern)
        found, _ = trace_model(self.model, [feeds[_name(one)] for one in sizes], settings=settings)
        self.version, self._notes = found.version, found.notes
        return found

    def _planned(self, found: Trace, run: int) -> Events:
        """The events of one run, requests counted from 0; -1: those while the session is made."""
        numbers: dict[int, int] = {}
        return tuple(
            PlannedEvent(
                action=_ACTIONS[event.kind],
                value=event.value,
                node=self._number(event),
                rule=event.rule,
                nbytes=event.nbytes,
                number=numbers.setdefault(event.buffer, len(numbers)),
            )
            for event in found.of_run(run)
        )

    def _number(self, event: TraceEvent) -> int:
        """The author's node, or a number for a node that is none of the author's."""
        if not event.ran:
            return NO_NODE
        author = self.model.proto.graph.node
        if event.node >= 0 and not event.path and author[event.node].op_type == event.ran:
            return event.node
        place = (event.node, event.path, event.ran)
        if place not in self._numbers:
            number = self._numbers[place] = len(author) + len(self._numbers)
            if event.path:
                self._labels[number] = f"{event.ran} in a body of node {event.path[0][0]}"
            elif event.node >= 0:
                label = describe_node(event.node, author[event.node])
                self._labels[number] = f"{event.ran} for {label}"
            else:
                self._labels[number] = f"{event.ran}, put in by onnxruntime"
        return self._numbers[place]


def _run(first: Events, events: Events | None) -> Run:
    """A run that asks for *first* without a pattern; for *events*, the block before all others, under one."""
    if not events or _asked(events) == _asked(first):
        return Run(first)
    block = events[0].number
    named = (
        dataclasses.replace(event, rule="pattern", value="", node=NO_NODE)
        if event.number == block
        else event
        for event in events
    )
    return Run(first, tuple(named))


def _asked(events: Events) -> list[tuple[RuntimeEventAction, int, int]]:
    """What an allocator sees of a run."""
    return [(event.action, event.number, event.nbytes) for event in events]


def _name(sizes: Sizes) -> _Name:
    return tuple(sorted(sizes.items()))
