"""Traces a model: every request that onnxruntime makes of its allocator while it runs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from onnx_notebook_profiler.errors import ModelError, OnnxRuntimeError
from onnx_notebook_profiler.evaluator.feeds import FeedCheck
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model
from onnx_notebook_profiler.ort.attribution import attribute
from onnx_notebook_profiler.ort.node_map import NodeMap, name_nodes
from onnx_notebook_profiler.ort.settings import DEFAULT_SETTINGS, SessionSettings
from onnx_notebook_profiler.ort.trace import Trace
from onnx_notebook_profiler.ort.tracing import Job, run_jobs

__all__ = ["trace_model"]


def trace_model(
    model: ModelSource | LoadedModel,
    feeds: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    runs: int = 2,
    settings: SessionSettings = DEFAULT_SETTINGS,
    timeout: float | None = None,
) -> Trace:
    """Run *model* under onnxruntime with an allocator that writes down each request, in a process of its own.

    The results of a run are given back before the next one.

    Args:
        feeds: A tensor for each input, for all *runs*; or one such mapping for each run.
        timeout: Seconds that it may take in all.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        FeedError: The feeds do not fit the model.
        ModelError: onnxruntime refuses the model.
        OnnxRuntimeError: A run failed, the process died, or this platform or version cannot be traced.
    """
    loaded = model if isinstance(model, LoadedModel) else load_model(model)
    if isinstance(feeds, Mapping):
        feeds = [feeds] * runs
    if not feeds:
        raise ValueError("a trace takes one run or more, found none")
    check = FeedCheck(loaded)
    checked = {id(one): check(one) for one in feeds}
    named, places = name_nodes(loaded.proto)
    job = Job(
        named.SerializeToString(),
        [checked[id(one)] for one in feeds],
        [value.name for value in loaded.proto.graph.output],
        settings,
        loaded.folder,
    )
    with tempfile.TemporaryDirectory(prefix="onp-trace-") as folder:
        (raw,) = run_jobs(Path(folder), [job], timeout=timeout)
        if raw.error and not raw.runs:
            raise ModelError(f"onnxruntime {raw.version} refuses the model: {raw.error}")
        if raw.error:
            raise OnnxRuntimeError(
                f"run {len(raw.runs) - 1} of onnxruntime {raw.version} failed: {raw.error}"
            )
        optimized = onnx.load(raw.saved, load_external_data=False)
    nodes = NodeMap(loaded.proto, places, optimized)
    events, notes = attribute(raw, nodes)
    return Trace(
        version=raw.version,
        settings=settings,
        events=events,
        runs=len(raw.runs),
        durations_ns=tuple(run.ended - run.began for run in raw.runs),
        optimized=optimized,
        notes=notes,
    )
