"""Reads the profile that a session of onnxruntime writes: one row for each node of each run.

Source: https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from onnx_notebook_profiler.errors import OnnxRuntimeError

__all__ = ["NodeMemory", "NodeRow", "ProfiledRun", "read_profile"]

_KERNEL: Final = "_kernel_time"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeMemory:
    """The arena after a kernel ran and before anything of its inputs was given back; onnxruntime 1.28 and newer."""

    in_use: int
    """Bytes of the chunks that are handed out, reserved ones included."""
    requested: int
    """Bytes that were asked for of these: without padding."""
    in_use_delta: int
    """What the kernel added to ``in_use``."""
    requested_delta: int
    high_water: int
    """The most ``in_use`` since the session was made."""
    held: int
    """Bytes that the arena has from the system."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRow:
    """A node that ran once."""

    name: str
    """Its name in the graph that ran; ``Add_3``, operator and number, where it has none."""
    op_type: str
    number: int
    """``node_index``: the session's own number."""
    start_us: int
    """µs since the profile began, rounded down."""
    duration_us: int
    provider: str
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    """Type in onnxruntime's words and shape of each output that is a tensor, in their order."""
    output_bytes: int | None
    parameter_bytes: int | None
    """Bytes of its constant inputs that were not packed away."""
    memory: NodeMemory | None
    """None where the session has no arena of its own, or is older than 1.28."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One call of a session's ``run``; rows of bodies stand before that of their owner."""

    start_us: int
    duration_us: int
    rows: tuple[NodeRow, ...]


def read_profile(text: str) -> tuple[ProfiledRun, ...]:
    """The runs that a profile tells of, in order.

    Args:
        text: Contents of the file that ``end_profiling`` names.

    Raises:
        OnnxRuntimeError: It is no such file.
    """
    try:
        entries = json.loads(text)
        return tuple(_runs(entries))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OnnxRuntimeError(
            f"the profile that onnxruntime wrote cannot be read ({type(error).__name__}: {error}): expected a list "
            f"of events with name, cat, ts, dur and args. Names of nodes with quotes or backslashes can break it"
        ) from error


def _runs(entries: Iterable[Mapping[str, Any]]) -> list[ProfiledRun]:
    """A run's own entry comes behind those of its nodes; nodes of a run that failed belong to none."""
    runs: list[ProfiledRun] = []
    rows: list[NodeRow] = []
    for entry in entries:
        if entry["cat"] == "Node" and entry["name"].endswith(_KERNEL):
            rows.append(_row(entry))
        elif entry["name"] == "model_run":
            start = int(entry["ts"])
            within = tuple(row for row in rows if row.start_us >= start)
            runs.append(ProfiledRun(start, int(entry["dur"]), within))
            rows = []
    return runs


def _row(entry: Mapping[str, Any]) -> NodeRow:
    args = entry["args"]
    return NodeRow(
        name=entry["name"].removesuffix(_KERNEL),
        op_type=args["op_name"],
        number=int(args["node_index"]),
        start_us=int(entry["ts"]),
        duration_us=int(entry["dur"]),
        provider=args.get("provider", ""),
        outputs=tuple(_types(args.get("output_type_shape", ()))),
        output_bytes=_number(args, "output_size"),
        parameter_bytes=_number(args, "parameter_size"),
        memory=_memory(args),
    )


def _number(args: Mapping[str, Any], key: str) -> int | None:
    return int(args[key]) if key in args else None


def _types(shown: Iterable[Mapping[str, Sequence[int]]]) -> Iterable[tuple[str, tuple[int, ...]]]:
    for one in shown:
        for kind, shape in one.items():
            yield kind, tuple(int(size) for size in shape)


def _memory(args: Mapping[str, Any]) -> NodeMemory | None:
    if "mem_bytes_in_use" not in args:
        return None
    return NodeMemory(
        in_use=int(args["mem_bytes_in_use"]),
        requested=int(args["mem_bytes_requested_in_use"]),
        in_use_delta=int(args["mem_in_use_delta"]),
        requested_delta=int(args["mem_requested_in_use_delta"]),
        high_water=int(args["mem_in_use_peak"]),
        held=int(args["mem_arena_held"]),
    )
