"""Sliders over the symbolic dimensions of a model, with the memory of each node."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import ipywidgets as widgets
import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.model import ModelSource, load_model, shorten
from onnx_notebook_profiler.notebook.controls import LARGEST_SIZE, DimensionControl
from onnx_notebook_profiler.notebook.views import (
    chart_html,
    headline,
    node_label,
    paragraph,
    sizes_text,
    totals_html,
)
from onnx_notebook_profiler.render.units import format_bytes
from onnx_notebook_profiler.symbolic.context import Account, ComputeContext
from onnx_notebook_profiler.symbolic.node_texts import NODE_MEMORY_TOTAL_BYTES_KEY

__all__ = ["MemoryExplorer", "explore"]

Start = int | tuple[int, int]
"""Where a slider starts, or its range from lowest to highest size."""

_HIGHEST = 4096
_START = 32


def explore(
    model: ModelSource | ReferenceEvaluator,
    sizes: Mapping[str, Start] | None = None,
    /,
    *,
    account: Account = "model",
    **dims: Start,
) -> MemoryExplorer:
    """Sliders over the symbolic dimensions of *model*; the memory of each node follows every move.

    Args:
        model: What :class:`~onnx_notebook_profiler.ReferenceEvaluator` takes, or such an evaluator.
        sizes: A size or range for dimensions whose names are no identifiers; see *dims*.
        account: What is counted, see :class:`~onnx_notebook_profiler.ComputeContext`.
        dims: For a dimension the size at which its slider starts, or a pair, the slider's range. A
            dimension that is not named starts at 1 where its name holds "batch" and at 32 elsewhere.

    Raises:
        ModelError: The model cannot be read or is not well formed.
        SizeError: A dimension is unknown, or a size is no integer of 0 and more.
    """
    return MemoryExplorer(model, {**(sizes or {}), **dims}, account=account)


class MemoryExplorer(widgets.VBox):
    """What :func:`explore` returns: a widget that also has its sizes and results as values.

    Shapes and formulas are computed once; a move evaluates the formulas alone. What goes wrong there,
    such as a total beyond 64 bits, stands in the headline.
    """

    def __init__(
        self,
        model: ModelSource | ReferenceEvaluator,
        dims: Mapping[str, Start] | None = None,
        *,
        account: Account = "model",
    ) -> None:
        loaded = model.model if isinstance(model, ReferenceEvaluator) else load_model(model)
        self._context = ComputeContext(account=account)
        self._context.compute(loaded.proto)
        self._name = loaded.name
        self._labels = self._context.labels
        self._formulas = [row[NODE_MEMORY_TOTAL_BYTES_KEY] for row in self._context.memory]
        self._controls = self._make_controls(dims or {})
        self._totals = np.zeros(0, np.int64)
        self._error = ""
        self._headline = _html("onp-headline")
        self._chart = _html("onp-chart")
        self._table = _html("onp-totals")
        controls = list(self._controls.values())
        if not controls:
            plain = paragraph(f"{self._name} has no symbolic dimensions: every size is fixed.")
            controls = [_html("onp-fixed", plain)]
        super().__init__([*controls, self._headline, self._chart, self._table])
        self.add_class("onp-explorer")
        self._update()

    def _make_controls(self, dims: Mapping[str, Start]) -> dict[str, DimensionControl]:
        names = self._context.dims
        self._refuse_unknown(dims)
        columns = min(24, max(map(len, names), default=0))
        controls = {}
        for name in names:
            size, lowest, highest = _start(name, dims.get(name))
            author = self._context.author_dims.get(name)
            note = (
                ""
                if author is None
                else f"the model calls it {shorten(author)}"
                if author
                else "the model gives it no name"
            )
            controls[name] = DimensionControl(
                name, size, lowest, highest, note, self._update, columns
            )
        return controls

    def _refuse_unknown(self, dims: Mapping[str, Any]) -> None:
        unknown = [shorten(str(name)) for name in dims if name not in self._context.dims]
        if unknown:
            raise SizeError(
                f"the model has no symbolic dimension {', '.join(unknown)}: it has "
                f"{', '.join(self._context.dims) or 'none'}"
            )

    def _update(self) -> None:
        """Evaluate at the sizes that the controls show, and show the result."""
        try:
            self._totals = self._context.highest(self.dims)
            self._error = ""
        except SizeError as error:
            self._error = str(error)
            self._headline.value = paragraph(f"No totals at these sizes: {error}")
            self._chart.value = self._table.value = ""
            return
        self._missing = missing = self._context.unknown_nodes(self.dims)
        text = headline(self._labels, self._totals, missing, self._formulas)
        self._headline.value = paragraph(text)
        self._chart.value = chart_html(self._labels, self._totals, missing, self._name)
        self._table.value = totals_html(self._labels, self._totals, missing)

    @property
    def context(self) -> ComputeContext:
        """The formulas behind the totals."""
        return self._context

    @property
    def dims(self) -> dict[str, int]:
        """The sizes on show. Assigning a mapping moves the sliders that it names.

        Raises:
            SizeError: On assignment, a dimension is unknown or a size is no integer of 0 and more.
        """
        return {name: control.size for name, control in self._controls.items()}

    @dims.setter
    def dims(self, sizes: Mapping[str, int]) -> None:
        self._refuse_unknown(sizes)
        checked = {name: _size(name, size) for name, size in sizes.items()}
        for name, size in checked.items():
            self._controls[name].size = size
        self._update()

    @property
    def totals(self) -> npt.NDArray[np.int64]:
        """int64 [nodes]: the most bytes alive while each node runs, see :meth:`ComputeContext.highest`.

        Raises:
            SizeError: There are none at these sizes.
        """
        self._refuse_error()
        return self._totals.copy()

    @property
    def peak(self) -> int:
        """The largest total in bytes, 0 for a model without nodes.

        Raises:
            SizeError: There are no totals at these sizes.
        """
        self._refuse_error()
        return int(self._totals.max(initial=0))

    @property
    def peak_node(self) -> int:
        """Index of the first node with the largest total, -1 for a model without nodes.

        Raises:
            SizeError: There are no totals at these sizes.
        """
        self._refuse_error()
        return int(self._totals.argmax()) if len(self._totals) else -1

    def _refuse_error(self) -> None:
        if self._error:
            raise SizeError(self._error)

    def __repr__(self) -> str:
        sizes = sizes_text(self.dims) or "no symbolic dimensions"
        if self._error:
            return f"MemoryExplorer({shorten(self._name)}, {sizes}: no totals)"
        if not len(self._totals):
            return f"MemoryExplorer({shorten(self._name)}, {sizes}: no nodes)"
        where = node_label(self._labels, self.peak_node)
        least = "at least " if self._missing.any() else ""
        peak = f"peak {least}{format_bytes(self.peak)} at {where}"
        return f"MemoryExplorer({shorten(self._name)}, {sizes}: {peak})"


def _html(name: str, value: str = "") -> widgets.HTML:
    widget = widgets.HTML(value, layout={"width": "100%"})
    widget.add_class(name)
    return widget


def _start(name: str, given: Start | None) -> tuple[int, int, int]:
    """Size, lowest and highest size of a slider."""
    usual = 1 if "batch" in name.lower() else _START
    if given is None:
        return usual, 1, _HIGHEST
    if not isinstance(given, tuple | list):
        return _size(name, given), 1, _HIGHEST
    if len(given) != 2:
        raise SizeError(
            f"dimension {shorten(name)} takes a size or a pair (lowest, highest), not {given!r}"
        )
    lowest, highest = (_size(name, one) for one in given)
    if lowest > highest:
        raise SizeError(
            f"dimension {shorten(name)} has the range {given!r}: the lowest size comes first"
        )
    return min(max(usual, lowest), highest), lowest, highest


def _size(name: str, value: Any) -> int:
    if not isinstance(value, bool | np.bool_):
        try:
            size = operator.index(value)
        except TypeError:
            size = -1
        if 0 <= size <= LARGEST_SIZE:
            return size
    raise SizeError(
        f"dimension {shorten(name)} takes an integer from 0 to {LARGEST_SIZE}, not {value!r}"
    )
