"""The profile of a session of onnxruntime that somebody else's code made and ran."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import onnx

from onnx_notebook_profiler.errors import OnnxRuntimeError
from onnx_notebook_profiler.model import LoadedModel, load_model
from onnx_notebook_profiler.ort.measured import Measurement, joined
from onnx_notebook_profiler.ort.node_map import NodeMap
from onnx_notebook_profiler.ort.observed_sessions import (
    ObservedSession,
    second_session,
    unobserved,
)
from onnx_notebook_profiler.ort.profile_json import read_profile
from onnx_notebook_profiler.profile.join import sizes_of
from onnx_notebook_profiler.profile.result import Profile
from onnx_notebook_profiler.profile.runtime_join import join_measured
from onnx_notebook_profiler.symbolic.context import ComputeContext

__all__ = ["profile_session"]

_SHADOW_RUNS: Final = 3

_UNNAMED: Final = (
    "the graph that ran could not be saved beside, so that nodes are told by their names alone"
)


def profile_session(known: ObservedSession, runtime: Any) -> Profile:
    """The profile of a session's last run.

    A session that could not be profiled itself is measured through a shadow session of the same model, options and
    feeds, and the profile's notes say so.

    Args:
        runtime: The module ``onnxruntime``.

    Raises:
        ProfilerError: Nothing but the wall time is known, for a reason that the message has.
    """
    feeds = known.runs[-1].feeds if known.runs else None
    text, began = known.profile(), known.began_ns
    profiled = read_profile(text) if text else ()
    notes = []
    folder = known.folder / "second"
    folder.mkdir()
    if profiled:
        # what is wrong with the second session shows in the graph that it did not save
        with contextlib.suppress(Exception):
            second_session(known, runtime, folder, is_profiled=False)
    else:
        why = "it writes a profile of its own" if known.is_new else "it was made before"
        text, began = _shadow(known, runtime, feeds, folder, why)
        profiled = read_profile(text)
        notes.append(
            f"measured in a shadow session of the same model, since the session itself could not be switched to "
            f"profiling: {why}"
        )
    model = load_model(known.model or b"")
    optimized = model.proto
    saved = folder / "saved.onnx"
    if saved.is_file():
        optimized = onnx.load(saved, load_external_data=False)
    else:
        notes.append(_UNNAMED)
    nodes = NodeMap(model.proto, (), optimized)
    measured = joined(runtime.__version__, model.proto, profiled, nodes, optimized, began)
    return _joined(known, measured, model, feeds, tuple(notes))


def _joined(
    known: ObservedSession,
    measured: Measurement,
    model: LoadedModel,
    feeds: Mapping[str, Any] | None,
    notes: tuple[str, ...],
) -> Profile:
    context = ComputeContext(account="evaluator")
    context.compute(model)
    found = join_measured(measured, model, context, sizes_of(context, feeds or {}), ())
    error = known.runs[-1].error if known.runs else ""
    return dataclasses.replace(found, notes=(*notes, *found.notes), error=error)


def _shadow(
    known: ObservedSession,
    runtime: Any,
    feeds: Mapping[str, Any] | None,
    folder: Path,
    why: str,
) -> tuple[str, int]:
    """Text and beginning of a shadow session's profile."""
    if known.model is None or feeds is None:
        what = "its model" if known.model is None else "what it was fed in its last run"
        raise OnnxRuntimeError(
            f"it could not be switched to profiling ({why}), and {what} is not known for a shadow session"
        )
    try:
        session = second_session(known, runtime, folder, is_profiled=True)
        with unobserved():
            for _ in range(min(_SHADOW_RUNS, max(2, len(known.runs)))):
                session.run(None, feeds)
    except Exception as error:  # the runtime's classes differ from version to version
        raise OnnxRuntimeError(f"a shadow session of its model failed: {error}") from error
    began = session.get_profiling_start_time_ns()
    path = Path(session.end_profiling())
    return path.read_text(encoding="utf-8", errors="replace"), began
