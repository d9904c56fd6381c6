"""Colours and dash patterns shared by every chart.

The series colours are the four of the Okabe-Ito set that keep a contrast of at least 3:1 both on
white and on near-black, so one palette serves light pages, dark pages and paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_notebook_profiler.render.sections import Series

SERIES_COLORS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7")
"""Blue, bluish green, vermillion, reddish purple."""

AREA_OPACITY = 0.35

_LINE_DASHES: tuple[tuple[int, ...], ...] = ((), (10, 3), (8, 3, 2, 3), (12, 3, 2, 3, 2, 3))
_DASHED_DASHES: tuple[tuple[int, ...], ...] = ((5, 4), (2, 3), (6, 3, 1, 3), (1, 4))


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a chart that are not those of its series."""

    paper: str
    ink: str
    muted: str
    grid: str


LIGHT = Theme(paper="#ffffff", ink="#1f2328", muted="#59636e", grid="#d8dee4")
DARK = Theme(paper="#16191d", ink="#e6edf3", muted="#a3acb5", grid="#3a414a")


@dataclass(frozen=True, slots=True)
class Stroke:
    """How one series is drawn: a colour, a dash pattern in pixels, and whether it is filled."""

    color: str
    dash: tuple[int, ...]
    filled: bool


def strokes(series: Sequence[Series]) -> tuple[Stroke, ...]:
    """One stroke for each series; no two of the first few share a colour or a dash pattern."""
    lines = dashed = 0
    chosen: list[Stroke] = []
    for position, one in enumerate(series):
        if one.style == "dashed":
            dash = _DASHED_DASHES[dashed % len(_DASHED_DASHES)]
            dashed += 1
        elif one.style == "line":
            dash = _LINE_DASHES[(lines + 1) % len(_LINE_DASHES)]
            lines += 1
        else:
            dash = ()
        color = SERIES_COLORS[position % len(SERIES_COLORS)]
        chosen.append(Stroke(color, dash, filled=one.style == "area"))
    return tuple(chosen)
