"""What the evaluator asks of an allocator.

An allocator *reserves*: it decides whether a request is granted, and keeps the account. The bytes themselves are
numpy's: the evaluator makes an array of exactly the granted size (or adopts one that a kernel made) and lets go of
it when it frees the buffer. So the account is true for any allocator, also for one that imitates another runtime.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from onnx_notebook_profiler.errors import InvalidFreeError

__all__ = ["Allocator", "Buffer"]


class Buffer:
    """A granted request: ``nbytes`` bytes for the value ``owner``; ``number`` counts from 1 in each allocator."""

    __slots__ = ("holder", "nbytes", "number", "owner")

    def __init__(self, holder: Allocator, nbytes: int, number: int, owner: str) -> None:
        self.holder: Allocator | None = holder
        """The allocator that granted it; None once it is freed."""
        self.nbytes = nbytes
        self.number = number
        self.owner = owner

    def give_back(self) -> None:
        """Free it where it was granted.

        Raises:
            InvalidFreeError: It was freed before.
        """
        if self.holder is None:
            raise InvalidFreeError(f"{self!r} was freed already: a buffer is freed once")
        self.holder.free(self)

    def __repr__(self) -> str:
        state = "live" if self.holder is not None else "freed"
        return f"Buffer(#{self.number}, {self.nbytes} bytes, owner {self.owner!r}, {state})"


@runtime_checkable
class Allocator(Protocol):
    """Grants buffers and takes them back; all figures are bytes, or buffers where they say so."""

    @property
    def total_allocated_size(self) -> int:
        """Bytes live now."""

    @property
    def peak_allocated_size(self) -> int:
        """The most bytes that were live at once since the last :meth:`reset_peak`."""

    @property
    def allocated_count(self) -> int:
        """Buffers live now."""

    def allocate(self, nbytes: int, owner: str = "") -> Buffer:
        """Grant *nbytes* bytes, or raise :class:`~onnx_notebook_profiler.errors.AllocationError`."""

    def free(self, buffer: Buffer) -> None:
        """Take *buffer* back; a buffer that is not live here raises InvalidFreeError."""

    def reset_peak(self) -> None:
        """Set the peak to what is live now."""
