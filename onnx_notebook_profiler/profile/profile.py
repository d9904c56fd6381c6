"""Runs a model and joins what was measured with what the formulas say."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from onnx_notebook_profiler.errors import FeedError, ProfilerError, SizeError
from onnx_notebook_profiler.evaluator.observe import RunRecord, observing
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.evaluator.tiers import KernelChoice
from onnx_notebook_profiler.model import (
    LoadedModel,
    ModelSource,
    free_memory,
    generate_feed,
    graph_inputs,
    load_model,
    shorten,
)
from onnx_notebook_profiler.ort.measured import measure
from onnx_notebook_profiler.ort.settings import DEFAULT_SETTINGS, SessionSettings
from onnx_notebook_profiler.ort.trace import Trace
from onnx_notebook_profiler.ort.trace_model import trace_model
from onnx_notebook_profiler.profile.join import join, sizes_of
from onnx_notebook_profiler.profile.result import Profile
from onnx_notebook_profiler.profile.runtime_join import join_measured
from onnx_notebook_profiler.symbolic.context import ComputeContext

__all__ = ["complete_feeds", "profile", "profile_run"]


def profile(
    model: ModelSource | ReferenceEvaluator,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    backend: Literal["reference", "onnxruntime"] = "reference",
    trace: bool = False,
    runs: int = 3,
    settings: SessionSettings = DEFAULT_SETTINGS,
    kernels: KernelChoice = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Profile:
    """Run *model* once and say what each node cost.

    Args:
        model: What :class:`~onnx_notebook_profiler.ReferenceEvaluator` takes, or such an evaluator.
        feeds: A value for each input. Inputs that are missing are generated, see *dims*.
        dims: Sizes of symbolic dimensions, for generated inputs; 1 for those that are not named.
        backend: Who runs the model: ``"reference"``, this package's evaluator, or ``"onnxruntime"``, in a session of
            its own; rows are then of the last of *runs* runs, and ``measured_runs`` has all of them.
        trace: With onnxruntime: write down each request of its allocator, in a process of its own.
        runs: With onnxruntime: how often it runs; later runs take a memory pattern that the first one leaves.
        settings: With onnxruntime: options of the session.
        kernels: Whose kernels it takes, ``"auto"``, ``"numpy"`` or ``"onnxruntime"``; an evaluator keeps its own.
        progress: Called with (nodes done, nodes in all) while the model runs.

    Raises:
        ModelError, UnsupportedOperatorError: The model cannot be run at all.
        FeedError, SizeError: The feeds or sizes do not fit it.
        MissingExtraError, OnnxRuntimeError: onnxruntime is not installed, failed, or does not offer what was asked.
        KernelError, AllocationError: A node failed. The exception has the profile up to it as ``error.profile``.
    """
    if backend not in ("reference", "onnxruntime"):
        raise ValueError(f"backend is 'reference' or 'onnxruntime', not {backend!r}")
    if backend == "onnxruntime":
        source = model.model if isinstance(model, ReferenceEvaluator) else load_model(model)
        return _profile_onnxruntime(source, feeds or {}, dims or {}, trace, runs, settings)
    if trace:
        raise ValueError(
            "trace=True is for backend='onnxruntime'; a ReferenceEvaluator's events are always there"
        )
    evaluator = model
    if not isinstance(evaluator, ReferenceEvaluator):
        evaluator = ReferenceEvaluator(evaluator, kernels=kernels)
    context = _predict(evaluator.model)
    given, generated = complete_feeds(evaluator.model, context, feeds or {}, dims or {})
    records: list[RunRecord] = []
    try:
        with observing(records.append, progress):
            evaluator.run(None, given)
    except ProfilerError as error:
        if not records:
            raise
        failure = type(error)(f"{error}{_hint(context, generated, dims or {})}")
        failure.profile = join(records[-1], context, generated)  # type: ignore[attr-defined]
        raise failure from error
    return join(records[-1], context, generated)


def _profile_onnxruntime(
    model: LoadedModel,
    feeds: Mapping[str, Any],
    dims: Mapping[str, int],
    trace: bool,
    runs: int,
    settings: SessionSettings,
) -> Profile:
    context = _predict(model)
    given, generated = complete_feeds(model, context, feeds, dims)
    found: Trace | None = None
    if trace:
        found, measured = trace_model(model, given, runs=runs, settings=settings)
    else:
        measured = measure(model, given, runs=runs, settings=settings)
    return join_measured(measured, model, context, sizes_of(context, given), generated, trace=found)


def _hint(context: ComputeContext, generated: Sequence[str], dims: Mapping[str, int]) -> str:
    """What a user may do about a run that failed on made-up feeds."""
    if not generated:
        return ""
    text = f". The values of {', '.join(map(shorten, generated))} were generated: give real ones in feeds"
    left = [name for name in context.dims if name not in dims]
    return f"{text}; size 1 was taken for {', '.join(left)}: give sizes in dims" if left else text


def profile_run(record: RunRecord) -> Profile:
    """The profile of a run that was observed, finished or failed."""
    return join(record, _predict(record.evaluator.model), ())


def _predict(model: LoadedModel) -> ComputeContext:
    context = ComputeContext(account="evaluator")
    context.compute(model)
    return context


def complete_feeds(
    model: LoadedModel,
    context: ComputeContext,
    feeds: Mapping[str, Any],
    dims: Mapping[str, int],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Feeds for every input that has to be fed, in the model's order, and the names of those that were made up."""
    for name, given in (("feeds", feeds), ("dims", dims)):
        if not isinstance(given, Mapping):
            raise FeedError(f"{name} is a mapping from name to value, not {type(given).__name__}")
    missing = [value for value in graph_inputs(model.proto.graph) if value.name not in feeds]
    known = {name for name in dims if name in context.dims}
    if len(known) != len(dims):
        unknown = ", ".join(shorten(str(name)) for name in dims if name not in known)
        raise SizeError(
            f"the model has no symbolic dimension {unknown}: it has {', '.join(context.dims) or 'none'}"
        )
    if not missing:
        return dict(feeds), ()
    sizes = dict.fromkeys(context.dims, 1) | sizes_of(context, feeds) | dict(dims)
    shapes = context.input_shapes(sizes)
    _refuse_too_much(context, sizes, [shapes.get(value.name) for value in missing])
    made: dict[str, Any] = {}
    for value in missing:
        shape = shapes.get(value.name)
        if shape is None and value.type.HasField("tensor_type"):
            raise FeedError(
                f"input {shorten(value.name)} declares no shape, so no value can be generated: give it in feeds"
            )
        made[value.name] = generate_feed(value, shape or ())
    order = [value.name for value in graph_inputs(model.proto.graph)]
    complete = {name: feeds[name] if name in feeds else made[name] for name in order}
    complete.update((name, value) for name, value in feeds.items() if name not in complete)
    return complete, tuple(made)


def _refuse_too_much(
    context: ComputeContext, sizes: Mapping[str, int], shapes: Sequence[tuple[int, ...] | None]
) -> None:
    """SizeError where the inputs and the predicted peak need more memory than is free."""
    free = free_memory()
    elements = sum(math.prod(shape) for shape in shapes if shape is not None)
    peak = 0
    with contextlib.suppress(SizeError):  # sizes that do not fit together: the run says which node
        peak = int(context.peak.evaluate(sizes))
    if free is not None and elements + peak > free:
        shown = ", ".join(f"{name}={sizes[name]}" for name in context.dims)
        raise SizeError(
            f"a run at {shown} would hold {peak:,} bytes at its peak and {elements:,} elements of inputs; "
            f"{free:,} bytes are free: choose smaller sizes. ComputeContext and explore price any size "
            f"without running it"
        )
