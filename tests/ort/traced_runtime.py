"""The real onnxruntime under an allocator that writes down each request: what it did, to compare rules with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_notebook_profiler.errors import ProfilerError
from onnx_notebook_profiler.ort.c_api import find_library
from onnx_notebook_profiler.ort.profile_json import read_profile
from onnx_notebook_profiler.ort.settings import SessionSettings
from onnx_notebook_profiler.ort.tracing import Job, RawTrace, run_jobs

Array = np.ndarray[Any, Any]

LEVELS = {0: "none", 1: "basic", 2: "extended", 99: "all"}


@dataclasses.dataclass(frozen=True)
class Traced:
    """What the runtime did with one model."""

    ran: tuple[tuple[str, int], ...]
    """Name and number of each node, as they ran."""
    runs: tuple[tuple[tuple[str, int, int], ...], ...]
    """For each run its requests: (alloc, address, bytes) and (free, address, bytes)."""
    reserved: tuple[int, ...]
    """Bytes of each request while the session was made."""
    saved: Path
    """The model that the session ran, as it saved it."""
    error: str = ""

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the nodes as they ran."""
        return tuple(name for name, _ in self.ran)


def library() -> Path | None:
    """The shared library inside the installed wheel; None where there is none that is known to work."""
    try:
        return find_library()
    except ProfilerError:
        return None


def trace(
    folder: Path,
    models: Sequence[tuple[bytes | Path, Sequence[Mapping[str, Array]]]],
    level: int = 0,
) -> list[Traced]:
    """Run each model once for each of its feeds, one thread; all in one child process.

    *level* is that of the graph's optimization: 0 none, 99 all.
    """
    settings = SessionSettings(optimize=LEVELS[level], threads=1)
    jobs = []
    for model, feeds in models:
        read = (
            onnx.load(model, load_external_data=False)
            if isinstance(model, Path)
            else onnx.load_model_from_string(model)
        )
        jobs.append(Job(model, feeds, [value.name for value in read.graph.output], settings))
    return [_told(raw) for raw in run_jobs(folder, jobs, timeout=600)]


def _told(raw: RawTrace) -> Traced:
    profiled = read_profile(raw.profile) if raw.profile else ()
    ran = [(row.name, row.number) for row in profiled[0].rows] if profiled else []
    runs = tuple(tuple(_paired(run.rows)) for run in raw.runs if not run.error)
    return Traced(
        tuple(ran), runs, tuple(size for *_, size in raw.made if size), raw.saved, raw.error
    )


def _paired(rows: Sequence[tuple[int, int, int, int]]) -> list[tuple[str, int, int]]:
    """Frees with the bytes of their requests."""
    live: dict[int, int] = {}
    found = []
    for kind, _, address, size in rows:
        if kind != 1:
            live[address] = size
        found.append(("free" if kind == 1 else "alloc", address, size or live.pop(address)))
    return found
