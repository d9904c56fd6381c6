"""A plain model of onnxruntime's arena: regions as lists of pieces, every rule by a search through all of them."""

from __future__ import annotations

Piece = list[int]
"""[bytes of the chunk, bytes asked for (0: free), number of the request]."""


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The limit forbids a region."""


class PlainArena:
    """The rules, written for the eye; slow."""

    def __init__(
        self,
        limit: int,
        *,
        arena_extend_strategy: int,
        initial_chunk_size_bytes: int,
        max_dead_bytes_per_chunk: int,
        initial_growth_chunk_size_bytes: int,
        max_power_of_two_extend_bytes: int,
    ) -> None:
        self.limit = limit or 2**64 - 1
        self.same_size = arena_extend_strategy == 1
        self.dead = max_dead_bytes_per_chunk
        self.after_shrink = initial_growth_chunk_size_bytes
        self.cap = max_power_of_two_extend_bytes
        self.next_size = up(min(self.limit, initial_chunk_size_bytes))
        self.regions: dict[int, list[Piece]] = {}
        self.made = 0
        self.reserved: dict[int, int] = {}
        self.counts = {"NumAllocs": 0, "NumReserves": 0, "NumArenaShrinkages": 0}
        self.most_in_use = self.largest = 0

    def held(self) -> int:
        pieces = sum(piece[0] for region in self.regions.values() for piece in region)
        return pieces + sum(self.reserved.values())

    def in_use(self) -> int:
        pieces = (piece for region in self.regions.values() for piece in region)
        return sum(piece[0] for piece in pieces if piece[1]) + sum(self.reserved.values())

    def requested(self) -> int:
        pieces = (piece for region in self.regions.values() for piece in region)
        return sum(piece[1] for piece in pieces) + sum(self.reserved.values())

    def granted(self, size: int) -> None:
        self.counts["NumAllocs"] += 1
        self.largest = max(self.largest, size)
        self.most_in_use = max(self.most_in_use, self.in_use())

    def reserve(self, number: int, nbytes: int) -> None:
        self.reserved[number] = nbytes
        self.counts["NumReserves"] += 1
        self.granted(nbytes)

    def allocate(self, number: int, nbytes: int) -> None:
        need = up(nbytes)
        if not self.candidates(need):
            self.extend(need)
        size, name, at = min(self.candidates(need))
        region = self.regions[name]
        if size >= 2 * need or size - need >= self.dead:
            region[at : at + 1] = [[need, nbytes, number], [size - need, 0, 0]]
        else:
            region[at] = [size, nbytes, number]
        self.granted(region[at][0])

    def candidates(self, need: int) -> list[tuple[int, int, int]]:
        return [
            (piece[0], name, at)
            for name, region in self.regions.items()
            for at, piece in enumerate(region)
            if not piece[1] and piece[0] >= need
        ]

    def extend(self, need: int) -> None:
        available = (self.limit - self.held()) % 2**64 // 256 * 256
        if need > available:
            raise Refused(
                f"Available memory of {available} is smaller than requested bytes of {need}"
            )
        size = need
        if not self.same_size:
            fits = need <= self.next_size
            while need > self.next_size:
                self.next_size *= 2
            size = min(self.next_size, available)
            if fits:
                doubled = 2 * self.next_size
                self.next_size = min(self.cap, doubled)
        self.regions[self.made] = [[size, 0, 0]]
        self.made += 1

    def free(self, number: int) -> None:
        if number in self.reserved:
            del self.reserved[number]
            return
        for name, region in self.regions.items():
            for at, piece in enumerate(region):
                if piece[1] and piece[2] == number:
                    region[at] = [piece[0], 0, 0]
                    self.regions[name] = joined(region)
                    return

    def shrink(self) -> None:
        for name, region in list(self.regions.items()):
            if all(not piece[1] for piece in region) and (self.same_size or name):
                del self.regions[name]
                self.counts["NumArenaShrinkages"] += 1
        self.next_size = self.after_shrink

    def statistics(self) -> dict[str, int]:
        return {
            **self.counts,
            "Limit": self.limit if self.limit < 2**63 else -1,
            "InUse": self.in_use(),
            "TotalAllocated": self.held(),
            "MaxInUse": self.most_in_use,
            "NumArenaExtensions": len(self.regions),
            "MaxAllocSize": self.largest,
            "RequestedInUse": self.requested(),
        }


def up(nbytes: int) -> int:
    return (nbytes + 255) // 256 * 256


def joined(region: list[Piece]) -> list[Piece]:
    """Free neighbours as one piece."""
    found: list[Piece] = []
    for piece in region:
        if found and not piece[1] and not found[-1][1]:
            found[-1] = [found[-1][0] + piece[0], 0, 0]
        else:
            found.append(piece)
    return found
