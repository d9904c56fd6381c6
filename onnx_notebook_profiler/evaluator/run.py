"""What all graphs of one run share: accounts, log and limit; values with the buffers that account for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from onnx_notebook_profiler.allocators import Allocator, Buffer
from onnx_notebook_profiler.evaluator.limits import Limit
from onnx_notebook_profiler.evaluator.scratch import Meter
from onnx_notebook_profiler.events.rows import Scope

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.frame import Frame
    from onnx_notebook_profiler.evaluator.program import Op

__all__ = ["Holding", "Run", "Unaccounted", "free_all"]

Holding = tuple[Any, Buffer | None]
"""A value and the buffer that accounts for its bytes; None where it has none."""


class Unaccounted:
    """Stands where a run has no allocator: grants everything, counts nothing."""

    total_allocated_size = 0
    peak_allocated_size = 0
    allocated_count = 0

    def allocate(self, nbytes: int, owner: str = "") -> Buffer:
        """Grant."""
        return Buffer(self, nbytes, 0, owner)

    def free(self, buffer: Buffer) -> None:
        """Take back."""
        buffer.holder = None

    def reset_peak(self) -> None:
        """Nothing was counted."""


@dataclasses.dataclass(slots=True)
class Run:
    """What all frames of one run share."""

    execution: Allocator
    io: Allocator
    """Where the execution allocator serves both accounts, events show 0 for io: the sum must not count twice."""
    accounted: bool
    """False where neither account has an allocator: nothing is asked for and freed then."""
    append: Callable[[tuple[Any, ...]], None] | None
    """Writes a row to the log; None where events are off."""
    release: bool
    """False keeps every value to the end of the run."""
    limit: Limit
    observe_node: Callable[[Op, Scope], None] | None = None
    """Called after each node, for progress and verbose output."""
    meter: Meter | None = None
    """Measures scratch; None where nobody asked."""
    copy_weights: bool = False
    merges: bool = False
    """True where one row may stand for all events of a node: nobody looks before the run is over."""
    frames: list[Frame] = dataclasses.field(default_factory=list)
    """The graphs that are running, the outermost first."""

    shown_io: Allocator = dataclasses.field(init=False)
    """The io account as events show it."""
    reserve: Callable[[int, str], Buffer] = dataclasses.field(init=False)
    """Charges the execution account for what is loaded already."""

    def __post_init__(self) -> None:
        self.shown_io = Unaccounted() if self.io is self.execution else self.io
        self.reserve = getattr(self.execution, "reserve", self.execution.allocate)

    def held(self) -> int:
        """Bytes that the run holds: as its accounts say, or without any by counting."""
        if self.accounted:
            return self.execution.total_allocated_size + self.shown_io.total_allocated_size
        return sum(frame.held() for frame in self.frames)

    def memory(self) -> tuple[int, int, int, int]:
        """Live and peak bytes of both accounts, as events show them."""
        execution, io = self.execution, self.shown_io
        return (
            execution.total_allocated_size,
            execution.peak_allocated_size,
            io.total_allocated_size,
            io.peak_allocated_size,
        )


def free_all(buffers: Iterable[Buffer | None]) -> None:
    """Give *buffers* back to the allocators that granted them."""
    for buffer in buffers:
        if buffer is not None:
            buffer.give_back()
