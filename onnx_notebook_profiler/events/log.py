"""The log of a run: rows are appended, events are made on reading, live consumers subscribe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from onnx_notebook_profiler.events.event import RuntimeEvent
from onnx_notebook_profiler.events.rows import count_events, event_of_row, events_of_row

__all__ = ["EventLog"]

Row = tuple[Any, ...]


class EventLog:
    """Events in the order in which they happened.

    Appending costs a tuple: a row becomes a :class:`RuntimeEvent` when somebody reads it. ``append`` is rebound
    while there are subscribers, so that writers pay for them only then.
    """

    __slots__ = ("_rows", "_subscribers", "append", "epoch_ns")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._subscribers: tuple[Callable[[RuntimeEvent], None], ...] = ()
        self.append: Callable[[Row], None] = self._rows.append
        self.epoch_ns = time.time_ns() - time.perf_counter_ns()
        """Distance of the Unix epoch from the zero of the monotonic clock, in ns."""

    def clear(self) -> None:
        """Forget every row; subscribers stay."""
        self._rows.clear()
        self.epoch_ns = time.time_ns() - time.perf_counter_ns()

    def __len__(self) -> int:
        return sum(map(count_events, self._rows))

    def __iter__(self) -> Iterator[RuntimeEvent]:
        for row in tuple(self._rows):
            yield from events_of_row(row, self.epoch_ns)

    def __getitem__(self, index: int) -> RuntimeEvent:
        return self.events()[index]

    @property
    def has_subscribers(self) -> bool:
        """True where somebody sees each event as it happens: rows must not stand for several then."""
        return bool(self._subscribers)

    def events(self) -> list[RuntimeEvent]:
        """All events so far, as a list of their own."""
        return list(self)

    def subscribe(self, callback: Callable[[RuntimeEvent], None]) -> Callable[[], None]:
        """Call *callback* with each event as it is appended; the returned function ends that."""
        self._subscribers = (*self._subscribers, callback)
        self.append = self._append_and_publish

        def unsubscribe() -> None:
            self._subscribers = tuple(one for one in self._subscribers if one is not callback)
            if not self._subscribers:
                self.append = self._rows.append

        return unsubscribe

    def _append_and_publish(self, row: Row) -> None:
        self._rows.append(row)
        event = event_of_row(row, self.epoch_ns)
        for callback in self._subscribers:
            callback(event)

    def __repr__(self) -> str:
        return f"EventLog({len(self)} events)"
