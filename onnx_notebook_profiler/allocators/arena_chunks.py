"""What the memory of an arena consists of: regions, tiled by chunks; and what it looks like at one moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from onnx_notebook_profiler.allocators.protocol import Buffer

__all__ = [
    "UNIT",
    "ArenaBuffer",
    "ArenaChunk",
    "ArenaRegion",
    "ArenaStatistics",
    "Region",
    "round_up",
]

UNIT: Final = 256
"""Chunks have sizes that are multiples of this many bytes."""


def round_up(nbytes: int) -> int:
    """*nbytes* rounded up to the arena's unit, 256."""
    return -(-nbytes // UNIT) * UNIT


class Region:
    """One block of the system's memory; its chunks are linked in the order of their addresses."""

    __slots__ = ("first", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.first: ArenaBuffer | None = None

    def chunks(self) -> Iterator[ArenaBuffer]:
        """From the lowest address upwards."""
        chunk = self.first
        while chunk is not None:
            yield chunk
            chunk = chunk.following


class ArenaBuffer(Buffer):
    """A chunk of an arena: a granted request while ``holder`` is set, else free room."""

    __slots__ = ("following", "offset", "previous", "region", "size")

    def __init__(
        self, holder: object, nbytes: int, number: int, owner: str, region: Region | None
    ) -> None:
        self.holder = holder  # type: ignore[assignment]
        self.nbytes = nbytes
        self.number = number
        self.owner = owner
        self.region = region
        """None: 0 bytes, or reserved ones: they lie outside of the regions."""
        self.offset = 0
        """Bytes from the beginning of the region."""
        self.size = 0
        """Bytes of the chunk, padding included."""
        self.previous: ArenaBuffer | None = None
        self.following: ArenaBuffer | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaChunk:
    """A chunk as it was at one moment."""

    offset: int
    """Bytes from the beginning of its region."""
    size: int
    """Bytes."""
    requested: int
    """Bytes that were asked for; 0 where it is free. What is beyond is padding."""
    owner: str
    in_use: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaRegion:
    """A region as it was at one moment."""

    number: int
    """Regions are counted from 0, those included that were given back."""
    size: int
    """Bytes."""
    chunks: tuple[ArenaChunk, ...]
    """They tile the region."""

    @property
    def used(self) -> int:
        """Bytes of the chunks in use."""
        return sum(chunk.size for chunk in self.chunks if chunk.in_use)


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaStatistics:
    """What onnxruntime's arena says of itself; bytes, or how many where the name begins with ``num``."""

    limit: int
    """max_mem; -1 where there is none."""
    in_use: int
    """Chunks in use, padding included, and reserved bytes."""
    total_allocated: int
    """Regions and reserved bytes: what `max_mem` limits."""
    max_in_use: int
    """The most of ``in_use`` so far."""
    num_allocs: int
    """Requests granted, reserved ones included."""
    num_reserves: int
    num_arena_extensions: int
    """Regions; one that is given back is taken off."""
    num_arena_shrinkages: int
    """Regions that were given back."""
    max_alloc_size: int
    """The largest chunk that was handed out, or reservation."""
    requested_in_use: int
    """As ``in_use``, without padding."""

    @property
    def padding(self) -> int:
        """Bytes in chunks in use that nobody asked for."""
        return self.in_use - self.requested_in_use

    @property
    def idle(self) -> int:
        """Bytes held and not in use."""
        return self.total_allocated - self.in_use

    def as_dict(self) -> dict[str, int]:
        """By the names that onnxruntime gives them: Limit, InUse, TotalAllocated, MaxInUse, NumAllocs and so on."""
        return {
            "".join(part.capitalize() for part in name.split("_")): value
            for name, value in dataclasses.asdict(self).items()
        }
