"""A document as plain text: aligned, deterministic, complete."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from onnx_notebook_profiler.render.cells import (
    HEADING_LIMIT,
    PARAGRAPH_LIMIT,
    cell_text,
    header_text,
    more_text,
)
from onnx_notebook_profiler.render.clean import display_width, shorten
from onnx_notebook_profiler.render.describe import describe_bars, describe_chart
from onnx_notebook_profiler.render.scale import bucket_count, decimate, highest
from onnx_notebook_profiler.render.sections import (
    Align,
    Bar,
    Bars,
    Block,
    Chart,
    Document,
    Table,
    visible,
)
from onnx_notebook_profiler.render.units import format_bytes, format_int

TEXT_WIDTH = 100
SPARK_WIDTH = 60
FOLDED_ROWS = 10
"""Rows of a table in a folded section."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_UNKNOWN_BLOCK = "·"
_MARKS = "█▒░?"


def to_text(document: Document, *, times: bool = False) -> str:
    """The document as text, without measured times unless `times`.

    The same document gives the same text; no line ends in spaces.
    """
    shown = visible(document, times=times)
    lines = [*_heading(shown.title, "="), *_paragraph(shown.headline)]
    for section in shown.sections:
        lines += ["", *_heading(section.title, "-")]
        for position, block in enumerate(section.body):
            if position:
                lines.append("")
            lines.extend(_block(_beginning(block) if section.folded else block))
    return "\n".join(line.rstrip() for line in lines)


def _beginning(block: Block) -> Block:
    """What text shows of a block that HTML folds away: of a table its first rows, the others counted."""
    if not isinstance(block, Table) or len(block.rows) <= FOLDED_ROWS:
        return block
    marked = frozenset(position for position in block.marked if position < FOLDED_ROWS)
    rows, more = block.rows[:FOLDED_ROWS], block.more + len(block.rows) - FOLDED_ROWS
    return Table(block.columns, rows, more, marked)


def _heading(title: str, rule: str) -> list[str]:
    text = shorten(title, HEADING_LIMIT)
    return [text, rule * display_width(text)]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(
        shorten(text, PARAGRAPH_LIMIT), TEXT_WIDTH, break_long_words=False, break_on_hyphens=False
    )


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Chart):
        yield from _chart(block)
    elif isinstance(block, Bars):
        yield from _bars(block)
    else:
        yield from _paragraph(block)


def _table(table: Table) -> Iterator[str]:
    headers = [header_text(column) for column in table.columns]
    rows = [
        [cell_text(value, column.kind) for value, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    widths = [max(map(display_width, column)) for column in zip(headers, *rows, strict=True)]
    aligns = [column.align for column in table.columns]
    gutter = "  " if table.marked else ""
    yield gutter + _line(headers, widths, aligns)
    yield gutter + "  ".join("-" * width for width in widths)
    for position, row in enumerate(rows):
        mark = "> " if position in table.marked else gutter
        yield mark + _line(row, widths, aligns)
    if not rows and not table.more:
        yield gutter + "(none)"
    if table.more:
        yield gutter + more_text(table.more)


def _line(cells: list[str], widths: list[int], aligns: list[Align]) -> str:
    return "  ".join(map(_pad, cells, widths, aligns))


def _pad(text: str, width: int, align: Align) -> str:
    space = " " * (width - display_width(text))
    return space + text if align == "right" else text + space


def _chart(chart: Chart) -> Iterator[str]:
    yield shorten(chart.title, HEADING_LIMIT)
    count = len(chart.labels)
    top = highest([one.values for one in chart.series])
    if count and chart.series:
        names = [shorten(one.name, 30) for one in chart.series]
        width = max(map(display_width, names))
        for name, one in zip(names, chart.series, strict=True):
            yield f"  {_pad(name, width, 'left')}  {sparkline(one.values, top)}"
        yield f"  {_spark_legend(count, top, chart.item)}"
    for line in describe_chart(chart):
        yield f"  {line}"


def _bars(bars: Bars) -> Iterator[str]:
    yield shorten(bars.title, HEADING_LIMIT)
    greatest = max((bar.nbytes for bar in bars.bars), default=0)
    if greatest:
        for bar in bars.bars:
            yield f"  {_bar(bars, bar, greatest)}"
        marks = (
            f"{_MARKS[bars.kinds.index(kind) % len(_MARKS)]} {kind}" for kind in bars.shown_kinds
        )
        legend = f"{', '.join(marks)}; " if len(bars.shown_kinds) > 1 else ""
        yield f"  {legend}full width is {format_bytes(greatest)}"
    for line in describe_bars(bars):
        yield f"  {line}"


def _bar(bars: Bars, bar: Bar, greatest: int) -> str:
    """Segments as characters; one that is there has at least one, as far as there is room."""
    text = ""
    at = 0
    for segment in bar.segments:
        at += segment.nbytes
        end = round(SPARK_WIDTH * at / greatest)
        if segment.nbytes and end <= len(text):
            end = len(text) + 1
        mark = _MARKS[bars.kinds.index(segment.kind) % len(_MARKS)]
        text += mark * (min(end, SPARK_WIDTH) - len(text))
    return text


def _spark_legend(count: int, top: int, item: str) -> str:
    blocks = bucket_count(count, SPARK_WIDTH)
    scale = f"full height is {format_bytes(top)}"
    if blocks == count:
        return f"one block per {item}; {scale}"
    each = -(-count // blocks)
    return f"each block is the highest of up to {format_int(each)} {item}s; {scale}"


def sparkline(values: tuple[int | None, ...], top: int) -> str:
    """Values as at most 60 block characters, the full block standing for `top`.

    A block stands for the highest value it covers; a middle dot stands for unknown values.
    """
    return "".join(_spark(value, top) for value in decimate(values, SPARK_WIDTH))


def _spark(value: int | None, top: int) -> str:
    if value is None:
        return _UNKNOWN_BLOCK
    return _BLOCKS[min(value * len(_BLOCKS) // max(top, 1), len(_BLOCKS) - 1)]
