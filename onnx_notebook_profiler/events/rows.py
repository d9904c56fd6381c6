"""The rows of the log: plain tuples that cost little to append, turned into events when read.

Every row starts with its action and the time of the monotonic clock in ns; the log adds the distance to the
Unix epoch on reading. Rows are flat: a tuple of numbers and texts costs the garbage collector nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx

from onnx_notebook_profiler.events.event import ALLOCATOR_ACTIONS, RuntimeEvent, RuntimeEventAction

__all__ = [
    "MAX_SAMPLE",
    "STEP",
    "NodeCall",
    "NodeStamp",
    "Scope",
    "count_events",
    "event_of_row",
    "events_of_row",
    "first_of",
]

MAX_SAMPLE = 8
"""Number of elements of a value that an event keeps."""

STEP = -1
"""Action of a row that stands for all events of a node with one output: add, run_node, and a remove for each value that
goes. It costs a third of writing them one by one."""

Scope = tuple[tuple[int, str], ...]
"""The bodies that an event happened in, from the outermost graph inwards."""


class NodeCall(NamedTuple):
    """What never changes between two runs of a node: made once, shared by its rows."""

    domain: str
    op_type: str
    inputs: tuple[str, ...]
    executor_id: int
    threads: int
    tier: str = ""
    in_place: str = ""


class NodeStamp(NamedTuple):
    """What the events of a step have in common in every run."""

    node: int
    call: NodeCall
    output: str
    removed: tuple[str, ...]
    zeros: tuple[int, ...]
    """Live bytes after each removal, where nothing is accounted for."""


def first_of(value: np.ndarray[Any, Any]) -> bytes | tuple[str, ...]:
    """The first eight elements of a tensor, as bytes or texts: what an event keeps, never the buffer itself."""
    if value.dtype.char in "OUS":
        return tuple(str(text) for text in value.flat[:MAX_SAMPLE])
    if value.size <= MAX_SAMPLE:
        return value.tobytes()
    return value.reshape(-1)[:MAX_SAMPLE].tobytes()


@functools.cache
def _data_type(dtype: np.dtype[Any]) -> int:
    """TensorProto code of a dtype; UNDEFINED for one that ONNX does not have."""
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))
    except (KeyError, ValueError):
        return int(onnx.TensorProto.UNDEFINED)


def _read_value(
    dtype: np.dtype[Any], shape: tuple[int, ...], first: bytes | tuple[str, ...]
) -> dict[str, Any]:
    """The fields of an event that describe its value."""
    small = math.prod(shape) <= MAX_SAMPLE
    fields: dict[str, Any] = {"data_type": -1, "shape": shape if small else ()}
    if isinstance(first, tuple):
        fields["string_values"] = first
        if small:
            fields["data_type"] = int(onnx.TensorProto.STRING)
        return fields
    if small:
        fields["data_type"] = _data_type(dtype)
    if dtype.kind in "fiub" and dtype != np.float16:
        values = tuple(float(number) for number in np.frombuffer(first, dtype))
        fields.update(values=values, value_count=len(values))
    return fields


def event_of_row(row: tuple[Any, ...], epoch_ns: int) -> RuntimeEvent:
    """The event that a row stands for.

    Rows, by action; ``memory`` is live and peak bytes of execution, then of io:
      ADD, REPLACE        (action, ns, scope, *memory, kind, name, node, nbytes, dtype, shape, first elements)
      REMOVE              (action, ns, scope, *memory, name)
      RUN_NODE, FAIL_NODE (action, ns, scope, *memory, node, call, duration, error, scratch)
      allocator's         (action, ns, nbytes, buffer, owner, live, peak)
    and for :func:`events_of_row` alone
      STEP                (action, start ns, end ns, scope, *memory, stamp, nbytes, dtype, shape, first elements,
                           live bytes after each removal)
    """
    action = RuntimeEventAction(row[0])
    fields: dict[str, Any] = {"action": action, "timestamp_ns": row[1] + epoch_ns}
    if action in ALLOCATOR_ACTIONS:
        names = ("nbytes", "buffer", "owner", "allocated_bytes", "peak_bytes")
        return RuntimeEvent(**fields, **dict(zip(names, row[2:], strict=True)))
    scope, live, peak, io_live, io_peak, *rest = row[2:]
    fields.update(
        allocated_bytes=live,
        peak_bytes=peak,
        io_allocated_bytes=io_live,
        io_peak_bytes=io_peak,
    )
    if scope:
        index, attribute = scope[-1]
        fields.update(subgraph_node_index=index, subgraph_attr_name=attribute, subgraph_path=scope)
    if action in (RuntimeEventAction.ADD, RuntimeEventAction.REPLACE):
        kind, name, node, nbytes, dtype, shape, first = rest
        fields.update(kind=kind, name=name, node_index=node, nbytes=nbytes)
        fields.update(_read_value(dtype, shape, first))
    elif action == RuntimeEventAction.REMOVE:
        (fields["name"],) = rest
    else:
        node, call, duration, error, scratch = rest
        fields.update(
            op_domain=call.domain,
            op_type=call.op_type,
            inputs=call.inputs,
            duration_ns=duration,
            cpu_executor_instance_id=call.executor_id,
            cpu_effective_threads=call.threads,
            node_index=node,
            error=error,
            tier=call.tier,
            in_place=call.in_place,
            scratch_bytes=scratch,
        )
    return RuntimeEvent(**fields)


def count_events(row: tuple[Any, ...]) -> int:
    """How many events a row stands for."""
    return 2 + len(row[8].removed) if row[0] == STEP else 1


def events_of_row(row: tuple[Any, ...], epoch_ns: int) -> Iterator[RuntimeEvent]:
    """All events that a row stands for, in order."""
    if row[0] != STEP:
        yield event_of_row(row, epoch_ns)
        return
    _, started, ended, scope, *memory, stamp, nbytes, dtype, shape, first, lives = row
    index, call, output, removed, _ = stamp
    head = (scope, *memory)
    add = (_ADD, ended, *head, "intermediate", output, index, nbytes, dtype, shape, first)
    yield event_of_row(add, epoch_ns)
    ran = (_RUN_NODE, started, *head, index, call, ended - started, "", None)
    yield event_of_row(ran, epoch_ns)
    for name, live in zip(removed, lives, strict=True):
        yield event_of_row((_REMOVE, ended, scope, live, *memory[1:], name), epoch_ns)


_ADD = int(RuntimeEventAction.ADD)
_RUN_NODE = int(RuntimeEventAction.RUN_NODE)
_REMOVE = int(RuntimeEventAction.REMOVE)
