"""The allocator against the facts of the specification, and as a state machine against a plain model."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from onnx_notebook_profiler.allocators import Allocator, Buffer, SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import (
    AllocationError,
    InvalidFreeError,
    ProfilerError,
    SizeError,
)
from onnx_notebook_profiler.events import EventLog, RuntimeEventAction


def test_fact_24_live_and_peak() -> None:
    allocator = SimpleRawBufferAllocator(8)
    ten, twenty = allocator.allocate(10), allocator.allocate(20)
    assert (allocator.total_allocated_size, allocator.peak_allocated_size) == (30, 30)
    allocator.free(ten)
    assert (allocator.total_allocated_size, allocator.peak_allocated_size) == (20, 30)
    allocator.reset_peak()
    assert (allocator.total_allocated_size, allocator.peak_allocated_size) == (20, 20)
    allocator.allocate(5)
    assert (allocator.total_allocated_size, allocator.peak_allocated_size) == (25, 25)
    assert allocator.allocated_count == 2
    assert twenty.nbytes == 20


def test_fact_25_capacity_counts_buffers_that_are_live_at_once() -> None:
    allocator = SimpleRawBufferAllocator(2)
    first = allocator.allocate(1_000_000_000)
    allocator.allocate(1)
    with pytest.raises(MemoryError):
        allocator.allocate(1)
    allocator.free(first)
    allocator.allocate(1)


def test_fact_26_free_returns_to_zero() -> None:
    allocator = SimpleRawBufferAllocator(1)
    allocator.free(allocator.allocate(64))
    assert (allocator.total_allocated_size, allocator.peak_allocated_size) == (0, 64)
    assert allocator.allocated_count == 0


def test_a_refusal_is_both_ours_and_a_memory_error_and_names_the_value() -> None:
    allocator = SimpleRawBufferAllocator(0)
    with pytest.raises(AllocationError, match=r"'z'.*12 bytes.*all 0 buffers") as caught:
        allocator.allocate(12, "z")
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, ProfilerError)
    assert (allocator.total_allocated_size, allocator.allocated_count) == (0, 0)
    assert allocator.peak_allocated_size == 0


def test_reserve_counts_as_a_buffer() -> None:
    allocator = SimpleRawBufferAllocator(1)
    allocator.reserve(7, "w")
    assert (allocator.total_allocated_size, allocator.allocated_count) == (7, 1)
    with pytest.raises(AllocationError):
        allocator.reserve(1)


@pytest.mark.parametrize("release", ["free", "give_back"])
def test_double_frees_are_errors_and_change_nothing(release: Any) -> None:
    allocator = SimpleRawBufferAllocator(4)
    kept, freed = allocator.allocate(3), allocator.allocate(5, "gone")
    allocator.free(freed)
    with pytest.raises(InvalidFreeError, match=r"gone.*freed already") as caught:
        freed.give_back() if release == "give_back" else allocator.free(freed)
    assert isinstance(caught.value, ValueError)
    assert allocator.total_allocated_size == kept.nbytes
    assert allocator.allocated_count == 1


def test_foreign_frees_are_errors_and_change_nothing() -> None:
    mine, other = SimpleRawBufferAllocator(4), SimpleRawBufferAllocator(4)
    buffer = other.allocate(9)
    mine.allocate(9)
    with pytest.raises(InvalidFreeError, match="belongs to"):
        mine.free(buffer)
    assert (mine.total_allocated_size, other.total_allocated_size) == (9, 9)
    buffer.give_back()
    assert (mine.total_allocated_size, other.total_allocated_size) == (9, 0)


@pytest.mark.parametrize("capacity", [-1, 1.5, "8", True, None])
def test_the_capacity_is_an_integer_of_zero_or_more(capacity: Any) -> None:
    with pytest.raises(SizeError, match="capacity"):
        SimpleRawBufferAllocator(capacity)


def test_negative_sizes_are_refused() -> None:
    allocator = SimpleRawBufferAllocator(4)
    with pytest.raises(SizeError, match="-1 bytes"):
        allocator.allocate(-1, "z")
    assert allocator.allocated_count == 0


def test_it_follows_the_protocol() -> None:
    assert isinstance(SimpleRawBufferAllocator(1), Allocator)
    assert SimpleRawBufferAllocator(7).capacity == 7


def test_texts() -> None:
    allocator = SimpleRawBufferAllocator(3)
    buffer = allocator.allocate(5, "z")
    assert repr(buffer) == "Buffer(#1, 5 bytes, owner 'z', live)"
    allocator.free(buffer)
    assert repr(buffer) == "Buffer(#1, 5 bytes, owner 'z', freed)"
    assert "capacity=3" in repr(allocator)


def test_a_log_gets_an_event_for_each_act() -> None:
    log = EventLog()
    allocator = SimpleRawBufferAllocator(4, log=log)
    weight = allocator.reserve(4, "two")
    z = allocator.allocate(4096, "z")
    allocator.free(z)
    allocator.free(weight)
    acts = [(e.action, e.nbytes, e.buffer, e.owner, e.allocated_bytes, e.peak_bytes) for e in log]
    assert acts == [
        (RuntimeEventAction.RESERVE, 4, 1, "two", 4, 4),
        (RuntimeEventAction.ALLOCATE, 4096, 2, "z", 4100, 4100),
        (RuntimeEventAction.FREE, 4096, 2, "z", 4, 4100),
        (RuntimeEventAction.FREE, 4, 1, "two", 0, 4100),
    ]
    stamps = [event.timestamp_ns for event in log]
    assert stamps == sorted(stamps)


def test_a_refused_request_writes_no_event() -> None:
    log = EventLog()
    allocator = SimpleRawBufferAllocator(0, log=log)
    with pytest.raises(AllocationError):
        allocator.allocate(1)
    assert len(log) == 0


class AllocatorMachine(RuleBasedStateMachine):
    """The model: a dict of live sizes, and the highest sum since the last reset."""

    buffers = Bundle("buffers")

    @initialize(capacity=st.integers(0, 6))
    def make(self, capacity: int) -> None:
        self.log = EventLog()
        self.allocator = SimpleRawBufferAllocator(capacity, log=self.log)
        self.other = SimpleRawBufferAllocator(100)
        self.capacity = capacity
        self.live: dict[int, int] = {}
        self.peak = 0
        self.granted = 0
        self.acts = 0

    @rule(target=buffers, nbytes=st.integers(0, 2**40), reserve=st.booleans())
    def allocate(self, nbytes: int, reserve: bool) -> Buffer:
        request = self.allocator.reserve if reserve else self.allocator.allocate
        if len(self.live) == self.capacity:
            with pytest.raises(AllocationError):
                request(nbytes, "v")
            return self.other.allocate(nbytes)
        buffer = request(nbytes, "v")
        self.granted += 1
        self.acts += 1
        assert (buffer.nbytes, buffer.number, buffer.owner) == (nbytes, self.granted, "v")
        self.live[id(buffer)] = nbytes
        self.peak = max(self.peak, sum(self.live.values()))
        return buffer

    @rule(buffer=buffers, through_buffer=st.booleans())
    def free(self, buffer: Buffer, through_buffer: bool) -> None:
        if id(buffer) in self.live:
            buffer.give_back() if through_buffer else self.allocator.free(buffer)
            del self.live[id(buffer)]
            self.acts += 1
        else:
            with pytest.raises(InvalidFreeError):
                self.allocator.free(buffer)

    @rule(buffer=consumes(buffers))
    def drop(self, buffer: Buffer) -> None:
        """The last reference may go only once the buffer is freed: ids would be used again."""
        self.free(buffer, True) if id(buffer) in self.live else None
        self.kept = [*getattr(self, "kept", []), buffer]

    @precondition(lambda self: hasattr(self, "allocator"))
    @rule()
    def reset_peak(self) -> None:
        self.allocator.reset_peak()
        self.peak = sum(self.live.values())

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "allocator"):
            assert self.allocator.total_allocated_size == sum(self.live.values())
            assert self.allocator.allocated_count == len(self.live)
            assert self.allocator.peak_allocated_size == self.peak
            assert len(self.log) == self.acts
            assert self.other.peak_allocated_size == self.other.total_allocated_size


TestAllocatorMachine = AllocatorMachine.TestCase
TestAllocatorMachine.settings = settings(max_examples=60, stateful_step_count=40)
