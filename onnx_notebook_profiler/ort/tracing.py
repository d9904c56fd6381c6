"""Has a child process run models under the recording allocator, and reads what it wrote down."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_notebook_profiler.errors import FeedError, OnnxRuntimeError
from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.ort.c_api import find_library
from onnx_notebook_profiler.ort.child import call_child
from onnx_notebook_profiler.ort.settings import (
    DEFAULT_SETTINGS,
    EXTERNAL_FOLDER,
    SessionSettings,
    weights_apart,
)

__all__ = ["Job", "RawRun", "RawTrace", "run_jobs"]


Row = tuple[int, int, int, int]
"""Kind (ALLOC, FREE, RESERVE of :mod:`~onnx_notebook_profiler.ort.recording_allocator`), ns since the Unix epoch,
address, bytes (0 for FREE)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A session to be made in the child, and its runs."""

    model: bytes | Path
    feeds: Sequence[Mapping[str, Any]]
    """For each run a tensor for each input; equal objects are written once."""
    outputs: Sequence[str]
    settings: SessionSettings = DEFAULT_SETTINGS
    folder: Path | None = None
    """Where the model's external data lies."""
    is_traced: bool = True
    """False: under the session's own arena, to compare times."""
    is_profiled: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class RawRun:
    """What one run asked for. Times are ns since the Unix epoch."""

    began: int
    ended: int
    """When the call came back; the results are given back after that."""
    rows: tuple[Row, ...]
    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class RawTrace:
    """What the child wrote down for one job."""

    version: str
    """onnxruntime's."""
    made: tuple[Row, ...]
    """Requests while the session was made."""
    runs: tuple[RawRun, ...]
    profile: str
    """The profile's text; empty where the job is not profiled or failed early."""
    profile_began: int | None
    """ns since the Unix epoch; None where the profile's clock is not known."""
    saved: Path
    """The model that the session ran, those of a model with external data in a file beside it."""
    error: str
    """What the runtime says of the session or of the last run; empty where all went through."""


def run_jobs(
    folder: Path, jobs: Sequence[Job], *, timeout: float | None = None
) -> tuple[RawTrace, ...]:
    """Run *jobs* in one child, in order; what it reads and writes lies in *folder*.

    Args:
        timeout: Seconds that the child may take in all.

    Raises:
        MissingExtraError, OnnxRuntimeError: There is no library that can be traced, or the child died.
        FeedError: A feed is no tensor.
    """
    find_library()
    plain = [_written(folder, number, job) for number, job in enumerate(jobs)]
    (folder / "jobs.json").write_text(json.dumps(plain), encoding="utf-8")
    call_child("onnx_notebook_profiler.ort.tracer", folder, timeout)
    return tuple(_read(folder, number) for number in range(len(jobs)))


def _written(folder: Path, number: int, job: Job) -> dict[str, Any]:
    model = job.model if isinstance(job.model, Path) else folder / f"{number}.onnx"
    if isinstance(job.model, bytes):
        model.write_bytes(job.model)
    config = dict(job.settings.config)
    if job.folder is not None:
        config[EXTERNAL_FOLDER] = str(job.folder)
    if job.is_traced:
        config["session.use_env_allocators"] = "1"
    saved = ""
    if job.is_profiled:
        saved = str(_saved(folder, number))
        if job.folder is not None:
            config.update(weights_apart(f"saved.{number}.weights"))
    kinds, runs = _written_feeds(folder, number, job.feeds)
    return {
        "model": str(model),
        "feeds": kinds,
        "runs": runs,
        "outputs": list(job.outputs),
        "level": job.settings.level,
        "threads": job.settings.threads,
        "pattern": job.settings.pattern,
        "parallel": job.settings.parallel,
        "config": config,
        "profile": str(folder / f"profile.{number}") if job.is_profiled else "",
        "saved": saved,
    }


def _saved(folder: Path, number: int) -> Path:
    return folder / f"saved.{number}.onnx"


def _written_feeds(
    folder: Path, number: int, runs: Sequence[Mapping[str, Any]]
) -> tuple[list[list[dict[str, Any]]], list[int]]:
    """The feeds, and which of them each run takes."""
    known: dict[int, int] = {}
    kinds: list[list[dict[str, Any]]] = []
    for feeds in runs:
        if id(feeds) not in known:
            known[id(feeds)] = len(kinds)
            files = (folder / f"{number}.{len(kinds)}.{at}.npy" for at in range(len(feeds)))
            kinds.append(
                [_tensor(*pair, file) for pair, file in zip(feeds.items(), files, strict=True)]
            )
    return kinds, [known[id(feeds)] for feeds in runs]


def _tensor(name: str, value: Any, file: Path) -> dict[str, Any]:
    if not isinstance(value, np.ndarray):
        raise FeedError(
            f"a trace takes tensors; input {shorten(name)} is fed {type(value).__name__}: use backend='onnxruntime' "
            f"without trace"
        )
    kind: dict[str, Any] = {"name": name, "shape": list(value.shape)}
    if value.dtype.kind in "OUS":
        kind.update(code=int(onnx.TensorProto.STRING), strings=[str(one) for one in value.flat])
        return kind
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    np.save(file, flat)
    kind.update(code=int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype)), file=str(file))
    return kind


def _read(folder: Path, number: int) -> RawTrace:
    path = folder / f"answer.{number}.json"
    if not path.is_file():
        raise OnnxRuntimeError(f"the traced onnxruntime gave no answer for model {number}")
    answer = json.loads(path.read_text(encoding="utf-8"))
    profile = answer.get("profile", "")
    return RawTrace(
        version=answer["version"],
        made=_rows(answer.get("made", ())),
        runs=tuple(
            RawRun(run["began"], run["ended"], _rows(run["rows"]), run["error"])
            for run in answer["runs"]
        ),
        profile=Path(profile).read_text(encoding="utf-8", errors="replace") if profile else "",
        profile_began=answer["begin"] or None,
        saved=_saved(folder, number),
        error=answer["error"],
    )


def _rows(rows: Iterable[Sequence[int]]) -> tuple[Row, ...]:
    return tuple((kind, at, address, size) for kind, at, address, size in rows)
