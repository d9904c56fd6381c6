"""A chart in words: the text equivalent beside every picture."""

from __future__ import annotations

from onnx_notebook_profiler.render.clean import printable, shorten
from onnx_notebook_profiler.render.sections import Bar, Bars, Chart, Series
from onnx_notebook_profiler.render.units import format_bytes, format_int

LABEL_LIMIT = 60


def peak_text(chart: Chart) -> str:
    """Where the peak is and how high: "peak 14.5 MiB at node 3 Conv", "" where there is none."""
    value = chart.peak_value
    if chart.peak < 0 or value is None:
        return ""
    label = shorten(chart.peak_label or chart.labels[chart.peak], LABEL_LIMIT)
    return f"peak {format_bytes(value)} at {label}" if label else f"peak {format_bytes(value)}"


def describe_series(series: Series, chart: Chart | None = None) -> str:
    """First, last and highest value of a series, and how many of its values are unknown."""
    known = [value for value in series.values if value is not None]
    name = shorten(series.name, LABEL_LIMIT)
    if not known:
        return f"{name}: no known value"
    top = max(known)
    at = series.values.index(top)
    place = shorten(chart.place(at), LABEL_LIMIT) if chart is not None else f"node {at}"
    text = (
        f"{name}: first {_value(series.values[0])}, last {_value(series.values[-1])}, "
        f"highest {format_bytes(top)} at {place}"
    )
    unknown = len(series.values) - len(known)
    return f"{text}; {format_int(unknown)} of {len(series.values):,} unknown" if unknown else text


def _value(value: int | None) -> str:
    return "unknown" if value is None else format_bytes(value)


def describe_chart(chart: Chart) -> tuple[str, ...]:
    """The chart as short statements: its size and peak, each series, its note."""
    count = len(chart.labels)
    size = f"{format_int(count)} {chart.item}{'s' if count != 1 else ''}"
    peak = peak_text(chart)
    lines = [f"{size}, {peak}" if peak else size]
    lines.extend(describe_series(one, chart) for one in chart.series if one.values)
    if chart.note:
        lines.append(shorten(chart.note, 300))
    return tuple(lines)


def describe_bar(bar: Bar) -> str:
    """A bar in words: its total, and the bytes of each kind where there are several."""
    sums: dict[str, int] = {}
    for segment in bar.segments:
        sums[segment.kind] = sums.get(segment.kind, 0) + segment.nbytes
    parts = [
        format_bytes(nbytes) + ("" if kind == "bytes" else f" {kind}")
        for kind, nbytes in sums.items()
        if nbytes
    ]
    text = f"{shorten(bar.label, LABEL_LIMIT)}: "
    text += parts[0] if len(parts) == 1 else format_bytes(bar.nbytes)
    if len(parts) > 1:
        text += f" ({', '.join(parts)})"
    return f"{text}; {shorten(bar.note, 120)}" if bar.note else text


def describe_bars(bars: Bars) -> tuple[str, ...]:
    """Each bar in words, then the note."""
    lines = [describe_bar(bar) for bar in bars.bars]
    return (*lines, shorten(bars.note, 300)) if bars.note else tuple(lines)


def alt_text(picture: Chart | Bars) -> str:
    """One sentence for readers who do not see the picture."""
    title = shorten(picture.title, LABEL_LIMIT)
    words = describe_bars(picture) if isinstance(picture, Bars) else describe_chart(picture)
    return printable(f"Chart: {title}. {'. '.join(words)}.")
