"""Traces a model: every request that onnxruntime makes of its allocator while it runs."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from onnx_notebook_profiler.errors import ModelError, OnnxRuntimeError
from onnx_notebook_profiler.evaluator.feeds import FeedCheck
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model
from onnx_notebook_profiler.ort.attribution import NodeBytes, attribute
from onnx_notebook_profiler.ort.measured import MeasuredRun, Measurement, joined
from onnx_notebook_profiler.ort.node_map import NodeMap, name_nodes
from onnx_notebook_profiler.ort.profile_json import read_profile
from onnx_notebook_profiler.ort.refusal import refusal
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
) -> tuple[Trace, Measurement]:
    """Run *model* under onnxruntime with an allocator that writes down each request, in a process of its own.

    Returned are the requests, and the same runs node by node. The results of a run are given back before the next one.

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
            raise ModelError(refusal(raw.version, raw.error))
        if raw.error:
            raise OnnxRuntimeError(
                f"run {len(raw.runs) - 1} of onnxruntime {raw.version} failed: {raw.error}"
            )
        optimized = onnx.load(raw.saved, load_external_data=False)
    nodes = NodeMap(loaded.proto, places, optimized)
    told = attribute(raw, nodes)
    found = Trace(
        version=raw.version,
        settings=settings,
        events=told.events,
        runs=len(raw.runs),
        durations_ns=tuple(run.ended - run.began for run in raw.runs),
        optimized=optimized,
        notes=told.notes,
    )
    profiled = read_profile(raw.profile)
    began = raw.profile_began or 0
    measured = joined(raw.version, loaded.proto, profiled, nodes, optimized, began)
    if len(told.node_bytes) == len(measured.runs):
        runs_with_bytes = map(_with_bytes, measured.runs, told.node_bytes)
        measured = dataclasses.replace(measured, runs=tuple(runs_with_bytes), notes=told.notes)
    return found, measured


def _with_bytes(run: MeasuredRun, held: Mapping[int, NodeBytes]) -> MeasuredRun:
    nodes = [
        dataclasses.replace(
            node,
            live_bytes=held[at].live,
            io_bytes=held[at].io,
            scratch_bytes=held[at].scratch,
        )
        if at in held
        else node
        for at, node in enumerate(run.nodes)
    ]
    return dataclasses.replace(run, nodes=tuple(nodes))
