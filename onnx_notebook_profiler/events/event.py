"""One entry of the event log: a value came or went, a node ran, an allocator acted."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

__all__ = ["ALLOCATOR_ACTIONS", "INITIALIZER_NODE", "NO_NODE", "RuntimeEvent", "RuntimeEventAction"]

NO_NODE = -1
"""``node_index`` of values that no node produced: inputs, removals."""

INITIALIZER_NODE = -2
"""``node_index`` of initializers."""


class RuntimeEventAction(enum.IntEnum):
    """What an event reports. The ``k...`` names are aliases that other runtimes print."""

    ADD = 0
    """A value enters the run under a name that was free."""
    REPLACE = 1
    """A value takes the place of another of the same name."""
    REMOVE = 2
    """A value leaves; its buffer, where no view needs it, has gone already."""
    RUN_NODE = 3
    """A node was dispatched and returned normally."""
    FAIL_NODE = 16
    """A node was dispatched and raised: the last event of a failed run."""
    ALLOCATE = 17
    """An allocator handed out a buffer."""
    FREE = 18
    """An allocator took a buffer back."""
    RESERVE = 19
    """An allocator set memory aside outside of its ordinary buffers."""

    kAdd = ADD  # noqa: N815 - the names of onnx-light's enumeration, kept as aliases
    kReplace = REPLACE  # noqa: N815
    kRemove = REMOVE  # noqa: N815
    kRunNode = RUN_NODE  # noqa: N815

    @property
    def label(self) -> str:
        """The action as text: ``add``, ``run_node``, ..."""
        return self.name.lower()


ALLOCATOR_ACTIONS = frozenset(
    {RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE, RuntimeEventAction.RESERVE}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEvent:
    """One event of a run.

    Bytes are exact integers and are read at the moment of the event: ``allocated_bytes`` and
    ``peak_bytes`` from the execution allocator, ``io_allocated_bytes`` and ``io_peak_bytes`` from
    the input/output allocator (0 where both are one object, so that the sum never counts twice, and
    0 where there is none). Times are nanoseconds; ``timestamp_ns`` counts from the Unix epoch and is the
    instant of the event, for nodes the instant at which the dispatch began.

    Format and field order follow onnx-light's event log.
    """

    action: RuntimeEventAction
    kind: str = "unknown"
    timestamp_ns: int = 0
    name: str = ""
    data_type: int = 0
    """TensorProto data type; -1 where the tensor has more than eight elements, 0 where there is none."""
    shape: tuple[int, ...] = ()
    """Dimensions of tensors with at most eight elements, else empty."""
    value_count: int = 0
    op_domain: str = ""
    op_type: str = ""
    inputs: tuple[str, ...] = ()
    duration_ns: int = 0
    cpu_executor_instance_id: int = 0
    cpu_effective_threads: int = 0
    node_index: int = NO_NODE
    device: int = -1
    subgraph_node_index: int = NO_NODE
    subgraph_attr_name: str = ""
    allocated_bytes: int = 0
    peak_bytes: int = 0
    values: tuple[float, ...] = ()
    """The first eight elements, where the type is a number or bool."""
    string_values: tuple[str, ...] = ()

    io_allocated_bytes: int = 0
    io_peak_bytes: int = 0
    subgraph_path: tuple[tuple[int, str], ...] = ()
    """From the outermost graph inwards: index of the owning node and name of its body, at each level."""
    error: str = ""
    """What a failed node raised."""
    tier: str = ""
    """Whose kernel ran a node: ``own``, ``onnxruntime``, ``reference`` (onnx.reference), or ``function body``."""
    in_place: str = ""
    """The input whose bytes became those of the node's first output; empty where its outputs are fresh."""
    scratch_bytes: int | None = None
    """The most bytes that a node's kernel held beyond its inputs and outputs; None where that was not measured."""
    nbytes: int = 0
    """Allocator events: size of the buffer. Add and replace: bytes of the buffer that the value owns; 0 for a view, a
    borrowed value, or where nothing is accounted for."""
    buffer: int = 0
    """Allocator events: number of the buffer, counted by its allocator from 1."""
    owner: str = ""
    """Allocator events: the value that the buffer holds."""

    def as_dict(self) -> dict[str, Any]:
        """The event as plain values; the keys come in the order of onnx-light's ``as_dict``.

        Allocator events have three more keys at the end: ``nbytes``, ``buffer``, ``owner``.
        """
        row: dict[str, Any] = {key: getattr(self, key) for key in _KEYS}
        row["action"] = self.action.label
        for key in ("shape", "inputs", "values", "string_values"):
            row[key] = list(row[key])
        if self.action in ALLOCATOR_ACTIONS:
            row.update(nbytes=self.nbytes, buffer=self.buffer, owner=self.owner)
        return row

    def summary(self) -> str:
        """One line: action, subject, node, duration, executor, memory.

        ``[run_node/unknown] ai.onnx::Mul(x, two) node#0 took 900ns executor#1/1 mem=4100B peak=4100B``
        """
        ran = self.action in (RuntimeEventAction.RUN_NODE, RuntimeEventAction.FAIL_NODE)
        parts = [f"[{self.action.label}/{self.kind}] "]
        if ran:
            domain = f"{self.op_domain}::" if self.op_domain else ""
            parts.append(f"{domain}{self.op_type}({', '.join(self.inputs)})")
        elif self.action in ALLOCATOR_ACTIONS:
            parts.append(f"'{self.owner}' buffer#{self.buffer} {self.nbytes}B")
        else:
            parts.append(f"'{self.name}'")
        if self.node_index >= 0:
            parts.append(f" node#{self.node_index}")
        if ran:
            parts.append(f" took {self.duration_ns}ns")
            if self.cpu_executor_instance_id:
                parts.append(
                    f" executor#{self.cpu_executor_instance_id}/{self.cpu_effective_threads}"
                )
        parts.append(f" mem={self.allocated_bytes}B peak={self.peak_bytes}B")
        return "".join(parts)

    @property
    def live_bytes(self) -> int:
        """Bytes of both accounts at the moment of the event."""
        return self.allocated_bytes + self.io_allocated_bytes


_KEYS = tuple(field.name for field in dataclasses.fields(RuntimeEvent))[:21]
