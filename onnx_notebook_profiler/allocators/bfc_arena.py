"""onnxruntime's arena: best fit with coalescing, byte for byte (onnxruntime/core/framework/bfc_arena.cc)."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from typing import Final

from onnx_notebook_profiler.allocators.arena_chunks import (
    UNIT,
    ArenaBuffer,
    ArenaChunk,
    ArenaRegion,
    ArenaStatistics,
    Region,
    round_up,
)
from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings, ExtendStrategy
from onnx_notebook_profiler.allocators.protocol import Buffer
from onnx_notebook_profiler.errors import ArenaLimitError, InvalidFreeError, SizeError
from onnx_notebook_profiler.events import EventLog, RuntimeEventAction

__all__ = ["BFCArena"]

_ALLOCATE = int(RuntimeEventAction.ALLOCATE)
_FREE = int(RuntimeEventAction.FREE)
_RESERVE = int(RuntimeEventAction.RESERVE)
_UNLIMITED: Final = 2**64 - 1
_Free = tuple[int, int, int, ArenaBuffer]
"""A free chunk as it is sorted: size, region, offset, chunk."""


class BFCArena:
    """Best-fit arena of onnxruntime's CPU provider, with its settings under their own names.

    It reserves and counts; the bytes themselves are numpy's, as with every allocator here. So a model can run under it:
    ``ReferenceEvaluator(model, allocator=BFCArena(max_mem=8192))``.

    - A request is rounded up to 256 bytes and gets the smallest free chunk that holds it. The chunk is split only if
      it is twice as large, or leaves *max_dead_bytes_per_chunk* or more; otherwise **all of it** is handed out.
    - Where no chunk fits, a region is taken from the system: as large as the request (``kSameAsRequested``), or of a
      size that doubles from *initial_chunk_size_bytes* on (``kNextPowerOfTwo``), and never beyond the limit.
    - What is given back merges with free neighbours of its region.
    - *max_mem* limits regions and reserved bytes together. A reservation itself is never refused: if more is reserved
      than the limit allows, what is left wraps around in 64 bits, and nothing is limited any more.

    Args:
        max_mem: Bytes that regions and reservations may take together; 0 for no limit.
        arena_extend_strategy: ``"kNextPowerOfTwo"`` or 0, ``"kSameAsRequested"`` or 1; -1 is the default, 0.
        initial_chunk_size_bytes: Size of the first region, 1 MiB; -1 is the default.
        max_dead_bytes_per_chunk: What may be lost in a chunk that is not split, 128 MiB; -1 is the default.
        initial_growth_chunk_size_bytes: Size of the next region after a shrink, 2 MiB; -1 is the default.
        max_power_of_two_extend_bytes: The most that the doubled size grows to, 1 GiB; -1 is the default.
        log: Where to write an event for each buffer; None writes none.

    Raises:
        SizeError: A setting is no integer or out of its range; the message names it.
    """

    __slots__ = (
        "_dead",
        "_free",
        "_growth",
        "_limit",
        "_max_alloc",
        "_max_in_use",
        "_next_limit",
        "_num_allocs",
        "_num_reserves",
        "_num_shrinkages",
        "_regions",
        "_requested",
        "_step_base",
        "_tail",
        "_total",
        "allocated_count",
        "is_void",
        "log",
        "number",
        "peak_allocated_size",
        "settings",
        "ties",
        "total_allocated_size",
    )

    def __init__(
        self,
        max_mem: int = 0,
        arena_extend_strategy: ExtendStrategy = -1,
        initial_chunk_size_bytes: int = -1,
        max_dead_bytes_per_chunk: int = -1,
        initial_growth_chunk_size_bytes: int = -1,
        max_power_of_two_extend_bytes: int = -1,
        *,
        log: EventLog | None = None,
    ) -> None:
        self.settings = settings = ArenaSettings.checked(
            max_mem=max_mem,
            arena_extend_strategy=arena_extend_strategy,
            initial_chunk_size_bytes=initial_chunk_size_bytes,
            max_dead_bytes_per_chunk=max_dead_bytes_per_chunk,
            initial_growth_chunk_size_bytes=initial_growth_chunk_size_bytes,
            max_power_of_two_extend_bytes=max_power_of_two_extend_bytes,
        )
        self.log = log
        self.total_allocated_size = 0
        """Bytes of chunks in use and of reservations."""
        self.peak_allocated_size = 0
        """The most of them since :meth:`reset_peak`."""
        self.allocated_count = 0
        self.number = 0
        """Number of the newest buffer."""
        self.ties = 0
        """Choices between free chunks of one size in different regions: the real arena's depends on addresses."""
        self.is_void = False
        """Whether more was reserved than the limit allows when a region was needed: nothing is limited since."""
        self._limit = settings.max_mem or _UNLIMITED
        self._growth = round_up(min(self._limit, settings.initial_chunk_size_bytes))
        self._dead = settings.max_dead_bytes_per_chunk
        self._total = self._requested = self._max_in_use = self._max_alloc = 0
        self._num_allocs = self._num_reserves = self._num_shrinkages = 0
        self._regions: list[Region] = []
        self._free: list[_Free] = []
        # What would be otherwise under a larger limit.
        self._tail: ArenaBuffer | None = None
        """The chunk that would be larger: the last one of a region that is all that was left."""
        self._step_base = 0
        self._next_limit: int | None = None

    # requests

    def allocate(self, nbytes: int, owner: str = "") -> ArenaBuffer:
        """Grant *nbytes* bytes for *owner*: a chunk. 0 bytes get no chunk and touch nothing.

        Raises:
            ArenaLimitError: No free chunk fits, and the limit forbids a region.
            SizeError: *nbytes* is negative.
        """
        if nbytes <= 0:
            return self._nothing(nbytes, owner)
        rounded = (nbytes + 255) & ~255
        free = self._free
        place = bisect_left(free, (rounded,))
        if self._tail is not None:
            self._watch_choice(self._tail, place, rounded)
        if place == len(free):
            self._extend(rounded, nbytes, owner)
            place = bisect_left(free, (rounded,))
        size, number, offset, chunk = free.pop(place)
        if place < len(free) and free[place][0] == size and free[place][1] != number:
            self.ties += 1
        self.number += 1
        region = chunk.region
        given = ArenaBuffer(self, nbytes, self.number, owner, region)
        given.offset = offset
        previous = given.previous = chunk.previous
        if previous is not None:
            previous.following = given
        else:
            region.first = given  # type: ignore[union-attr]
        if size >= 2 * rounded or size - rounded >= self._dead:
            given.size = rounded
            given.following = chunk
            chunk.previous = given
            chunk.offset = offset + rounded
            chunk.size = size - rounded
            insort(free, (chunk.size, number, chunk.offset, chunk))
        else:
            given.size = size
            following = given.following = chunk.following
            if following is not None:
                following.previous = given
            if chunk is self._tail:
                self._tail = given
                self._watch(self._step_base + min(2 * rounded, rounded + self._dead) - size)
        self._count(given, _ALLOCATE)
        return given

    def reserve(self, nbytes: int, owner: str = "") -> ArenaBuffer:
        """Grant *nbytes* bytes outside of the regions, as onnxruntime does for weights: not rounded, never refused.

        Raises:
            SizeError: *nbytes* is negative.
        """
        if nbytes <= 0:
            return self._nothing(nbytes, owner)
        self.number += 1
        given = ArenaBuffer(self, nbytes, self.number, owner, None)
        given.size = nbytes
        self._num_reserves += 1
        self._total += nbytes
        self._count(given, _RESERVE)
        return given

    def free(self, given: Buffer) -> None:
        """Take *given* back; its chunk merges with free neighbours.

        Raises:
            InvalidFreeError: It was freed before, or another allocator granted it.
        """
        if given.holder is not self:
            raise self._invalid(given)
        buffer: ArenaBuffer = given  # type: ignore[assignment]
        buffer.holder = None
        self.allocated_count -= 1
        self.total_allocated_size -= buffer.size
        self._requested -= buffer.nbytes
        if self.log is not None:
            self._write(_FREE, buffer)
        region = buffer.region
        if region is None:
            self._total -= buffer.size
            return
        free, number = self._free, region.number
        following, previous = buffer.following, buffer.previous
        if following is not None and following.holder is None:
            del free[bisect_left(free, (following.size, number, following.offset))]
            buffer.size += following.size
            if following is self._tail:
                self._tail = buffer
            after = buffer.following = following.following
            if after is not None:
                after.previous = buffer
        if previous is not None and previous.holder is None:
            del free[bisect_left(free, (previous.size, number, previous.offset))]
            buffer.size += previous.size
            buffer.offset = previous.offset
            before = buffer.previous = previous.previous
            if before is not None:
                before.following = buffer
            else:
                region.first = buffer
        insort(free, (buffer.size, number, buffer.offset, buffer))

    def shrink(self) -> int:
        """Give back every region without a used chunk, but for the first of all under ``kNextPowerOfTwo``.

        Returns:
            Bytes given back.
        """
        given_back = 0
        for region in list(self._regions):
            chunk = region.first
            assert chunk is not None
            is_empty = chunk.holder is None and chunk.following is None
            if not is_empty or (region.number == 0 and not self.settings.is_same_as_requested):
                continue
            del self._free[bisect_left(self._free, (chunk.size, region.number, chunk.offset))]
            self._regions.remove(region)
            if chunk is self._tail:
                self._tail = None
            self._num_shrinkages += 1
            given_back += region.size
        self._total -= given_back
        self._growth = self.settings.initial_growth_chunk_size_bytes
        return given_back

    def reset_peak(self) -> None:
        """Set the peak to what is live now; ``max_in_use`` of :meth:`statistics` stays."""
        self.peak_allocated_size = self.total_allocated_size

    # what it looks like

    def statistics(self) -> ArenaStatistics:
        """What onnxruntime's ``AllocatorGetStats`` says."""
        return ArenaStatistics(
            limit=self._limit if self._limit < 2**63 else self._limit - 2**64,
            in_use=self.total_allocated_size,
            total_allocated=self._total,
            max_in_use=self._max_in_use,
            num_allocs=self._num_allocs,
            num_reserves=self._num_reserves,
            num_arena_extensions=len(self._regions),
            num_arena_shrinkages=self._num_shrinkages,
            max_alloc_size=self._max_alloc,
            requested_in_use=self._requested,
        )

    def regions(self) -> tuple[ArenaRegion, ...]:
        """The regions and their chunks as they are now."""
        return tuple(
            ArenaRegion(
                region.number,
                region.size,
                tuple(
                    ArenaChunk(
                        chunk.offset,
                        chunk.size,
                        0 if chunk.holder is None else chunk.nbytes,
                        "" if chunk.holder is None else chunk.owner,
                        chunk.holder is not None,
                    )
                    for chunk in region.chunks()
                ),
            )
            for region in self._regions
        )

    @property
    def next_limit(self) -> int | None:
        """The least larger `max_mem` under which something so far could have gone otherwise; None: there is none.

        Once more is reserved than the limit allows, nothing is refused any more: then sizes are not looked at.
        """
        return self._next_limit

    # regions

    def _extend(self, rounded: int, nbytes: int, owner: str) -> None:
        """Take a region in which *rounded* bytes fit."""
        is_void = self._total > self._limit
        left = (self._limit - self._total) % 2**64
        available = left // UNIT * UNIT
        depends = self._tail is None
        if is_void:
            self.is_void = True
            self._watch(self._total)
        if rounded > available:
            if depends:
                self._watch(self._total + rounded)
            raise self._refusal(rounded, available, nbytes, owner)
        if self.settings.is_same_as_requested:
            size, grows = rounded, False
        else:
            size = self._next_size(rounded, watch=not is_void)
            # Also the first region of all, which a small limit makes as large as the limit.
            grows = size > available or (
                size == available and self._limit < self.settings.initial_chunk_size_bytes
            )
            if size > available and depends and not is_void:
                self._watch(self._limit - left % UNIT + size - available)
            size = min(size, available)
        region = Region(len(self._regions) + self._num_shrinkages, size)
        chunk = ArenaBuffer(None, 0, 0, "", region)
        if grows and depends:
            self._tail = chunk
            self._step_base = self._limit - left % UNIT
        chunk.size = size
        region.first = chunk
        self._regions.append(region)
        self._total += size
        insort(self._free, (size, region.number, 0, chunk))

    def _next_size(self, rounded: int, *, watch: bool) -> int:
        """Size of the next region by doubling."""
        if watch and self.settings.initial_chunk_size_bytes > self._limit:
            self._watch(self.settings.initial_chunk_size_bytes)
        is_doubled = False
        while rounded > self._growth:
            self._growth *= 2
            is_doubled = True
        size = self._growth
        if not is_doubled:
            most = self.settings.max_power_of_two_extend_bytes
            self._growth = min(most, 2 * size)
        return size

    # what a larger limit would change

    def _watch(self, limit: int) -> None:
        """Under *limit* something goes otherwise."""
        if limit > self._limit and (self._next_limit is None or limit < self._next_limit):
            self._next_limit = limit

    def _watch_choice(self, tail: ArenaBuffer, place: int, rounded: int) -> None:
        """When the chunk that grows with the limit would be taken instead of another, or another instead of it."""
        if tail.holder is not None:
            return
        free = self._free
        if tail.size < rounded:
            self._watch(self._step_base + rounded - tail.size)
        elif free[place][3] is tail and place + 1 < len(free):
            self._watch(self._step_base + max(free[place + 1][0] - tail.size, UNIT))

    # in words

    def _count(self, given: ArenaBuffer, action: int) -> None:
        """A request was granted."""
        size = given.size
        self.allocated_count += 1
        self._num_allocs += 1
        self._requested += given.nbytes
        if size > self._max_alloc:
            self._max_alloc = size
        self.total_allocated_size = live = self.total_allocated_size + size
        if live > self.peak_allocated_size:
            self.peak_allocated_size = live
            if live > self._max_in_use:
                self._max_in_use = live
        if self.log is not None:
            self._write(action, given)

    def _nothing(self, nbytes: int, owner: str) -> ArenaBuffer:
        if nbytes < 0:
            raise SizeError(f"a buffer of {nbytes} bytes was asked for {owner!r}: 0 is the least")
        self.allocated_count += 1
        self.number += 1
        return ArenaBuffer(self, 0, self.number, owner, None)

    def _refusal(self, rounded: int, available: int, nbytes: int, owner: str) -> ArenaLimitError:
        statistics = self.statistics()
        what = f"{owner!r} ({nbytes:,} bytes)" if owner else f"{nbytes:,} bytes"
        largest = self._free[-1][0] if self._free else 0
        return ArenaLimitError(
            f"Available memory of {available} is smaller than requested bytes of {rounded}: no room for {what}. "
            f"max_mem is {self._limit:,}: {statistics.total_allocated:,} bytes are held, {statistics.in_use:,} of them "
            f"in use, and the largest free chunk has {largest:,}",
            nbytes=nbytes,
            rounded=rounded,
            available=available,
            regions=self.regions(),
        )

    def _invalid(self, buffer: Buffer) -> InvalidFreeError:
        return InvalidFreeError(
            f"{buffer!r} was freed already: a buffer is freed once"
            if buffer.holder is None
            else f"{buffer!r} belongs to {buffer.holder!r}: free it there, not in {self!r}"
        )

    def _write(self, action: int, buffer: ArenaBuffer) -> None:
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

    def __repr__(self) -> str:
        limit = f"max_mem={self.settings.max_mem:,}" if self.settings.max_mem else "no limit"
        return (
            f"BFCArena({limit}, {self.settings.strategy_name}, holds {self._total:,} bytes, "
            f"{self.total_allocated_size:,} in use)"
        )
