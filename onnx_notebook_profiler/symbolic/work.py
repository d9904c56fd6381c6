"""The work of a model in formulas: MACs, FLOPs and bytes moved, node by node, and what they add up to.

The convention: 1 MAC = 2 FLOPs, and a node's FLOPs include 2 for each of its MACs. What counts as either is said in
:mod:`onnx_notebook_profiler.symbolic.work_rules` and, operator by operator, in docs/work.md. Bytes read are those of
all distinct inputs, weights included; what picks (Gather, Slice and their like) reads what it takes. Bytes written are
those of the outputs. A view reads and writes nothing. Bytes are as ONNX stores them, each once: no cache, no
temporary. A node that runs a body does the work of the body's nodes as often as the body runs, and reads and writes
once more what it puts together of all the runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.sizes import Size
from onnx_notebook_profiler.symbolic.work_rules.registry import ZERO

__all__ = ["QUANTITIES", "ModelWork", "NodeWork", "WorkSum", "WorkTotals"]

QUANTITIES = ("macs", "flops", "read", "written")


@dataclasses.dataclass(frozen=True, slots=True)
class NodeWork:
    """The work of one node; None is unknown, never 0."""

    node: int
    op: str
    macs: Expr | None
    flops: Expr | None
    """Includes 2 for each MAC."""
    read: Expr | None
    """Bytes."""
    written: Expr | None
    """Bytes."""
    reason: str = ""
    """Why something is unknown; empty where nothing is."""
    is_ruled: bool = True
    """False where no rule counts the operator."""
    bodies: Mapping[str, ModelWork] = dataclasses.field(default_factory=dict)
    """Branches, loop bodies, the function that the node calls: the work of their nodes in one run."""

    @property
    def is_unknown(self) -> bool:
        """Whether any of the four is unknown."""
        return any(getattr(self, name) is None for name in QUANTITIES)

    def intensity(self, sizes: Mapping[str, int] | None = None, /, **dims: int) -> float | None:
        """FLOPs for each byte read or written, at these sizes; None where either is unknown, or no byte moves.

        Args:
            sizes: One mapping, for dimensions whose names are no identifiers.
            dims: A size for each dimension that the node depends on; others are left alone.

        Raises:
            SizeError: A dimension is missing, negative or no integer.
        """
        if self.flops is None or self.read is None or self.written is None:
            return None
        forms = CompiledForms([self.flops, self.read + self.written])
        given = {**(sizes or {}), **dims}
        flops, moved = forms({name: given[name] for name in forms.symbols & given.keys()}).tolist()
        return float(flops / moved) if moved else None


@dataclasses.dataclass(frozen=True, slots=True)
class WorkSum:
    """Work of several nodes at given sizes; where ``unknown`` is not 0 each number is to be read as "at least"."""

    nodes: int
    macs: int
    flops: int
    read: int
    written: int
    unknown: int
    """How many of the nodes have something unknown, which is in no sum."""

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte read or written; None where something is unknown, or no byte moves."""
        moved = self.read + self.written
        return self.flops / moved if moved and not self.unknown else None


@dataclasses.dataclass(frozen=True, slots=True)
class WorkTotals(WorkSum):
    """Work of a whole model, and of each of its operators, most FLOPs first."""

    by_operator: Mapping[str, WorkSum]


class ModelWork(tuple[NodeWork, ...]):  # noqa: SLOT001 - it keeps what its totals are computed from
    """The work of each node of a model."""

    dims: tuple[str, ...]

    @classmethod
    def of(cls, nodes: Iterable[NodeWork], dims: Sequence[str]) -> ModelWork:
        """These nodes, over *dims*."""
        made = cls(nodes)
        made.dims = tuple(dims)
        return made

    @property
    def unruled(self) -> tuple[str, ...]:
        """Operators that no rule counts, those inside others included, sorted."""
        return tuple(sorted(set(self._unruled())))

    def _unruled(self) -> Iterator[str]:
        for node in self:
            if not node.is_ruled:
                yield node.op
            for body in node.bodies.values():
                yield from body.unruled

    def __repr__(self) -> str:
        unknown = sum(node.is_unknown for node in self)
        return f"ModelWork({len(self)} nodes, {unknown} unknown, dims {', '.join(self.dims) or 'none'})"

    @functools.cached_property
    def _forms(self) -> CompiledForms:
        forms = [getattr(node, name) for node in self for name in QUANTITIES]
        return CompiledForms([ZERO if form is None else form for form in forms], self.dims)

    def totals(self, sizes: Mapping[str, Size]) -> WorkTotals:
        """What the nodes add up to.

        Raises:
            SizeError: A dimension is missing, unknown, negative or no integer, or a value leaves 64 bits.
        """
        values = self._forms(sizes)
        if values.ndim != 1:
            raise SizeError("work_totals takes one size for each dimension, got an array of sizes")
        rows = values.reshape(-1, len(QUANTITIES)).tolist()
        kinds: dict[str, list[int]] = {}
        for index, node in enumerate(self):
            kinds.setdefault(node.op, []).append(index)
        parts = {op: self._sum(indices, rows) for op, indices in kinds.items()}
        ordered = sorted(parts.items(), key=lambda item: (-item[1].flops, item[0]))
        whole = self._sum(range(len(self)), rows)
        return WorkTotals(**_fields(whole), by_operator=dict(ordered))

    def _sum(self, indices: Sequence[int], rows: Sequence[Sequence[int]]) -> WorkSum:
        macs, flops, read, written = (
            sum(rows[index][place] for index in indices) for place in range(len(QUANTITIES))
        )
        unknown = sum(self[index].is_unknown for index in indices)
        return WorkSum(len(indices), macs, flops, read, written, unknown)


def _fields(one: WorkSum) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(WorkSum)}
