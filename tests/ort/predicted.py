"""What the rules predict of a traced model, in the form in which the trace comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.ort.events import PlannedEvent, request_bytes
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan

Array = np.ndarray[Any, Any]
Numbered = list[tuple[str, int, int]]


def sizes_of(plan: AllocationPlan, values: Mapping[str, Array]) -> dict[str, int]:
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


def without_scratch(traced: Numbered, planned: Numbered) -> bool:
    """Whether *traced* is *planned* and, between its rows, buffers that nobody planned and that came and went.

    A request of the size that is planned next may be either; both are tried.
    """
    open_ends: list[tuple[int, int, dict[int, int], frozenset[int]]] = [(0, 0, {}, frozenset())]
    while open_ends:
        at, done, numbers, scratch = open_ends.pop()
        while at < len(traced):
            kind, number, size = traced[at]
            fits = done < len(planned) and (planned[done][0], planned[done][2]) == (kind, size)
            at += 1
            if kind == "alloc" and fits:
                open_ends.append((at, done, dict(numbers), scratch | {number}))
                numbers[number] = planned[done][1]
                done += 1
            elif kind == "alloc":
                scratch |= {number}
            elif number in scratch:
                scratch -= {number}
            elif fits and numbers[number] == planned[done][1]:
                done += 1
            else:
                break
        else:
            if done == len(planned) and not scratch:
                return True
    return False
