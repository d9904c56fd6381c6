"""Neutral sections, tables and charts turned into text, HTML, SVG and figures by pure functions."""

from __future__ import annotations

from onnx_notebook_profiler.render.bars import bars_img, bars_svg
from onnx_notebook_profiler.render.clean import escape, printable, shorten
from onnx_notebook_profiler.render.figure import chart_figure
from onnx_notebook_profiler.render.html import to_html
from onnx_notebook_profiler.render.sections import (
    Align,
    Bar,
    Bars,
    Chart,
    Column,
    Document,
    Kind,
    Section,
    Segment,
    Series,
    Table,
)
from onnx_notebook_profiler.render.svg import chart_img, chart_svg
from onnx_notebook_profiler.render.text import to_text
from onnx_notebook_profiler.render.units import (
    format_bytes,
    format_int,
    format_ns,
    format_share,
)

__all__ = [
    "Align",
    "Bar",
    "Bars",
    "Chart",
    "Column",
    "Document",
    "Kind",
    "Section",
    "Segment",
    "Series",
    "Table",
    "bars_img",
    "bars_svg",
    "chart_figure",
    "chart_img",
    "chart_svg",
    "escape",
    "format_bytes",
    "format_int",
    "format_ns",
    "format_share",
    "printable",
    "shorten",
    "to_html",
    "to_text",
]
