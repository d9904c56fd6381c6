"""Collects the runs of a cell and keeps of each kind the one worth showing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from onnx_notebook_profiler.evaluator.observe import RunRecord
from onnx_notebook_profiler.render.units import format_int

__all__ = ["CellRuns", "SessionRuns"]

_Kind = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(slots=True)
class _Alike:
    """Runs of one session on feeds of equal types and shapes, and how they ended."""

    record: RunRecord
    peak: int
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class SessionRuns:
    """The runs of one session: those that differ, the one to show, and what to say of the others."""

    records: tuple[RunRecord, ...]
    """One for each kind of feeds, in the order in which they first came."""
    shown: RunRecord
    """The run that failed, else the one with the highest peak."""
    note: str
    """Empty for a single run."""


class CellRuns:
    """Called with each run that ended."""

    def __init__(self) -> None:
        self._sessions: dict[int, dict[_Kind, _Alike]] = {}

    def __call__(self, record: RunRecord) -> None:
        """Take a run in."""
        # The records keep the evaluators alive, so no identity is given twice.
        kinds = self._sessions.setdefault(id(record.evaluator), {})
        kind = _kind(record)
        peak = max(
            (event.allocated_bytes + event.io_allocated_bytes for event in record.events), default=0
        )
        known = kinds.get(kind)
        if known is None:
            kinds[kind] = _Alike(record, peak)
            return
        known.count += 1
        if peak >= known.peak:
            known.record, known.peak = record, peak

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def sessions(self) -> Iterator[SessionRuns]:
        """Each session, in the order of their first runs."""
        for kinds in self._sessions.values():
            alike = list(kinds.values())
            failed = [one for one in alike if one.record.error is not None]
            shown = failed[-1] if failed else max(reversed(alike), key=lambda one: one.peak)
            yield SessionRuns(
                tuple(one.record for one in alike), shown.record, _note(alike, failed=bool(failed))
            )


def _kind(record: RunRecord) -> _Kind:
    feeds = tuple((name, _signature(value)) for name, value in record.feeds.items())
    return (*feeds, ("", type(record.error).__name__))


def _signature(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_signature, value))
    return getattr(value, "shape", None), str(getattr(value, "dtype", type(value).__name__))


def _note(alike: Iterable[_Alike], *, failed: bool) -> str:
    counts = [one.count for one in alike]
    if sum(counts) == 1:
        return ""
    sizes = (
        "feeds of equal shapes" if len(counts) == 1 else f"{format_int(len(counts))} kinds of feeds"
    )
    choice = "the one that failed" if failed else "the last one with the highest peak"
    return f"{format_int(sum(counts))} runs of this session on {sizes}; shown is {choice}"
