"""What a profile is: frozen, complete, and the same whether it is printed, drawn or exported."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onnx_notebook_profiler.errors import MissingExtraError
from onnx_notebook_profiler.events import RuntimeEvent
from onnx_notebook_profiler.ort.measured import MeasuredRun
from onnx_notebook_profiler.ort.trace import Trace
from onnx_notebook_profiler.symbolic.unknown import Coverage, Unknown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LiveBuffer", "NodeProfile", "OperatorTotal", "Order", "Profile"]

Order = Literal["order", "time", "memory"]
"""How rows are sorted: as the nodes ran, slowest first, or most live bytes first."""

_SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node of the run; bytes are read at its run_node event: its outputs exist, nothing is released yet."""

    index: int
    name: str
    op: str
    """``Add``, or with its domain ``com.microsoft::Gelu``."""
    outputs: tuple[str, ...]
    time_ns: int
    output_bytes: int | None
    """Bytes of the outputs that have a buffer of their own: a view counts 0."""
    live_bytes: int | None
    """Execution and io account together. Of onnxruntime: what it asked for and did not give back, reserved weights
    included. None, here and below, where bytes are not known."""
    peak_bytes: int | None
    """The most live bytes up to here, bodies included."""
    execution_bytes: int | None
    io_bytes: int | None
    predicted_bytes: int | None
    """What the formulas give for ``live_bytes``; None where a value of unknown size is alive."""
    predicted_execution_bytes: int | None
    predicted_io_bytes: int | None
    difference: str
    """Empty where measured and predicted bytes are equal, else what sets them apart."""
    path: tuple[tuple[int, str], ...] = ()
    """For a node in a body: from the main graph inwards, the owning node and the body's name."""
    tier: str = ""
    """Whose kernel ran it: own, onnxruntime, reference or function body."""
    scratch_bytes: int | None = None
    """The most that its kernel held beyond inputs and outputs; None where that was not measured."""
    in_place: str = ""
    """The input whose bytes its first output took over."""
    runs: int = 1
    """How often it ran; the time is the sum, the bytes are those of the run with the most."""
    stands_for: tuple[int, ...] = ()
    """Where onnxruntime ran: the author's nodes whose work it does; *index* is the last of them, else -1."""
    mapping: str = ""
    """Where onnxruntime ran: same, fused (it does the work of several), part (of theirs), added or unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorTotal:
    """All nodes of one operator, those in bodies left out: their time is that of the node that owns them."""

    op: str
    count: int
    time_ns: int
    output_bytes: int | None
    peak_live_bytes: int | None
    """The most bytes that were live at one of its nodes."""


@dataclasses.dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is alive at the peak."""

    name: str
    nbytes: int
    account: str
    """``execution``, ``io``, ``initializer`` or ``input``."""
    node_index: int
    """Node that made it; -1 for inputs and initializers."""
    op: str


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What one run of a model cost, node by node. Times are ns, sizes bytes."""

    model_name: str
    dims: Mapping[str, int]
    """Sizes of the symbolic dimensions in this run."""
    generated: tuple[str, ...]
    """Inputs whose values were made up, since no feeds were given."""
    events: tuple[RuntimeEvent, ...]
    allocator_events: tuple[RuntimeEvent, ...]
    nodes: tuple[NodeProfile, ...]
    """One row for each node of the main graph that ran."""
    body_nodes: tuple[NodeProfile, ...]
    """One row for each node of a branch, loop body or function that ran."""
    operators: tuple[OperatorTotal, ...]
    peak_bytes: int | None
    """The highest sum of both accounts at any node; None where bytes are not known."""
    peak_node: int
    """Index of the node of the main graph at which that was; -1 where no node ran."""
    peak_label: str
    live_at_peak: tuple[LiveBuffer, ...]
    """Buffers alive then, largest first."""
    coverage: Coverage
    unknown: tuple[Unknown, ...]
    node_count: int
    """Nodes of the main graph, those included that a failed run did not reach."""
    total_ns: int
    """Time of all nodes of the main graph."""
    error: str = ""
    """What ended the run; empty where it went through."""
    backend: str = "reference"
    """Who ran the model: ``reference``, or ``onnxruntime`` with its version."""
    notes: tuple[str, ...] = ()
    """What has to be said of the figures."""
    measured_runs: tuple[MeasuredRun, ...] = ()
    """Where onnxruntime ran: all runs of the session, the first one without a memory pattern; rows are of the last."""
    trace: Trace | None = None
    """Each request of onnxruntime's allocator, where it was asked for."""

    # tables and exports

    def to_dict(self) -> dict[str, Any]:
        """Plain values throughout, with a ``schema_version``; events as :meth:`RuntimeEvent.as_dict` gives them."""
        return {
            "schema_version": _SCHEMA_VERSION,
            "model": self.model_name,
            "dims": dict(self.dims),
            "backend": self.backend,
            "notes": list(self.notes),
            "generated_inputs": list(self.generated),
            "peak_bytes": self.peak_bytes,
            "peak_node": self.peak_node,
            "total_ns": self.total_ns,
            "error": self.error,
            "coverage": dataclasses.asdict(self.coverage),
            "unknown": [dataclasses.asdict(one) for one in self.unknown],
            "nodes": [_plain(node) for node in self.nodes],
            "body_nodes": [_plain(node) for node in self.body_nodes],
            "operators": [dataclasses.asdict(one) for one in self.operators],
            "live_at_peak": [dataclasses.asdict(one) for one in self.live_at_peak],
            "events": [
                {
                    **event.as_dict(),
                    "io_allocated_bytes": event.io_allocated_bytes,
                    "io_peak_bytes": event.io_peak_bytes,
                    "subgraph_path": [list(place) for place in event.subgraph_path],
                    "error": event.error,
                    "tier": event.tier,
                    "scratch_bytes": event.scratch_bytes,
                    "in_place": event.in_place,
                }
                for event in self.events
            ],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None, *, indent: int | None = 1) -> str:
        """:meth:`to_dict` as JSON text, written to *path* where one is given.

        Numbers that JSON does not have (NaN, infinities, among recorded values) become null.
        """
        text = json.dumps(_finite(self.to_dict()), indent=indent, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_pandas(self) -> pd.DataFrame:
        """One row for each node of the main graph, indexed by node.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                "to_pandas needs pandas, which is not installed: pip install pandas"
            ) from error
        columns = [field.name for field in dataclasses.fields(NodeProfile)]
        rows = [[getattr(node, column) for column in columns] for node in self.nodes]
        frame = pd.DataFrame(rows, columns=columns).set_index("index")
        counted = [column for column in columns if column.endswith("_bytes")]
        absent = [column for column in counted if frame[column].isna().any()]
        predicted = [column for column in counted if column.startswith("predicted_")]
        return frame.astype(dict.fromkeys([*predicted, *absent], "Int64"))

    # views

    def to_text(self, *, times: bool = False, top: int | None = None, sort: Order = "order") -> str:
        """The result as text. Without *times* it is the same for every run of the model at these sizes."""
        from onnx_notebook_profiler.profile.document import profile_document
        from onnx_notebook_profiler.render.text import to_text

        return to_text(profile_document(self, top=top, sort=sort), times=times)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        top: int | None = None,
        sort: Order = "order",
    ) -> str:
        """The result as HTML without scripts: a fragment, or written to *path* a page of its own."""
        from onnx_notebook_profiler.profile.document import profile_document
        from onnx_notebook_profiler.render.html import to_html
        from onnx_notebook_profiler.render.page import to_page

        document = profile_document(self, top=top, sort=sort)
        if path is not None:
            Path(path).write_text(to_page(document), encoding="utf-8")
        return to_html(document)

    def plot(self, ax: Axes | None = None) -> Figure | Axes:
        """Live and peak bytes over the nodes, with matplotlib; the peak is marked and named.

        Returns:
            *ax* where one is given, else a new figure, which a notebook shows.
        """
        from onnx_notebook_profiler.profile.document import memory_chart
        from onnx_notebook_profiler.render.figure import chart_figure

        return chart_figure(memory_chart(self), ax)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return self.to_text()


def _plain(node: NodeProfile) -> dict[str, Any]:
    row = dataclasses.asdict(node)
    row["outputs"] = list(node.outputs)
    row["path"] = [list(place) for place in node.path]
    row["stands_for"] = list(node.stands_for)
    return row


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
