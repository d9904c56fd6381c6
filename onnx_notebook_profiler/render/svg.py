"""A chart as SVG text: no scripts, no ids, no dates, the same input giving the same picture.

The curves live in a nested picture stretched to the plot, so a chart of `width=None` fills the
width it is given without scaling its lettering. Tick labels stand on their grid lines, left of
the curves.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from onnx_notebook_profiler.render.clean import escape, shorten
from onnx_notebook_profiler.render.describe import alt_text, peak_text
from onnx_notebook_profiler.render.lettering import anchored, fitted, text_width
from onnx_notebook_profiler.render.palette import AREA_OPACITY, DARK, LIGHT, Stroke, Theme, strokes
from onnx_notebook_profiler.render.scale import (
    HEADROOM,
    bucket_bounds,
    bucket_count,
    byte_ticks,
    decimate,
    highest,
    index_ticks,
)
from onnx_notebook_profiler.render.sections import Chart
from onnx_notebook_profiler.render.units import format_bytes

ThemeName = Literal["auto", "light", "dark"]

WIDTH = 760
HEIGHT = 280
CURVE_POINTS = 760
"""A fluid chart keeps this many values of each curve; a fixed one as many as it has pixels."""

_FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_SIZE = 11
_INSET = 10
_RIGHT = 18
_ROW = 18
_UNITS = 1000

# A fluid chart has gutters in percent, and its peak is labelled in three lengths, each made to
# fit the least width at which it is shown.
_LEFT_PERCENT, _RIGHT_PERCENT = 8, 3
_NARROW, _MEDIUM, _WIDE = 330, 560, 860
_RULES = (
    ".onp-s,.onp-m{display:none}"
    f"@media(max-width:{_WIDE - 1}px){{.onp-l{{display:none}}.onp-m{{display:inline}}}}"
    f"@media(max-width:{_MEDIUM - 1}px){{.onp-m{{display:none}}.onp-s{{display:inline}}}}"
)
_INLINE = {
    "paper": "--jp-layout-color0",
    "ink": "--jp-content-font-color1",
    "muted": "--jp-content-font-color2",
    "grid": "--jp-border-color2",
}


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where everything stands, in pixels; the plot begins `top` below the upper edge."""

    width: int | None
    height: int
    gutter: int
    top: int
    plot_height: int
    ceiling: float
    paint: _Paint

    @property
    def plot_x(self) -> str:
        """Where the plot begins."""
        return f"{_LEFT_PERCENT}%" if self.width is None else str(self.gutter)

    @property
    def plot_width(self) -> str:
        """How wide the plot is."""
        if self.width is None:
            return f"{100 - _LEFT_PERCENT - _RIGHT_PERCENT}%"
        return str(self.width - self.gutter - _RIGHT)

    @property
    def points(self) -> int:
        """The most values of a curve that can be told apart."""
        return CURVE_POINTS if self.width is None else max(self.width - self.gutter - _RIGHT, 40)

    @property
    def ticks(self) -> tuple[tuple[int, str], ...]:
        """Ticks of the value axis, as many as the height has room for."""
        return byte_ticks(int(self.ceiling), min(max(self.plot_height // 32, 1), 5))

    def gutters(self, width: int) -> tuple[float, float]:
        """Pixels left and right of the plot in a picture `width` wide."""
        if self.width is None:
            return width * _LEFT_PERCENT / 100, width * _RIGHT_PERCENT / 100
        return self.gutter, _RIGHT

    def y(self, value: float) -> float:
        """Pixels below the top of the plot."""
        return round(self.plot_height * (1 - value / self.ceiling), 1)


@dataclass(frozen=True, slots=True)
class _Paint:
    """Writes a colour of the theme as a literal, followed by a variable where one may exist."""

    theme: Theme
    variables: dict[str, str]

    def __call__(self, attribute: str, role: str) -> str:
        literal: str = getattr(self.theme, role)
        variable = self.variables.get(role)
        style = f' style="{attribute}:var({variable},{literal})"' if variable else ""
        return f'{attribute}="{literal}"{style}'


def chart_svg(
    chart: Chart,
    *,
    width: int | None = WIDTH,
    height: int = HEIGHT,
    theme: ThemeName = "auto",
    titles: bool = False,
    standalone: bool = False,
) -> str:
    """The chart as one `<svg>` element of `width` x `height` pixels.

    A width of None fills the width at hand. The theme "auto" follows the page's `--jp-*` colours
    and is light where there are none. `titles` adds a hover text to every point, for inline use;
    `standalone` the rules that choose a label by width, for a file or an `<img>`.
    """
    paint = _Paint(DARK if theme == "dark" else LIGHT, _INLINE if theme == "auto" else {})
    legend, rows = _legend(chart, width or _NARROW, paint)
    head = 26 if width else 6
    top = head + _ROW * rows + (26 if peak_text(chart) else 12)
    ceiling = max(highest([one.values for one in chart.series]), 1) * HEADROOM
    labels = [label for _, label in byte_ticks(int(ceiling))]
    gutter = _INSET + 8 + max(round(text_width(label, _SIZE)) for label in labels)
    frame = _Frame(width, height, gutter, top, max(height - top - 38, 20), ceiling, paint)
    parts = [
        _opening(chart, frame),
        f"<style>{_RULES}</style>" if standalone and width is None else "",
        f'<rect width="100%" height="100%" rx="4" {paint("fill", "paper")}/>',
        _title(chart, width, paint) if width else "",
        f'<svg y="{head}" height="{_ROW * rows}" overflow="visible">{legend}</svg>',
        _grid(frame),
        _plot_opening(frame),
        _curves(chart, frame),
        "</svg>",
        _value_labels(frame),
        _plot_opening(frame),
        _node_axis(frame, chart),
        _peak(chart, frame, standalone),
        _hover(chart, frame) if titles else "",
        "</svg></svg>",
    ]
    return "".join(parts)


def chart_img(chart: Chart, *, height: int = HEIGHT) -> str:
    """The chart as an `<img>` that holds its own picture and fills the width at hand.

    The alternative text says in words what the picture shows.
    """
    picture = chart_svg(chart, width=None, height=height, standalone=True)
    data = base64.b64encode(picture.encode("utf-8")).decode("ascii")
    return (
        f'<img class="onp-chart-image" alt="{escape(alt_text(chart))}" '
        f'width="{WIDTH}" height="{height}" '
        f'style="display:block;width:100%;max-width:1100px;height:{height}px;margin:4px 0" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def _opening(chart: Chart, frame: _Frame) -> str:
    width = "100%" if frame.width is None else str(frame.width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="onp-chart-svg" role="img" '
        f'aria-label="{escape(alt_text(chart))}" width="{width}" height="{frame.height}" '
        f'font-family="{_FONT}" font-size="{_SIZE}">'
    )


def _title(chart: Chart, width: int, paint: _Paint) -> str:
    title = fitted(chart.title, width - 2 * _INSET, 13)
    return (
        f'<text x="{_INSET}" y="19" font-size="13" font-weight="600" {paint("fill", "ink")}>'
        f"{escape(title)}</text>"
    )


def _legend(chart: Chart, width: int, paint: _Paint) -> tuple[str, int]:
    """The legend's marks, broken into rows no wider than `width`, and the number of rows."""
    parts: list[str] = []
    x, row = _INSET, 0
    for one, stroke in zip(chart.series, strokes(chart.series), strict=True):
        name = fitted(one.name, width - 60, _SIZE)
        wide = 27 + round(text_width(name, _SIZE))
        if x > _INSET and x + wide > width:
            x, row = _INSET, row + 1
        y = _ROW * row + _ROW // 2
        parts.append(_swatch(stroke, x, y))
        parts.append(f'<text x="{x + 27}" y="{y + 4}" {paint("fill", "ink")}>{escape(name)}</text>')
        x += wide + 12
    return "".join(parts), row + 1 if chart.series else 0


def _swatch(stroke: Stroke, x: int, y: int) -> str:
    if not stroke.filled:
        return f'<path d="M{x} {y}h22" fill="none" {_stroke(stroke, 1.8)}/>'
    return (
        f'<rect x="{x}" y="{y - 5}" width="22" height="10" {_fill(stroke)}/>'
        f'<path d="M{x} {y - 5}h22" fill="none" {_stroke(stroke, 1)}/>'
    )


def _fill(stroke: Stroke) -> str:
    return f'fill="{stroke.color}" fill-opacity="{AREA_OPACITY}"'


def _stroke(stroke: Stroke, width: float) -> str:
    dash = f' stroke-dasharray="{" ".join(map(str, stroke.dash))}"' if stroke.dash else ""
    return f'stroke="{stroke.color}" stroke-width="{width}"{dash}'


def _grid(frame: _Frame) -> str:
    """A line over the whole width for each tick."""
    end = "98%" if frame.width is None else str(frame.width - _INSET)
    return "".join(
        f'<line x1="{_INSET}" x2="{end}" y1="{frame.top + frame.y(value):.1f}" '
        f'y2="{frame.top + frame.y(value):.1f}" '
        f"{frame.paint('stroke', 'grid' if value else 'muted')}/>"
        for value, _ in frame.ticks
    )


def _value_labels(frame: _Frame) -> str:
    """The ticks' labels on their lines, with a rim that keeps them legible over a curve."""
    rim = f'stroke-width="3" paint-order="stroke" {frame.paint("stroke", "paper")}'
    labels = "".join(
        f'<text x="{_INSET}" y="{frame.top + frame.y(value) - 4:.1f}" '
        f"{frame.paint('fill', 'muted')}>{label}</text>"
        for value, label in frame.ticks
    )
    return f"<g {rim}>{labels}</g>"


def _plot_opening(frame: _Frame) -> str:
    return (
        f'<svg x="{frame.plot_x}" y="{frame.top}" width="{frame.plot_width}" '
        f'height="{frame.plot_height}" overflow="visible">'
    )


def _node_axis(frame: _Frame, chart: Chart) -> str:
    count = len(chart.labels)
    text = frame.paint("fill", "muted")
    parts = [
        f'<text x="{_percent(index, count)}" y="{frame.plot_height + 15}" '
        f'text-anchor="middle" {text}>{escape(shorten(chart.tick(index), 12))}</text>'
        for index in index_ticks(count)
    ]
    caption = escape(shorten(chart.axis, 60)) if count else "no node ran"
    parts.append(
        f'<text x="50%" y="{frame.plot_height + 31}" text-anchor="middle" {text}>{caption}</text>'
    )
    return "".join(parts)


def _percent(index: float, count: int) -> str:
    """The middle of a node's slot, as part of the plot's width."""
    return f"{100 * (index + 0.5) / count:.2f}%"


def _curves(chart: Chart, frame: _Frame) -> str:
    count = len(chart.labels)
    if not count:
        return ""
    buckets = bucket_count(count, frame.points)
    # Many narrow steps need a thin line to be told apart.
    width = 1.8 if buckets <= 120 else 1.2
    paths = "".join(
        _curve(decimate(one.values, frame.points), stroke, frame.ceiling, width)
        for one, stroke in zip(chart.series, strokes(chart.series), strict=True)
    )
    return (
        f'<svg width="100%" height="{frame.plot_height}" viewBox="0 0 {buckets} {_UNITS}" '
        f'preserveAspectRatio="none">{paths}</svg>'
    )


def _curve(values: tuple[int | None, ...], stroke: Stroke, ceiling: float, width: float) -> str:
    runs = _runs([None if value is None else _level(value, ceiling) for value in values])
    line = "".join(f"M{start} {levels[0]}{_steps(levels)}" for start, levels in runs)
    area = "".join(
        f"M{start} {_UNITS}V{levels[0]}{_steps(levels)}V{_UNITS}Z" for start, levels in runs
    )
    fill = f'<path d="{area}" {_fill(stroke)}/>' if stroke.filled else ""
    outline = _stroke(stroke, 1 if stroke.filled else width)
    return f'{fill}<path d="{line}" fill="none" {outline} vector-effect="non-scaling-stroke"/>'


def _level(value: int, ceiling: float) -> int:
    return round(_UNITS * (1 - value / ceiling))


def _runs(levels: list[int | None]) -> list[tuple[int, list[int]]]:
    """The stretches of known levels, each with the position where it starts."""
    runs: list[tuple[int, list[int]]] = []
    previous: int | None = None
    for position, level in enumerate(levels):
        if level is not None:
            if previous is None:
                runs.append((position, []))
            runs[-1][1].append(level)
        previous = level
    return runs


def _steps(levels: list[int]) -> str:
    """One unit to the right for each level, equal neighbours taken in one step."""
    parts: list[str] = []
    width, current = 0, levels[0]
    for level in levels:
        if level != current:
            parts.append(f"h{width}v{level - current}")
            width, current = 0, level
        width += 1
    return "".join(parts) + f"h{width}"


def _peak(chart: Chart, frame: _Frame, standalone: bool) -> str:
    """A dot on the peak, a leader, and a label that keeps within the picture."""
    value, text = chart.peak_value, peak_text(chart)
    if value is None:
        return ""
    x, y = _percent(chart.peak, len(chart.labels)), frame.y(value)
    paint = frame.paint
    dotted = paint("stroke", "muted")
    parts = [
        f'<line x1="{x}" x2="{x}" y1="-11" y2="{y}" stroke-dasharray="1 2" {dotted}/>',
        f'<circle cx="{x}" cy="{y}" r="5" {paint("fill", "paper")}/>',
        f'<circle cx="{x}" cy="{y}" r="3.5" {paint("fill", "ink")}/>',
    ]
    short = ("onp-s", f"peak {format_bytes(value)}", _NARROW)
    if frame.width is not None:
        labels = [("onp-l", text, frame.width)]
    elif standalone:
        labels = [("onp-l", text, _WIDE), ("onp-m", text, _MEDIUM), short]
    else:
        # Within a page no rule could choose between them.
        labels = [short]
    for name, words, width in labels:
        left, right = frame.gutters(width)
        where = (chart.peak + 0.5) / len(chart.labels)
        anchor, label = anchored(
            words, where, width - left - right, left=left - 4, right=right - 4, size=_SIZE
        )
        parts.append(
            f'<text class="{name}" x="{x}" y="-15" text-anchor="{anchor}" font-weight="600" '
            f"{paint('fill', 'ink')}>{escape(label)}</text>"
        )
    return "".join(parts)


def _hover(chart: Chart, frame: _Frame) -> str:
    count = len(chart.labels)
    buckets = bucket_count(count, frame.points)
    parts: list[str] = []
    for bucket, (low, high) in enumerate(bucket_bounds(count, buckets)):
        best = max(range(low, high), key=lambda i: _main_value(chart, i))
        words = [shorten(chart.labels[best], 80)]
        for one in chart.series:
            value = one.values[best]
            words.append(f"{one.name}: {'unknown' if value is None else format_bytes(value)}")
        if high - low > 1:
            words.append(f"the highest of {high - low} {chart.item}s")
        parts.append(
            f'<rect x="{100 * bucket / buckets:.3f}%" width="{100 / buckets:.3f}%" height="100%" '
            f'fill-opacity="0"><title>{escape("; ".join(words))}</title></rect>'
        )
    return "".join(parts)


def _main_value(chart: Chart, index: int) -> int:
    value = chart.series[0].values[index] if chart.series else None
    return -1 if value is None else value
