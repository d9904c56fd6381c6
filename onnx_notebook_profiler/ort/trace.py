"""Every request that onnxruntime makes of its allocator, with the node and the value that it is for."""

from __future__ import annotations

import dataclasses
from typing import Literal

from onnx import ModelProto

from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from onnx_notebook_profiler.events.event import INITIALIZER_NODE, NO_NODE
from onnx_notebook_profiler.ort.settings import SessionSettings

__all__ = ["Trace", "TraceEvent", "TraceRule"]

TraceRule = Literal["output", "own", "scratch", "pattern", "reserved", "session", "unknown"]
"""What a request was for: a result for the caller, another value, what a kernel gives back before it ends, the block of
the memory pattern, a weight, something else while the session is made, or nothing that could be told."""


@dataclasses.dataclass(frozen=True, slots=True)
class TraceEvent:
    """One request, or one buffer that goes back."""

    kind: Literal["alloc", "free", "reserve"]
    ns: int
    """When, in ns since the Unix epoch."""
    nbytes: int
    """Exactly what was asked for; of a free, what its request was for."""
    buffer: int
    """Number of the request, counted from 0 over the whole trace. A free has that of its request."""
    address: int
    """Where the buffer lay; only the order of addresses of buffers that live at once says anything."""
    run: int
    """Which run, from 0; -1 while the session is made."""
    node: int = NO_NODE
    """The author's node that asked, or after which the buffer went back. NO_NODE: none, see *ran*."""
    ran: str = ""
    """Operator of the node that ran then; empty at the beginning and the end of a run."""
    value: str = ""
    """The value in the buffer, where it is known."""
    rule: TraceRule = "unknown"
    path: tuple[tuple[int, str], ...] = ()
    """For a node in a body: from the main graph inwards, the owning node and the body's name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """What a session of onnxruntime asked of its allocator, from its making to the end of its last run."""

    version: str
    """onnxruntime's."""
    settings: SessionSettings
    events: tuple[TraceEvent, ...]
    runs: int
    durations_ns: tuple[int, ...]
    """Of each run, the profile's own cost included."""
    optimized: ModelProto
    """The model that the session ran; its nodes have names of ours."""
    notes: tuple[str, ...] = ()

    def of_run(self, run: int) -> tuple[TraceEvent, ...]:
        """The events of one run; -1 for those while the session was made."""
        return tuple(event for event in self.events if event.run == run)

    @property
    def reserved_bytes(self) -> int:
        """What weights took while the session was made, and keep."""
        return sum(event.nbytes for event in self.of_run(-1) if event.kind == "reserve")

    def peak_bytes(self, run: int = -1) -> int:
        """The most bytes that were asked for and not given back, at any moment up to the end of *run*; -1: the last.

        Weights that the session reserved are counted.
        """
        last = self.runs - 1 if run < 0 else run
        live = most = 0
        for event in self.events:
            if event.run <= last:
                live += -event.nbytes if event.kind == "free" else event.nbytes
                most = max(most, live)
        return most

    def runtime_events(self, run: int | None = None) -> tuple[RuntimeEvent, ...]:
        """The same events in the form of all other logs: ALLOCATE, FREE and RESERVE with the bytes live then.

        Args:
            run: Only those of that run, with what was live before.
        """
        actions = {
            "alloc": RuntimeEventAction.ALLOCATE,
            "free": RuntimeEventAction.FREE,
            "reserve": RuntimeEventAction.RESERVE,
        }
        live = peak = 0
        rows = []
        for event in self.events:
            live += -event.nbytes if event.kind == "free" else event.nbytes
            peak = max(peak, live)
            if run is not None and event.run != run:
                continue
            inner = event.path[-1] if event.path else (NO_NODE, "")
            rows.append(
                RuntimeEvent(
                    action=actions[event.kind],
                    kind=event.rule,
                    timestamp_ns=event.ns,
                    op_type=event.ran,
                    node_index=INITIALIZER_NODE if event.run < 0 else event.node,
                    subgraph_node_index=inner[0],
                    subgraph_attr_name=inner[1],
                    subgraph_path=event.path,
                    allocated_bytes=live,
                    peak_bytes=peak,
                    nbytes=event.nbytes,
                    buffer=event.buffer + 1,
                    owner=event.value,
                    tier="onnxruntime",
                )
            )
        return tuple(rows)
