"""What stands in a table's cells and headers, the same for text and HTML."""

from __future__ import annotations

from typing import Any

from onnx_notebook_profiler.render.clean import shorten
from onnx_notebook_profiler.render.sections import Column, Kind
from onnx_notebook_profiler.render.units import format_int, format_ns, format_share

UNKNOWN = "?"
CELL_LIMIT = 48
"""Columns that a cell may take in a view."""

PARAGRAPH_LIMIT = 2000
HEADING_LIMIT = 120


def header_text(column: Column) -> str:
    """The column's title; one of bytes names its unit."""
    title = shorten(column.title, CELL_LIMIT)
    if column.kind != "bytes" or title.lower().endswith(("bytes", "(b)")):
        return title
    return f"{title} (B)"


def cell_text(value: object, kind: Kind) -> str:
    """A value as its column writes it, at most 48 columns wide and printable.

    Bytes are exact with thousands separators, since their unit stands in the header.
    """
    if value is None:
        return UNKNOWN
    if kind == "text" or isinstance(value, str):
        return shorten(str(value), CELL_LIMIT)
    return _figure(value, kind)


def _figure(value: Any, kind: Kind) -> str:
    if kind == "ns":
        return format_ns(value)
    if kind == "share":
        return format_share(value)
    return format_int(value)


def more_text(more: int) -> str:
    """The line that counts rows left out."""
    return f"… and {format_int(more)} more row{'s' if more != 1 else ''}"


def full_text(value: object) -> str:
    """A text cell before it is shortened, "" for other values."""
    return value if isinstance(value, str) else ""
