"""Least `max_mem` at many sizes, and the largest size that works."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.render.sections import Chart, Document, Section, Series

if TYPE_CHECKING:
    from onnx_notebook_profiler.profile.arena_report import ArenaReport

__all__ = ["ArenaSweep", "largest", "sweep"]


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaSweep:
    """Least `max_mem` at sizes of one dimension. Bytes."""

    model_name: str
    dim: str
    sizes: tuple[int, ...]
    first_run: tuple[int, ...]
    """For one run, at each size."""
    all_runs: tuple[int, ...]
    """For all runs, at each size."""

    @property
    def chart(self) -> Chart:
        """Both as curves."""
        highest = max(range(len(self.sizes)), key=lambda at: self.all_runs[at], default=-1)
        return Chart(
            title=f"Least max_mem of {self.model_name} over {self.dim}",
            labels=tuple(f"{size:,}" for size in self.sizes),
            series=(
                Series("all runs", self.all_runs, "area"),
                Series("first run", self.first_run, "line"),
            ),
            peak=highest,
            peak_label=f"{self.dim}={self.sizes[highest]}" if self.sizes else "",
            over=self.dim,
            note=f"{len(self.sizes)} sizes from {self.sizes[0]} to {self.sizes[-1]}"
            if self.sizes
            else "",
        )

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Pairs of size and least `max_mem` for all runs."""
        return iter(zip(self.sizes, self.all_runs, strict=True))

    def _document(self) -> Document:
        section = Section("Least max_mem", (self.chart,))
        return Document(self.model_name, "", (section,))

    def _repr_html_(self) -> str:
        from onnx_notebook_profiler.render.html import to_html

        return to_html(self._document())

    def __repr__(self) -> str:
        from onnx_notebook_profiler.render.text import to_text

        return to_text(self._document())


def sweep(report: ArenaReport, dim: str, low: int, high: int, points: int) -> ArenaSweep:
    """The report's question at sizes of *dim*."""
    if not 0 < low <= high:
        raise SizeError(f"sizes of {dim!r} go from a least to a greatest one, not {low} to {high}")
    if points < 2:
        raise SizeError(f"a sweep has 2 points or more, not {points}")
    _check(report, dim)
    if high - low < points:
        sizes = list(range(low, high + 1))
    else:
        sizes = sorted({round(size) for size in np.geomspace(low, high, points).tolist()})
    asked = [{**report.sizes[0], dim: size} for size in sizes]
    report.source.prepare(asked, pattern=report.pattern)
    found = [report.resized(one) for one in asked]
    return ArenaSweep(
        report.model_name,
        dim,
        tuple(sizes),
        tuple(one.first_run.least for one in found),
        tuple(one.least_max_mem for one in found),
    )


def largest(report: ArenaReport, dim: str, max_mem: int, at_most: int) -> int | None:
    """The largest size that works, found from above: whether a size works can come and go, so nothing is bisected."""
    _check(report, dim)
    low, high = 0, at_most + 1
    while high - low > 1:  # more bytes live than the limit: that only grows with the size
        middle = (low + high) // 2
        fits = not max_mem or _at(report, dim, middle).session.least_bytes <= max_mem
        low, high = (middle, high) if fits else (low, middle)
    for size in range(low, 0, -1):
        if _at(report, dim, size).at(max_mem).works:
            return size
    return None


def _at(report: ArenaReport, dim: str, size: int) -> ArenaReport:
    return report.resized({**report.sizes[0], dim: size})


def _check(report: ArenaReport, dim: str) -> None:
    names = list(report.sizes[0])
    if dim not in names:
        raise SizeError(
            f"the model has no symbolic dimension {dim!r}: it has {', '.join(names) or 'none'}"
        )
