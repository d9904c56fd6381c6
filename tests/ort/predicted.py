"""What the rules predict of a traced model, in the form in which the trace comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.ort.events import PlannedEvent, request_bytes
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan

Numbered = list[tuple[str, int, int]]


def sizes_of(plan: AllocationPlan, values: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int]:
    """Bytes of the values that get a buffer."""
    return {
        name: request_bytes(plan.types[name].data_type, values[name].shape)
        for name, placement in plan.placements.items()
        if placement.is_allocated and plan.types[name].kind == "tensor"
    }


def numbered_trace(run: Iterable[tuple[str, int, int]]) -> Numbered:
    """A traced run with requests counted from 0 in place of addresses."""
    live: dict[int, int] = {}
    count = 0
    found: Numbered = []
    for kind, address, size in run:
        if kind == "alloc":
            live[address] = count
            count += 1
        found.append((kind, live[address], size))
    return found


def numbered(events: Iterable[PlannedEvent]) -> Numbered:
    """Planned events in the same form."""
    names = {RuntimeEventAction.ALLOCATE: "alloc", RuntimeEventAction.FREE: "free"}
    return [(names[event.action], event.number, event.nbytes) for event in events]
