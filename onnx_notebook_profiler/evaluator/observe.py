"""Lets somebody watch every run of every evaluator for a while, such as the cell magic."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onnx_notebook_profiler.events import RuntimeEvent

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator

__all__ = ["Observer", "RunRecord", "current_observers", "observing"]


@dataclasses.dataclass(frozen=True, slots=True)
class RunRecord:
    """One run, as an observer gets it; a failed run has its events up to the failing node and its error."""

    evaluator: ReferenceEvaluator
    feeds: Mapping[str, Any]
    events: tuple[RuntimeEvent, ...]
    allocator_events: tuple[RuntimeEvent, ...]
    error: BaseException | None
    duration_ns: int
    baseline_bytes: int = 0
    """What the session's allocators held for others when the run began."""


@dataclasses.dataclass(frozen=True, slots=True)
class Observer:
    """Who watches: *finished* gets each run once it ends, *progress* (nodes done, nodes in all) while it runs."""

    finished: Callable[[RunRecord], None]
    progress: Callable[[int, int], None] | None = None


_observers: list[Observer] = []


def current_observers() -> tuple[Observer, ...]:
    """Everybody who watches now, the outermost first."""
    return tuple(_observers)


@contextlib.contextmanager
def observing(
    finished: Callable[[RunRecord], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[None]:
    """While this is active, every run of every ReferenceEvaluator is recorded and handed to *finished*.

    A session that has no events or no allocator gets them for the run; its own settings stay as they are.
    """
    observer = Observer(finished, progress)
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
