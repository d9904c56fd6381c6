"""Values that have no size: which, why, and what part of a model they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.value_types import UnknownSize, ValueType

__all__ = ["ByteCoverage", "Coverage", "Unknown", "byte_coverage", "find_unknown"]

ValueBytes = Mapping[str, Expr | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A value whose size no rule gives: which node makes it (-1: none, it is an input or initializer) and why."""

    value: str
    node: int
    op: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """How many values have a size, of how many."""

    known: int
    total: int

    def __str__(self) -> str:
        return f"{self.known} of {self.total} values"


@dataclasses.dataclass(frozen=True, slots=True)
class ByteCoverage:
    """What part of a model's bytes has a size."""

    known: int
    """Bytes of the values that have one."""
    most: int | None
    """Bytes of all values, the others as large as they can be; None where nothing bounds one of them."""

    @property
    def share(self) -> float | None:
        """Of all bytes, what is known at least, from 0 to 1; None where nobody knows."""
        if self.most is None:
            return None
        return self.known / self.most if self.most else 1.0

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.known:,} bytes, and values that nothing bounds"
        return f"{self.known:,} of at most {self.most:,} bytes ({self.share:.1%})"


def byte_coverage(
    sizes: ValueBytes, bounded: ValueBytes, dims: tuple[str, ...], given: Mapping[str, Any]
) -> ByteCoverage:
    """The part of the bytes that is known.

    Args:
        sizes: Bytes of every value.
        bounded: The same with what data decides at its greatest.
        dims: The model's dimensions.
        given: A size for each of them.

    Raises:
        SizeError: A size is missing or wrong.
    """
    known = Expr.sum(size for size in sizes.values() if size is not None)
    open_ones = [bounded.get(name) for name, size in sizes.items() if size is None]
    found = [size for size in open_ones if size is not None]
    values = CompiledForms([known, known + Expr.sum(found)], dims)(given)
    return ByteCoverage(int(values[0]), int(values[1]) if len(found) == len(open_ones) else None)


def find_unknown(
    plan: GraphPlan,
    sizes: ValueBytes,
    types: Mapping[str, ValueType | UnknownSize],
) -> Iterator[Unknown]:
    """The values without a size, in the order of the nodes."""
    makers = {name: step for step in plan.steps for name in step.node.output if name}
    for name, nbytes in sizes.items():
        if nbytes is not None:
            continue
        step = makers.get(name)
        kind = types.get(name)
        reason = (
            kind.reason if isinstance(kind, UnknownSize) else "its element type has no fixed width"
        )
        yield Unknown(name, step.index if step else -1, step.node.op_type if step else "", reason)
