"""What sessions of onnxruntime say of their own runs, at the author's nodes: times, and what the arena held."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import ModelProto

from onnx_notebook_profiler.errors import MissingExtraError, ModelError, OnnxRuntimeError
from onnx_notebook_profiler.evaluator.feeds import FeedCheck
from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.ort.node_map import NodeMap, NodeOrigin, name_nodes
from onnx_notebook_profiler.ort.observed_sessions import unobserved
from onnx_notebook_profiler.ort.profile_json import NodeRow, ProfiledRun, read_profile
from onnx_notebook_profiler.ort.settings import (
    DEFAULT_SETTINGS,
    EXTERNAL_FOLDER,
    SessionSettings,
    weights_apart,
)
from onnx_notebook_profiler.plan.ort_order import is_constant

__all__ = ["NO_MEMORY", "MeasuredNode", "MeasuredRun", "Measurement", "joined", "measure"]

NO_MEMORY: Final = (
    "bytes are not known: onnxruntime tells them from 1.28 on, to sessions with an arena of their own; trace=True "
    "measures them"
)


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredNode:
    """A node of the graph that ran, in one run."""

    row: NodeRow
    """What the profile says of it."""
    origin: NodeOrigin
    """What it stands for in the author's model."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Names in the graph that ran; empty where it is not known which of its nodes this is."""
    start_ns: int
    """By the clock of the run's ``began_ns``."""
    live_bytes: int | None
    """Bytes asked for and not given back when it ended, reserved ones included; None where nothing tells."""
    scratch_bytes: int | None = None
    """The most that its kernel had beyond that; None where that was not traced."""
    io_bytes: int | None = None
    """The part of ``live_bytes`` that the caller gets; None where that was not traced."""
    domain: str = ""

    @property
    def op(self) -> str:
        """``Add``, or with its domain ``com.microsoft::Gelu``."""
        return f"{self.domain}::{self.row.op_type}" if self.domain else self.row.op_type

    @property
    def end_ns(self) -> int:
        """When it ended at the latest: start and duration are rounded down to µs."""
        return self.start_ns + self.row.duration_us * 1000 + 2000


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a session."""

    number: int
    """From 0: the first run of a session, without a memory pattern."""
    began_ns: int
    """ns since the Unix epoch, or since the profile began where its clock is not known."""
    duration_ns: int
    nodes: tuple[MeasuredNode, ...]
    """As they ran; nodes of a body before the one that owns it."""

    def events(self) -> tuple[RuntimeEvent, ...]:
        """A RUN_NODE event for each node, in the form of all other logs; NO_NODE where the author has no such node."""
        return tuple(_events(self))


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The runs of one session."""

    version: str
    """onnxruntime's."""
    runs: tuple[MeasuredRun, ...]
    optimized: ModelProto
    """The graph that ran; its nodes have names of ours where the session was made here."""
    notes: tuple[str, ...]
    """What has to be said of the figures."""

    gone: tuple[int, ...] = ()
    """Nodes of the author's main graph that nothing that ran stands for: folded into constants, or not needed."""


def measure(
    model: LoadedModel,
    feeds: Mapping[str, Any],
    *,
    runs: int = 3,
    settings: SessionSettings = DEFAULT_SETTINGS,
) -> Measurement:
    """Run *model* in a session of this process that profiles itself.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        FeedError: The feeds do not fit the model.
        ModelError: onnxruntime refuses the model.
        OnnxRuntimeError: A run failed.
    """
    if runs < 1:
        raise ValueError(f"runs is a number of 1 or more, not {runs}")
    runtime = _runtime()
    checked = FeedCheck(model)(feeds)
    named, places = name_nodes(model.proto)
    with tempfile.TemporaryDirectory(prefix="onp-profile-") as folder:
        saved = Path(folder) / "saved.onnx"
        options = _options(runtime, settings, model.folder, saved)
        try:
            with unobserved():
                session = runtime.InferenceSession(
                    named.SerializeToString(), options, providers=["CPUExecutionProvider"]
                )
        except Exception as error:  # its classes differ from version to version
            raise ModelError(
                f"onnxruntime {runtime.__version__} refuses the model: {error}"
            ) from error
        for number in range(runs):
            try:
                with unobserved():
                    session.run(None, checked)
            except Exception as error:  # as above
                raise OnnxRuntimeError(
                    f"run {number} of onnxruntime {runtime.__version__} failed: {error}"
                ) from error
        began = session.get_profiling_start_time_ns()
        text = Path(session.end_profiling()).read_text(encoding="utf-8", errors="replace")
        optimized = onnx.load(saved, load_external_data=False)
    nodes = NodeMap(model.proto, places, optimized)
    return joined(runtime.__version__, model.proto, read_profile(text), nodes, optimized, began)


def joined(
    version: str,
    author: ModelProto,
    profiled: Sequence[ProfiledRun],
    nodes: NodeMap,
    optimized: ModelProto,
    began_ns: int,
) -> Measurement:
    """The rows of a profile with what each node stands for.

    Args:
        began_ns: When the profile began, by the clock that events shall have.
    """
    runs = tuple(
        MeasuredRun(
            number,
            began_ns + run.start_us * 1000,
            run.duration_us * 1000,
            tuple(_node(row, nodes, began_ns) for row in run.rows),
        )
        for number, run in enumerate(profiled)
    )
    notes = []
    if runs and any(node.live_bytes is None for node in runs[-1].nodes):
        notes.append(NO_MEMORY)
    gone = _gone(author, runs[-1].nodes) if runs else ()
    return Measurement(version, runs, optimized, tuple(notes), gone)


def _gone(author: ModelProto, nodes: Sequence[MeasuredNode]) -> tuple[int, ...]:
    """Nodes of the main graph that none of *nodes* stands for; constants never run."""
    there = {one for node in nodes for one in node.origin.nodes if not node.origin.path}
    there.update(node.origin.path[0][0] for node in nodes if node.origin.path)
    return tuple(
        index
        for index, node in enumerate(author.graph.node)
        if index not in there and not is_constant(node)
    )


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            "backend='onnxruntime' needs onnxruntime: pip install onnx-notebook-profiler[onnxruntime]"
        ) from error
    return onnxruntime


def _options(runtime: Any, settings: SessionSettings, folder: Path | None, saved: Path) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel(settings.level)
    options.intra_op_num_threads = settings.threads
    options.enable_mem_pattern = settings.pattern
    if settings.parallel:
        options.execution_mode = runtime.ExecutionMode.ORT_PARALLEL
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = str(saved.with_name("profile"))
    options.optimized_model_filepath = str(saved)
    config = dict(settings.config)
    if folder is not None:
        config[EXTERNAL_FOLDER] = str(folder)
        config.update(weights_apart(saved.with_suffix(".weights").name))
    for key, value in config.items():
        options.add_session_config_entry(key, value)
    return options


def _node(row: NodeRow, nodes: NodeMap, began_ns: int) -> MeasuredNode:
    node = nodes.node(row.name, row.number, row.op_type)
    return MeasuredNode(
        row=row,
        origin=nodes.origin(row.name, row.number, row.op_type),
        inputs=tuple(node.input) if node is not None else (),
        outputs=tuple(name for name in node.output if name) if node is not None else (),
        start_ns=began_ns + row.start_us * 1000,
        live_bytes=None if row.memory is None else row.memory.requested,
        domain=node.domain if node is not None and node.domain != "ai.onnx" else "",
    )


def _events(run: MeasuredRun) -> Iterator[RuntimeEvent]:
    peak = 0
    for node in run.nodes:
        live, io = node.live_bytes or 0, node.io_bytes or 0
        peak = max(peak, live - io)
        index = node.origin.index
        path = node.origin.path
        owner, body = path[-1] if path else (NO_NODE, "")
        yield RuntimeEvent(
            action=RuntimeEventAction.RUN_NODE,
            timestamp_ns=node.start_ns,
            op_domain=node.domain,
            op_type=node.row.op_type,
            inputs=node.inputs,
            duration_ns=node.row.duration_us * 1000,
            node_index=NO_NODE if index is None else index,
            subgraph_node_index=owner,
            subgraph_attr_name=body,
            subgraph_path=path,
            allocated_bytes=live - io,
            peak_bytes=peak,
            io_allocated_bytes=io,
            tier="onnxruntime",
            scratch_bytes=node.scratch_bytes,
        )
