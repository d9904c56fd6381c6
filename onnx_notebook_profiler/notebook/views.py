"""What the memory explorer shows of totals: a table, a chart and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.render.clean import escape, shorten
from onnx_notebook_profiler.render.html import to_html
from onnx_notebook_profiler.render.sections import Chart, Column, Document, Section, Series, Table
from onnx_notebook_profiler.render.svg import chart_img
from onnx_notebook_profiler.render.units import format_bytes, format_int

__all__ = [
    "TABLE_ROWS",
    "chart_html",
    "headline",
    "node_label",
    "paragraph",
    "sizes_text",
    "totals_html",
]

TABLE_ROWS = 30
"""A longer model shows this many rows."""

Labels = Sequence[tuple[str, str]]
Totals = npt.NDArray[np.int64]
Missing = npt.NDArray[np.bool_]


def sizes_text(dims: Mapping[str, int]) -> str:
    """``N=8, seq=128``."""
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def node_label(labels: Labels, index: int) -> str:
    """``node 1 Concat 'join'``."""
    name, op = labels[index]
    return f"node {index} {op}" + (f" {shorten(name, 60)!r}" if name else "")


def headline(
    labels: Labels, totals: Totals, missing: Missing, formulas: Sequence[int | str]
) -> str:
    """The peak in one sentence."""
    if not len(totals):
        return "The model has no nodes."
    at = int(totals.argmax())
    formula = formulas[at]
    given = f" ({shorten(formula, 100)})" if isinstance(formula, str) else ""
    least = "at least " if missing.any() else ""
    text = f"Peak {least}{format_bytes(int(totals[at]))} at {node_label(labels, at)}{given}."
    if missing.any():
        count = int(missing.sum())
        text += (
            f" {format_int(count)} of {format_int(len(totals))} totals leave out a value of unknown "
            f"size, or what a body holds, and are shown with ≥."
        )
    return text


def totals_html(labels: Labels, totals: Totals, missing: Missing) -> str:
    """The table of totals in the order of the nodes; of a long model the largest ones."""
    count = len(totals)
    rows: Sequence[int] = range(count)
    title = f"All {format_int(count)} nodes, in order"
    if count > TABLE_ROWS:
        rows = sorted(np.argsort(-totals, kind="stable")[:TABLE_ROWS].tolist())
        title = (
            f"{TABLE_ROWS} of {format_int(count)} nodes, those with the largest totals, in order"
        )
    peak = int(totals.argmax()) if count else -1
    highest = int(totals[peak]) if count else 0
    cells = []
    for index in rows:
        total = int(totals[index])
        shown = f"≥ {format_int(total)}" if missing[index] else total
        name, op = labels[index]
        cells.append((index, op, name, shown, total / highest if highest else None))
    columns = (
        Column("node", "int"),
        Column("op"),
        Column("name"),
        Column("total", "bytes"),
        Column("of the peak", "share"),
    )
    marked = frozenset(at for at, index in enumerate(rows) if index == peak)
    table = Table(columns, tuple(cells), marked=marked)
    return to_html(Document("Total bytes at each node", "", (Section(title, (table,)),)))


def chart_html(labels: Labels, totals: Totals, missing: Missing, name: str) -> str:
    """The chart of all totals, as an image."""
    if not len(totals):
        return ""
    peak = int(totals.argmax())
    left_out = int(missing.sum())
    note = f"{format_int(len(totals))} nodes"
    if left_out:
        note += (
            f"; {format_int(left_out)} of them leave something out and are at least what is drawn"
        )
    chart = Chart(
        title=f"Total bytes at each node of {name}",
        labels=tuple(f"{index} {op} {name}".rstrip() for index, (name, op) in enumerate(labels)),
        series=(Series("at least" if left_out else "total", tuple(totals.tolist()), "area"),),
        peak=peak,
        peak_label=node_label(labels, peak),
        note=note,
    )
    return chart_img(chart)


def paragraph(text: str) -> str:
    """Text for an HTML widget, which screen readers announce when it changes."""
    return f'<p class="mathjax_ignore tex2jax_ignore" role="status" style="margin:4px 0">{escape(text)}</p>'
