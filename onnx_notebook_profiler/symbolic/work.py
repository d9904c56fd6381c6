"""The work of a model in formulas: MACs, FLOPs and bytes moved, node by node, and what they add up to.

The convention: 1 MAC = 2 FLOPs, and a node's FLOPs include 2 for each of its MACs. What counts as either is said in
:mod:`onnx_notebook_profiler.symbolic.work_rules` and, operator by operator, in docs/work.md. Bytes read are those of
all distinct inputs, weights included; what picks (Gather, Slice and their like) reads what it takes. Bytes written are
those of the outputs. A view reads and writes nothing. Bytes are as ONNX stores them, each once: no cache, no
temporary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from onnx import NodeProto, TensorProto

from onnx_notebook_profiler.errors import ExpressionError, ModelError, SizeError
from onnx_notebook_profiler.plan import GraphPlan, Step
from onnx_notebook_profiler.plan.views import viewed_inputs
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from onnx_notebook_profiler.symbolic.sizes import Size
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import (
    ZERO,
    Work,
    find_read_rule,
    find_rule,
)
from onnx_notebook_profiler.symbolic.work_rules.without_rule import BODY, NO_RULE, WITHOUT_RULE

__all__ = ["ModelWork", "NodeWork", "WorkSum", "WorkTotals", "count_work"]

_T = TypeVar("_T")
_QUANTITIES = ("macs", "flops", "read", "written")


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

    @property
    def is_unknown(self) -> bool:
        """Whether any of the four is unknown."""
        return any(getattr(self, name) is None for name in _QUANTITIES)

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
        """Operators that no rule counts, sorted."""
        return tuple(sorted({node.op for node in self if not node.is_ruled}))

    def __repr__(self) -> str:
        unknown = sum(node.is_unknown for node in self)
        return f"ModelWork({len(self)} nodes, {unknown} unknown, dims {', '.join(self.dims) or 'none'})"

    @functools.cached_property
    def _forms(self) -> CompiledForms:
        forms = [getattr(node, name) for node in self for name in _QUANTITIES]
        return CompiledForms([ZERO if form is None else form for form in forms], self.dims)

    def totals(self, sizes: Mapping[str, Size]) -> WorkTotals:
        """What the nodes add up to.

        Raises:
            SizeError: A dimension is missing, unknown, negative or no integer, or a value leaves 64 bits.
        """
        values = self._forms(sizes)
        if values.ndim != 1:
            raise SizeError("work_totals takes one size for each dimension, got an array of sizes")
        rows = values.reshape(-1, len(_QUANTITIES)).tolist()
        kinds: dict[str, list[int]] = {}
        for index, node in enumerate(self):
            kinds.setdefault(node.op, []).append(index)
        parts = {op: self._sum(indices, rows) for op, indices in kinds.items()}
        ordered = sorted(parts.items(), key=lambda item: (-item[1].flops, item[0]))
        whole = self._sum(range(len(self)), rows)
        return WorkTotals(**_fields(whole), by_operator=dict(ordered))

    def _sum(self, indices: Sequence[int], rows: Sequence[Sequence[int]]) -> WorkSum:
        macs, flops, read, written = (
            sum(rows[index][place] for index in indices) for place in range(len(_QUANTITIES))
        )
        unknown = sum(self[index].is_unknown for index in indices)
        return WorkSum(len(indices), macs, flops, read, written, unknown)


def _fields(one: WorkSum) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(WorkSum)}


def count_work(
    plan: GraphPlan,
    types: Mapping[str, ValueType | UnknownSize],
    labels: Sequence[str],
    dims: Sequence[str],
) -> ModelWork:
    """The work of each node of *plan*; *labels* are what its operators are called."""
    constant = _constants(plan)
    return ModelWork.of(
        (
            _node_work(step, label, plan.opsets, types, constant)
            for step, label in zip(plan.steps, labels, strict=True)
        ),
        dims,
    )


def _constants(plan: GraphPlan) -> Callable[[str], TensorProto | None]:
    """The tensor that a name holds: an initializer, or the value of a Constant."""
    made = {
        step.node.output[0]: attribute.t
        for step in plan.steps
        if step.node.op_type == "Constant" and step.node.domain in ("", "ai.onnx")
        for attribute in step.node.attribute
        if attribute.name == "value"
    }

    def constant(name: str) -> TensorProto | None:
        weight = plan.initializers.get(name, made.get(name))
        return weight if isinstance(weight, TensorProto) else None

    return constant


def _node_work(
    step: Step,
    label: str,
    opsets: Mapping[str, int],
    types: Mapping[str, ValueType | UnknownSize],
    constant: Callable[[str], TensorProto | None],
) -> NodeWork:
    if step.bodies:
        return NodeWork(step.index, label, None, None, None, None, BODY, is_ruled=False)
    key = _key(step.node)
    opset = opsets.get(key[0], 1)
    views = viewed_inputs(step.node, opset, constant)
    is_view = bool(views) and views[0] >= 0
    node = PricedNode(step.node, opset, types, constant, is_view=is_view)
    reasons: list[str] = []
    find = find_rule(*key)
    if find is None:
        work = None
        reasons.append(WITHOUT_RULE.get(key, NO_RULE))
    else:
        work = _tried(lambda: find(node), reasons)
    if work is not None and (work.macs is None or work.flops is None):
        reasons.append("the data decides it")
    work = work or Work(None, None)
    read = _tried(lambda: _read(node, key), reasons)
    written = _tried(lambda: _written(node, views), reasons)
    reason = "; ".join(dict.fromkeys(reasons))
    return NodeWork(
        step.index, label, work.macs, work.flops, read, written, reason, is_ruled=find is not None
    )


def _key(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _tried(count: Callable[[], _T], reasons: list[str]) -> _T | None:
    """What *count* gives; None where it is unknown, with the reason added to *reasons*."""
    try:
        return count()
    except (UnknownWork, ExpressionError, ModelError) as error:
        reasons.append(str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        reasons.append("its shapes or attributes are not what its operator expects")
    return None


def _read(node: PricedNode, key: tuple[str, str]) -> Expr:
    """Bytes that a node reads."""
    if node.is_view:
        return ZERO
    special = find_read_rule(*key)
    return special(node) if special is not None else node.bytes_of(node.node.input)


def _written(node: PricedNode, views: Sequence[int]) -> Expr:
    """Bytes of the outputs that are no views."""
    return node.bytes_of(
        name for name, view in zip(node.node.output, views, strict=True) if view < 0
    )
