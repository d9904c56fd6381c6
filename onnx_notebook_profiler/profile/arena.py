"""One call: which `max_mem` a model needs in onnxruntime's arena, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings, ExtendStrategy
from onnx_notebook_profiler.errors import MissingExtraError, OnnxRuntimeError, SizeError
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model
from onnx_notebook_profiler.ort.c_api import find_library
from onnx_notebook_profiler.ort.pattern import pattern_applies
from onnx_notebook_profiler.ort.planned_session import plan_model
from onnx_notebook_profiler.ort.traced_session import TracedModel
from onnx_notebook_profiler.profile.arena_report import (
    ArenaReport,
    SessionSource,
    Sizes,
    make_report,
)
from onnx_notebook_profiler.profile.join import sizes_of
from onnx_notebook_profiler.profile.profile import complete_feeds
from onnx_notebook_profiler.symbolic.context import ComputeContext

__all__ = ["arena_report"]

Source = Literal["auto", "trace", "rules"]


def arena_report(
    model: ModelSource | LoadedModel,
    dims: Sizes | Sequence[Sizes] | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    max_mem: int = 0,
    strategy: ExtendStrategy = "kNextPowerOfTwo",
    pattern: bool = True,
    optimized: bool = True,
    runs: int = 3,
    source: Source = "auto",
    verify: bool = False,
    **settings: int,
) -> ArenaReport:
    """Say which `max_mem` onnxruntime's CPU arena needs for *model*, and what happens under the one asked about.

    Args:
        model: What :class:`~onnx_notebook_profiler.ReferenceEvaluator` takes.
        dims: Sizes of the symbolic dimensions, 1 for those that are not named; or one such mapping for each run.
        feeds: Values for some or all inputs; others are generated. Data that decides sizes has to be given.
        max_mem: The limit that is asked about; 0: the least that works.
        strategy: ``arena_extend_strategy``: ``"kNextPowerOfTwo"`` or ``"kSameAsRequested"``.
        pattern: The session option ``enable_mem_pattern``.
        optimized: Whether the session optimizes the graph, as it does by default.
        runs: Runs of one session with these sizes, where *dims* is not one mapping for each.
        source: ``"trace"``: what the installed onnxruntime asks for in one run at each size. ``"rules"``: what this
            package's rules say it does with the graph as it is; nothing runs, and scratch and packed weights are not
            known. ``"auto"``: a trace where the platform offers one.
        verify: Try the real runtime around the edges, in a process of its own: :attr:`ArenaReport.verified`.
        settings: The arena's others: ``initial_chunk_size_bytes``, ``max_dead_bytes_per_chunk``,
            ``initial_growth_chunk_size_bytes``, ``max_power_of_two_extend_bytes``.

    Raises:
        ModelError, FeedError, SizeError: The model, a feed, a size or a setting is none.
        MissingExtraError: The optimized graph is onnxruntime's own, and onnxruntime is not installed.
        OnnxRuntimeError: A traced run failed; or this platform or version offers no trace.
    """
    if source not in ("auto", "trace", "rules"):
        raise ValueError(f"source is 'auto', 'trace' or 'rules', not {source!r}")
    checked = ArenaSettings.checked(max_mem=max_mem, arena_extend_strategy=strategy, **settings)
    loaded = model if isinstance(model, LoadedModel) else load_model(model)
    context = ComputeContext(account="evaluator")
    context.compute(loaded)
    sizes = _sizes(context, dims, feeds or {}, runs)

    def made_feeds(one: Sizes) -> Mapping[str, Any]:
        return complete_feeds(loaded, context, feeds or {}, one)[0]

    chosen: SessionSource
    if source == "rules" or (source == "auto" and not _can_trace(optimized=optimized)):
        if optimized:
            raise SizeError(
                "the graph that onnxruntime optimizes is its own: the rules follow a graph as it is. Give "
                "optimized=False, or a model that a session saved; or source='trace'"
            )
        chosen = plan_model(loaded)
    else:
        chosen = TracedModel(loaded, made_feeds, optimized=optimized)
    report = make_report(
        loaded.name,
        chosen,
        sizes,
        checked,
        made_feeds,
        pattern=pattern and pattern_applies(loaded),
        optimized=optimized,
    )
    return report.verify() if verify else report


def _can_trace(*, optimized: bool) -> bool:
    """Whether the real runtime can be traced here; where only it has the answer, its absence is an error."""
    try:
        find_library()
    except (MissingExtraError, OnnxRuntimeError):
        if optimized:
            raise
        return False
    return True


def _sizes(
    context: ComputeContext,
    dims: Sizes | Sequence[Sizes] | None,
    feeds: Mapping[str, Any],
    runs: int,
) -> list[Sizes]:
    """A size for every dimension, for each run."""
    if type(runs) is not int or runs < 1:
        raise SizeError(f"runs is how often the session runs, 1 or more, not {runs!r}")
    asked = [dims or {}] * runs if dims is None or isinstance(dims, Mapping) else list(dims)
    if not asked:
        raise SizeError("dims is one mapping, or one for each run; it holds none")
    known = {**dict.fromkeys(context.dims, 1), **sizes_of(context, feeds)}
    for one in asked:
        strange = [name for name in one if name not in known]
        if strange:
            raise SizeError(
                f"the model has no symbolic dimension {strange[0]!r}: it has {', '.join(known) or 'none'}"
            )
    return [{**known, **one} for one in asked]
