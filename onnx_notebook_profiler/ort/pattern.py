"""onnxruntime's memory pattern: the buffers of a run in one block, laid out by the first run with the same key."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import xor

from onnx import TensorProto, TypeProto

from onnx_notebook_profiler.model import LoadedModel, graph_inputs
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan

__all__ = [
    "NO_PATTERN",
    "Block",
    "MemoryPattern",
    "lay_out",
    "lay_out_in_order",
    "pattern_applies",
    "pattern_key",
    "planned_values",
    "rounded",
]

UNIT = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Where a value lies in the pattern's block; *nbytes* is a multiple of 256."""

    offset: int
    nbytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPattern:
    """What later runs take at once: *peak* bytes, with the values in it."""

    blocks: Mapping[str, Block]
    peak: int

    def holds(self, value: str, nbytes: int) -> bool:
        """Whether *value* of *nbytes* bytes finds its place in the block: the rounded size must be the same."""
        block = self.blocks.get(value)
        return block is not None and block.nbytes == rounded(nbytes)


NO_PATTERN = MemoryPattern({}, 0)
"""What a first run has, and each run without the option ``enable_mem_pattern``."""


def rounded(nbytes: int) -> int:
    """*nbytes* rounded up to 256."""
    return -(-nbytes // UNIT) * UNIT


def pattern_key(shapes: Iterable[Sequence[int]]) -> int:
    """What tells patterns apart: all dimensions of all inputs, combined by exclusive or.

    Different shapes can have one key: [16, 64] has that of [64, 16], and every square one that of [1, 1].
    """
    return reduce(xor, (size for shape in shapes for size in shape), 0)


def pattern_applies(model: LoadedModel) -> bool:
    """Whether a session on *model* keeps patterns: every input is a tensor whose rank the model declares."""
    return all(_has_rank(value.type) for value in graph_inputs(model.proto.graph))


def _has_rank(kind: TypeProto) -> bool:
    return bool(kind.HasField("tensor_type") and kind.tensor_type.HasField("shape"))


def lay_out(plan: AllocationPlan, nbytes: Mapping[str, int]) -> MemoryPattern:
    """The pattern that a run leaves behind.

    A value takes the gap between live ones that wastes the least, be it under the highest offset so far; where none
    fits it goes behind the last live one.

    Args:
        nbytes: Bytes of each value that gets a buffer of its own.
    """
    return lay_out_in_order(_lives(plan, nbytes))


def lay_out_in_order(lives: Iterable[tuple[str, int | None]]) -> MemoryPattern:
    """The pattern of values that come and go in this order.

    Args:
        lives: A value and its bytes where it comes, a value and None where it goes.
    """
    space = _Space()
    blocks: dict[str, Block] = {}
    for value, nbytes in lives:
        if nbytes is None:
            space.give_back(blocks[value])
        else:
            size = rounded(nbytes)
            blocks[value] = Block(space.take(size), size)
    return MemoryPattern(blocks, space.peak)


def _lives(plan: AllocationPlan, nbytes: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    made: dict[int, list[str]] = {}
    for value in planned_values(plan):
        made.setdefault(plan.placements[value].node, []).append(value)
    placed: set[str] = set()
    for node in plan.order.nodes:
        for value in made.get(node, ()):
            placed.add(value)
            yield value, nbytes[value]
        for value in plan.releases.get(node, ()):
            if value in placed:
                yield value, None


def planned_values(plan: AllocationPlan) -> Iterator[str]:
    """The values that a pattern has a place for: tensors in buffers of their own, but for strings."""
    for value, placement in plan.placements.items():
        kind = plan.types.get(value)
        if placement.rule == "own" and (kind is None or kind.data_type != TensorProto.STRING):
            yield value


class _Space:
    """The live blocks of a layout, sorted by offset."""

    def __init__(self) -> None:
        self._live: list[tuple[int, int]] = []
        """(offset, end) of each."""
        self.peak = 0

    def take(self, size: int) -> int:
        """Find *size* bytes; the offset. Nothing is taken for 0 bytes."""
        if size == 0:
            return 0
        gaps: list[tuple[int, int]] = []
        end = 0
        for offset, behind in self._live:
            gaps.append((offset - end, end))
            end = max(end, behind)
        gaps.append((self.peak - end, end))
        fitting = [gap for gap in gaps if gap[0] >= size]
        offset = min(fitting)[1] if fitting else end
        bisect.insort(self._live, (offset, offset + size))
        self.peak = max(self.peak, offset + size)
        return offset

    def give_back(self, block: Block) -> None:
        """A value is needed no more."""
        if block.nbytes:
            self._live.remove((block.offset, block.offset + block.nbytes))
