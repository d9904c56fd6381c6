"""The same chart with matplotlib, for papers, slides and further work on the axes."""

from __future__ import annotations

import math
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, overload

from onnx_notebook_profiler.render.clean import shorten
from onnx_notebook_profiler.render.describe import peak_text
from onnx_notebook_profiler.render.palette import AREA_OPACITY, Stroke, strokes
from onnx_notebook_profiler.render.scale import HEADROOM, byte_ticks, decimate, highest, index_ticks
from onnx_notebook_profiler.render.sections import Chart, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_POINTS = 2000
"""At most this many steps are drawn of each curve, the maximum of each kept."""


@overload
def chart_figure(chart: Chart, ax: None = None) -> Figure: ...


@overload
def chart_figure(chart: Chart, ax: Axes) -> Axes: ...


@overload
def chart_figure(chart: Chart, ax: Axes | None) -> Figure | Axes: ...


def chart_figure(chart: Chart, ax: Axes | None = None) -> Figure | Axes:
    """The chart as a new `Figure`, or drawn on `ax`, which is then returned.

    No pyplot state is touched, so nothing is shown twice and nothing needs closing; the new
    figure shows itself where it is the value of a cell.
    """
    if ax is not None:
        _draw(chart, ax)
        return ax
    figure = _figure_class()(figsize=(9.0, 3.6), layout="constrained")
    _draw(chart, figure.add_subplot())
    return figure


@cache
def _figure_class() -> type[Figure]:
    """A figure that shows itself: no pyplot manager looks after it."""
    from matplotlib.figure import Figure

    class ChartFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png", dpi=self.dpi)
            return buffer.getvalue()

    return ChartFigure


def _draw(chart: Chart, ax: Axes) -> None:
    count = len(chart.labels)
    ceiling = max(highest([one.values for one in chart.series]), 1) * HEADROOM
    for one, stroke in zip(chart.series, strokes(chart.series), strict=True):
        if count:
            _draw_series(one, stroke, ax)
    ticks = byte_ticks(int(ceiling))
    ax.set_yticks([value for value, _ in ticks], [label for _, label in ticks])
    ax.set_ylim(0, ceiling * (1.08 if peak_text(chart) else 1.0))
    ax.set_xlim(-0.5, max(count, 1) - 0.5)
    ax.grid(axis="y", linewidth=0.6, alpha=0.5)
    ax.set_axisbelow(True)
    ax.set_xlabel(chart.axis, parse_math=False)
    if chart.over:
        places = index_ticks(count)
        ax.set_xticks(places, [shorten(chart.tick(at), 12) for at in places])
    ax.set_title(shorten(chart.title, 80), loc="left", fontsize="medium", parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    if peak_text(chart):
        _draw_peak(chart, ax)
    if count and chart.series:
        legend = ax.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=len(chart.series),
            fontsize="small",
            frameon=False,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


def _draw_series(series: Series, stroke: Stroke, ax: Axes) -> None:
    values = decimate(series.values, CURVE_POINTS)
    heights = [math.nan if value is None else float(value) for value in values]
    count = len(series.values)
    edges = [count * step / len(values) - 0.5 for step in range(len(values) + 1)]
    if stroke.filled:
        ax.stairs(heights, edges, fill=True, color=stroke.color, alpha=AREA_OPACITY, linewidth=0)
    ax.stairs(
        heights,
        edges,
        baseline=None,
        color=stroke.color,
        linewidth=1.0 if stroke.filled or len(values) > 120 else 1.6,
        linestyle=(0, stroke.dash) if stroke.dash else "-",
        # A leading underscore would hide the name from the legend.
        label=f"\N{ZERO WIDTH SPACE}{shorten(series.name, 40)}"
        if series.name.startswith("_")
        else shorten(series.name, 40),
    )


def _draw_peak(chart: Chart, ax: Axes) -> None:
    value = chart.peak_value or 0
    ax.plot([chart.peak], [value], "o", color="black", markersize=5, markeredgecolor="white")
    where = (chart.peak + 0.5) / len(chart.labels)
    anchor = "left" if where < 1 / 3 else "right" if where > 2 / 3 else "center"
    # A letter of this size is about five points wide; the label gets a good half of the plot.
    room = int(0.6 * ax.bbox.width * 72 / ax.figure.dpi / 5)
    ax.annotate(
        shorten(peak_text(chart), max(min(room, 70), 12)),
        (chart.peak, value),
        xytext=(0, 10),
        textcoords="offset points",
        ha=anchor,
        fontsize="small",
        fontweight="bold",
        parse_math=False,
    )
