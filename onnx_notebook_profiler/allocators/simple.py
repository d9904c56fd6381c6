"""A pool that is bounded by the number of live buffers and counts exactly what was asked for."""

from __future__ import annotations

import time

from onnx_notebook_profiler.allocators.protocol import Buffer
from onnx_notebook_profiler.errors import AllocationError, InvalidFreeError, SizeError
from onnx_notebook_profiler.events import EventLog, RuntimeEventAction

__all__ = ["SimpleRawBufferAllocator"]

# Plain integers: a member of an IntEnum is looked up and compared at several times their cost.
_ALLOCATE = int(RuntimeEventAction.ALLOCATE)
_FREE = int(RuntimeEventAction.FREE)
_RESERVE = int(RuntimeEventAction.RESERVE)


class SimpleRawBufferAllocator:
    """At most *capacity* buffers at once, each of any size; no rounding, no header.

    Args:
        capacity: Buffers that may be live at the same time; 0 refuses every request.
        log: Where to write an ``allocate`` (or ``reserve``) and a ``free`` event for each buffer; None writes none.

    The peak lasts until :meth:`reset_peak`, over as many runs as there are.

    Raises:
        SizeError: *capacity* is negative or no integer.
    """

    __slots__ = (
        "allocated_count",
        "capacity",
        "log",
        "number",
        "peak_allocated_size",
        "total_allocated_size",
    )

    def __init__(self, capacity: int, *, log: EventLog | None = None) -> None:
        if type(capacity) is not int or capacity < 0:
            raise SizeError(
                f"capacity is the number of buffers that may be live at once: an integer of 0 or more, "
                f"not {capacity!r}"
            )
        self.capacity = capacity
        self.log = log
        self.total_allocated_size = 0
        self.peak_allocated_size = 0
        self.allocated_count = 0
        self.number = 0
        """Number of the newest buffer."""

    def allocate(self, nbytes: int, owner: str = "", *, action: int = _ALLOCATE) -> Buffer:
        """Grant *nbytes* bytes for the value *owner*; the log calls it *action*.

        Raises:
            AllocationError: All *capacity* buffers are live.
            SizeError: *nbytes* is negative.
        """
        count = self.allocated_count + 1
        if count > self.capacity or nbytes < 0:
            raise self._refusal(nbytes, owner)
        self.allocated_count = count
        self.number = number = self.number + 1
        self.total_allocated_size = live = self.total_allocated_size + nbytes
        if live > self.peak_allocated_size:
            self.peak_allocated_size = live
        buffer = Buffer(self, nbytes, number, owner)
        if self.log is not None:
            self._write(action, buffer)
        return buffer

    def reserve(self, nbytes: int, owner: str = "") -> Buffer:
        """Grant *nbytes* bytes that are accounted for here and stored elsewhere, such as a loaded weight.

        Counts and fails as :meth:`allocate` does; the log calls it ``reserve``.
        """
        return self.allocate(nbytes, owner, action=_RESERVE)

    def free(self, buffer: Buffer) -> None:
        """Take *buffer* back.

        Raises:
            InvalidFreeError: It was freed before, or another allocator granted it.
        """
        if buffer.holder is not self:
            raise InvalidFreeError(
                f"{buffer!r} was freed already: a buffer is freed once"
                if buffer.holder is None
                else f"{buffer!r} belongs to {buffer.holder!r}: free it there, not in {self!r}"
            )
        buffer.holder = None
        self.allocated_count -= 1
        self.total_allocated_size -= buffer.nbytes
        if self.log is not None:
            self._write(_FREE, buffer)

    def reset_peak(self) -> None:
        """Set the peak to what is live now."""
        self.peak_allocated_size = self.total_allocated_size

    def _write(self, action: int, buffer: Buffer) -> None:
        assert self.log is not None
        self.log.append(
            (
                action,
                time.perf_counter_ns(),
                buffer.nbytes,
                buffer.number,
                buffer.owner,
                self.total_allocated_size,
                self.peak_allocated_size,
            )
        )

    def _refusal(self, nbytes: int, owner: str) -> Exception:
        if nbytes < 0:
            return SizeError(f"a buffer of {nbytes} bytes was asked for {owner!r}: 0 is the least")
        return AllocationError(
            f"no room for {owner!r} ({nbytes} bytes): all {self.capacity} buffers are live, "
            f"{self.total_allocated_size} bytes in all. Give SimpleRawBufferAllocator a greater capacity: "
            f"the number of buffers that may be live at once, initializers included"
        )

    def __repr__(self) -> str:
        return (
            f"SimpleRawBufferAllocator(capacity={self.capacity}, live={self.total_allocated_size} bytes "
            f"in {self.allocated_count} buffers, peak={self.peak_allocated_size} bytes)"
        )
