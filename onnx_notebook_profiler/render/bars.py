"""Bars of bytes as SVG text: a region of memory in a row, or a figure in a row.

Like every chart it needs no script, has no ids, and fills the width that it is given without scaling its lettering.
"""

from __future__ import annotations

import base64

from onnx_notebook_profiler.render.clean import escape, shorten
from onnx_notebook_profiler.render.describe import alt_text
from onnx_notebook_profiler.render.lettering import text_width
from onnx_notebook_profiler.render.palette import DARK, LIGHT, SERIES_COLORS, Theme
from onnx_notebook_profiler.render.sections import Bar, Bars, Segment
from onnx_notebook_profiler.render.units import format_bytes

__all__ = ["bars_img", "bars_svg"]

WIDTH = 760
_FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_SIZE = 11
_ROW, _BAR, _LEGEND, _EDGE = 36, 14, 18, 10
_NARROWEST = 330
_THINNEST = 0.12
"""Percent of the width that a segment must have to be drawn; thinner ones are only in the words."""


def bars_svg(bars: Bars, *, dark: bool = False) -> str:
    """The bars as one `<svg>` element that fills the width at hand; segments tell more when hovered over."""
    theme = DARK if dark else LIGHT
    legend, rows = _legend(bars, theme)
    top = _LEGEND * rows + 6
    height = top + _ROW * len(bars.bars) + 6
    greatest = max((bar.nbytes for bar in bars.bars), default=0) or 1
    drawn = "".join(
        _bar(bars, bar, top + _ROW * row, greatest, theme) for row, bar in enumerate(bars.bars)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="onp-bars-svg" role="img" '
        f'aria-label="{escape(alt_text(bars))}" width="100%" height="{height}" '
        f'font-family="{_FONT}" font-size="{_SIZE}">'
        f'<rect width="100%" height="100%" rx="4" fill="{theme.paper}"/>{legend}{drawn}</svg>'
    )


def bars_img(bars: Bars) -> str:
    """The bars as an `<img>` that holds its own picture and says in words what it shows."""
    picture = bars_svg(bars)
    rows = _legend(bars, LIGHT)[1]
    height = _LEGEND * rows + 12 + _ROW * len(bars.bars)
    data = base64.b64encode(picture.encode("utf-8")).decode("ascii")
    return (
        f'<img class="onp-bars-image" alt="{escape(alt_text(bars))}" width="{WIDTH}" height="{height}" '
        f'style="display:block;width:100%;max-width:1100px;height:{height}px;margin:4px 0" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def _legend(bars: Bars, theme: Theme) -> tuple[str, int]:
    """The kinds with their colours, in rows that fit a narrow page; and the number of rows."""
    parts: list[str] = []
    x, row = _EDGE, 0
    kinds = bars.shown_kinds
    for kind in kinds if len(kinds) > 1 else ():
        name = shorten(kind, 40)
        wide = 18 + round(text_width(name, _SIZE))
        if x > _EDGE and x + wide > _NARROWEST:
            x, row = _EDGE, row + 1
        y = _LEGEND * row + 6
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="10" {_look(bars, kind)}/>')
        parts.append(f'<text x="{x + 17}" y="{y + 9}" fill="{theme.ink}">{escape(name)}</text>')
        x += wide + 12
    return "".join(parts), row + 1 if parts else 0


def _look(bars: Bars, kind: str) -> str:
    """How segments of a kind are painted."""
    color = SERIES_COLORS[bars.kinds.index(kind) % len(SERIES_COLORS)]
    if kind in bars.hollow:
        return f'fill="{color}" fill-opacity="0.12" stroke="{color}" stroke-dasharray="3 2"'
    return f'fill="{color}" stroke="{color}"'


def _bar(bars: Bars, bar: Bar, y: int, greatest: int, theme: Theme) -> str:
    """One row: label and total above, segments below."""
    total = format_bytes(bar.nbytes)
    words = f"{total}, {shorten(bar.note, 60)}" if bar.note else total
    parts = [
        f'<text x="{_EDGE}" y="{y + 11}" fill="{theme.ink}">{escape(shorten(bar.label, 48))}</text>',
        f'<text x="97%" y="{y + 11}" text-anchor="end" fill="{theme.muted}">{escape(words)}</text>',
        f'<svg x="1%" y="{y + 15}" width="96%" height="{_BAR + 2}" overflow="visible">',
        f'<line x1="0" x2="100%" y1="{_BAR + 1}" y2="{_BAR + 1}" stroke="{theme.grid}"/>',
    ]
    at = 0
    for segment in bar.segments:
        parts.append(_segment(bars, segment, 100 * at / greatest, 100 * segment.nbytes / greatest))
        at += segment.nbytes
    return "".join(parts) + "</svg>"


def _segment(bars: Bars, segment: Segment, left: float, wide: float) -> str:
    if wide < _THINNEST:
        return ""
    words = f"{segment.kind}: {format_bytes(segment.nbytes)}"
    if segment.title:
        words += f"; {shorten(segment.title, 120)}"
    return (
        f'<rect x="{left:.2f}%" width="{wide:.2f}%" height="{_BAR}" '
        f"{_look(bars, segment.kind)}><title>{escape(words)}</title></rect>"
    )
