"""Neutral pieces of a report: documents made of sections, tables and charts.

They know nothing of profiles or models. `visible` is the one place that decides which sections,
headline and columns are shown, so the text and the HTML of a document cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Align = Literal["left", "right"]
Kind = Literal["text", "int", "bytes", "ns", "share"]
Style = Literal["area", "line", "dashed"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `kind` says how its values are written.

    Kinds: text, int, bytes (exact), ns (nanoseconds), share (0.0 to 1.0, shown in percent).
    A `timed` column holds measured times and is left out of text unless times are asked for.
    """

    title: str
    kind: Kind = "text"
    timed: bool = False

    @property
    def align(self) -> Align:
        """Text stands on the left, figures on the right."""
        return "left" if self.kind == "text" else "right"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below columns.

    A cell of None is unknown and shown as "?"; a str in a column of figures is shown as it is.
    `more` counts rows that exist beyond those given; `marked` holds row positions to emphasise.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]
    more: int = 0
    marked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for position, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row needs one cell for each of the {len(self.columns)} columns; "
                    f"row {position} has {len(row)}"
                )
        if self.more < 0:
            raise ValueError(f"more counts left-out rows and cannot be {self.more}")


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a chart: bytes at each node, None where the size is unknown."""

    name: str
    values: tuple[int | None, ...]
    style: Style = "line"

    def __post_init__(self) -> None:
        for position, value in enumerate(self.values):
            if value is not None and value < 0:
                raise ValueError(
                    f"bytes cannot be negative; series {self.name!r} has {value} at {position}"
                )


@dataclass(frozen=True, slots=True)
class Chart:
    """Bytes over the order of the nodes, or over sizes.

    `labels` has one description per node, as each series has one value per node. `peak` is the
    node marked on the first series, -1 for none; `note` says how many values the chart covers.
    `over` is what stands on the axis where that is no node: the labels then are its ticks.
    """

    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    peak: int = -1
    peak_label: str = ""
    note: str = ""
    over: str = ""

    def __post_init__(self) -> None:
        for one in self.series:
            if len(one.values) != len(self.labels):
                raise ValueError(
                    f"series {one.name!r} needs a value for each of the {len(self.labels)} nodes; "
                    f"it has {len(one.values)}"
                )
        if not -1 <= self.peak < len(self.labels):
            raise ValueError(
                f"the peak must be -1 or one of {len(self.labels)} nodes, not {self.peak}"
            )

    @property
    def item(self) -> str:
        """What each value belongs to, in one word."""
        return "size" if self.over else "node"

    @property
    def axis(self) -> str:
        """The words at the axis."""
        return self.over or "node, in the order of execution"

    def place(self, index: int) -> str:
        """Where a value is, in words."""
        return self.labels[index] if self.over else f"node {index}"

    def tick(self, index: int) -> str:
        """A tick of the axis."""
        return self.labels[index] if self.over else f"{index:,}"

    @property
    def peak_value(self) -> int | None:
        """Bytes of the first series at the peak, None where there is no peak or no value."""
        return self.series[0].values[self.peak] if self.peak >= 0 and self.series else None


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: bytes of one kind, and words for a closer look."""

    kind: str
    nbytes: int
    title: str = ""

    def __post_init__(self) -> None:
        if self.nbytes < 0:
            raise ValueError(f"bytes cannot be negative; segment {self.kind!r} has {self.nbytes}")


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of segments, from left to right."""

    label: str
    segments: tuple[Segment, ...]
    note: str = ""
    """Behind the total; empty for nothing."""

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of bytes below one another, on one scale.

    `kinds` are the kinds of segments in the order of the legend: solid ones first. Those in `hollow` are drawn as an
    outline: bytes that nobody uses, or that nobody got.
    """

    title: str
    kinds: tuple[str, ...]
    bars: tuple[Bar, ...]
    hollow: frozenset[str] = frozenset()
    note: str = ""

    def __post_init__(self) -> None:
        for bar in self.bars:
            for segment in bar.segments:
                if segment.kind not in self.kinds:
                    raise ValueError(
                        f"the segment of kind {segment.kind!r} in {bar.label!r} is none of {self.kinds}"
                    )

    @property
    def shown_kinds(self) -> tuple[str, ...]:
        """The kinds that some bar has."""
        found = {segment.kind for bar in self.bars for segment in bar.segments if segment.nbytes}
        return tuple(kind for kind in self.kinds if kind in found)


Block = str | Table | Chart | Bars


@dataclass(frozen=True, slots=True)
class Section:
    """A titled run of paragraphs (str), tables and charts, folded away at first or not."""

    title: str
    body: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report; `timed_headline` replaces `headline` where times are shown."""

    title: str
    headline: str
    sections: tuple[Section, ...]
    timed_headline: str = ""


def visible(document: Document, *, times: bool) -> Document:
    """The document as it is to be shown.

    It has the headline that applies, no timed columns unless `times`, and nothing empty.
    """
    headline = document.timed_headline if times and document.timed_headline else document.headline
    sections = tuple(
        replace(section, body=body)
        for section in document.sections
        if (body := _visible_body(section.body, times))
    )
    return replace(document, headline=headline, sections=sections)


def _visible_body(body: tuple[Block, ...], times: bool) -> tuple[Block, ...]:
    shown = (_without_times(one) if isinstance(one, Table) and not times else one for one in body)
    return tuple(one for one in shown if not isinstance(one, Table) or one.columns)


def _without_times(table: Table) -> Table:
    kept = [position for position, column in enumerate(table.columns) if not column.timed]
    if len(kept) == len(table.columns):
        return table
    return replace(
        table,
        columns=tuple(table.columns[position] for position in kept),
        rows=tuple(tuple(row[position] for position in kept) for row in table.rows),
    )
