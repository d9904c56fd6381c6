"""What is alive while the nodes inside another node run: branches, loop bodies, functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.graph_plan import Body, Step
from onnx_notebook_profiler.symbolic.accounts import NodeAccount, evaluator_account
from onnx_notebook_profiler.symbolic.data_sizes import Decided
from onnx_notebook_profiler.symbolic.expression import Expr, minimum
from onnx_notebook_profiler.symbolic.measure import Measure, bytes_of_values
from onnx_notebook_profiler.symbolic.value_types import ValueType

__all__ = ["Moment", "moments"]

Sizes = Mapping[str, Expr | None]

_NOTHING = Expr.constant(0)
_ITERATION_AND_CONDITION = Expr.constant(9)
"""int64 and bool, which a loop hands to its body."""
_FIRST_SCAN_WITHOUT_BATCH = 9


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """A node inside another one while it runs, in the iteration in which most is alive."""

    node: int
    """Node of the main graph."""
    path: tuple[tuple[int, str], ...]
    """(node, body) from the main graph inwards."""
    index: int
    """Node in the innermost body; -1 where nobody knows what the body holds."""
    label: str
    """``Loop_3/body/MatMul_7``: operator and index of each node."""
    total: Expr
    """Bytes alive, outer values included; what has no size is left out."""
    unknown: bool
    """Whether something is left out."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Level:
    """A graph while one of its nodes runs."""

    found: Decided
    sizes: Sizes
    opsets: Mapping[str, int]
    base: Expr
    """Bytes alive outside of it."""
    share: Expr
    """0 or 1: whether its nodes run at all."""
    unknown: bool
    path: tuple[tuple[int, str], ...]
    label: str


def moments(
    plan: GraphPlan,
    accounts: Sequence[NodeAccount],
    found: Decided,
    sizes: Sizes,
    measure: Measure,
) -> Iterator[Moment]:
    """Every node inside the nodes of the main graph, in the order in which they run.

    Args:
        plan: Of the main graph.
        accounts: Of its nodes.
        found: Types of its values and bodies.
        sizes: Bytes of its values.
        measure: Bytes of a type.
    """
    level = _Level(found, sizes, plan.opsets, _NOTHING, Expr.constant(1), False, (), "")
    return _Walk(measure).graph(plan, accounts, level)


class _Walk:
    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def graph(
        self, plan: GraphPlan, accounts: Sequence[NodeAccount], level: _Level
    ) -> Iterator[Moment]:
        for step, account in zip(plan.steps, accounts, strict=True):
            label = f"{level.label}{step.node.op_type}_{step.index}"
            if level.path:
                parts = (one.nbytes for one in account.fresh if one.nbytes is not None)
                here = Expr.sum((account.already, *parts))
                missing = any(one.nbytes is None for one in account.fresh)
                yield Moment(
                    level.path[0][0],
                    level.path,
                    step.index,
                    label,
                    level.base + level.share * here,
                    level.unknown or account.unknown > 0 or missing,
                )
            for body in step.bodies:
                around = dataclasses.replace(
                    level,
                    base=level.base + level.share * account.already,
                    unknown=level.unknown or account.unknown > 0,
                    path=(*level.path, (step.index, body.name)),
                    label=f"{label}/{body.name}/",
                )
                yield from self._body(step, body, around)

    def _body(self, step: Step, body: Body, around: _Level) -> Iterator[Moment]:
        inner = around.found.body(step.index, body.name)
        if inner is None:
            node = around.path[0][0]
            yield Moment(node, around.path, -1, around.label.rstrip("/"), around.base, True)
            return
        runs = around.found.runs(step.index, body.name)
        if runs == _NOTHING:
            return
        share = (
            around.share if runs is None or _is_positive(runs) else around.share * minimum(runs, 1)
        )
        held = _HELD[_kind(step, around)](_Holder(self._measure, step, body, around, inner, runs))
        sizes = bytes_of_values(body.plan, inner.types, self._measure, around.sizes)
        level = _Level(
            found=inner,
            sizes=sizes,
            opsets=body.plan.opsets,
            base=around.base + share * (held or _NOTHING),
            share=share,
            unknown=around.unknown or held is None,
            path=around.path,
            label=around.label,
        )
        accounts = list(evaluator_account(body.plan, sizes.get, {}, lambda _: 1))
        yield from self.graph(body.plan, accounts, level)


def _is_positive(runs: Expr) -> bool:
    return runs.is_constant and runs.value > 0


# what the node itself holds while its body runs for the last time


@dataclasses.dataclass(frozen=True, slots=True)
class _Holder:
    measure: Measure
    step: Step
    body: Body
    around: _Level
    inner: Decided
    runs: Expr | None

    @property
    def again(self) -> Expr:
        """1 where the body has run before; a body of which nobody knows how often it runs has."""
        if self.runs is None:
            return Expr.constant(1)
        return minimum(self.runs - 1, 1)

    def results(self, names: Sequence[str]) -> Expr | None:
        """Bytes of outputs of the body together."""
        sizes = []
        for name in names:
            kind = self.inner.types.get(name)
            sizes.append(self.measure(kind) if isinstance(kind, ValueType) else None)
        return _sum(sizes)


def _sum(sizes: Sequence[Expr | None]) -> Expr | None:
    known = [size for size in sizes if size is not None]
    return Expr.sum(known) if len(known) == len(sizes) else None


def _nothing(_: _Holder) -> Expr:
    return _NOTHING


def _nobody_knows(_: _Holder) -> None:
    return None


def _loop(holder: _Holder) -> Expr | None:
    """Number of the iteration and condition, the state of the iteration before, a piece of each for every output."""
    outputs = holder.body.plan.outputs
    states = len(holder.step.node.input) - 2
    carried = holder.results(outputs[1 : 1 + states])
    pieces = holder.results(outputs[1 + states :])
    if carried is None or pieces is None or (holder.runs is None and pieces != _NOTHING):
        return None
    held = _ITERATION_AND_CONDITION + holder.again * carried
    return held if holder.runs is None else held + (holder.runs - 1) * pieces


def _scan(holder: _Holder) -> Expr | None:
    """The state of the step before, the outputs as a whole from the first step on, slices that had to be copied."""
    node = holder.step.node
    attributes = {one.name: one for one in node.attribute}
    scanned = attributes["num_scan_inputs"].i
    states = len(node.input) - scanned
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else []
    carried = holder.results(holder.body.plan.outputs[:states])
    stacked = _sum([holder.around.sizes.get(name) for name in node.output[states:] if name])
    copied: list[Expr | None] = []
    for place, name in enumerate(holder.body.plan.inputs[states:]):
        kind = holder.inner.types.get(name)
        if not isinstance(kind, ValueType):
            copied.append(None)
        elif place < len(axes) and axes[place] % (len(kind.shape) + 1):
            copied.append(holder.measure(kind))
    slices = _sum(copied)
    if carried is None or stacked is None or slices is None:
        return None
    unnamed = [
        name
        for name, given in zip(
            holder.body.plan.outputs[states:], node.output[states:], strict=False
        )
        if not given
    ]
    left_out = holder.results(unnamed)
    if left_out is None or holder.runs is None:
        return None
    return slices + holder.again * (carried + stacked + holder.runs * left_out)


def _kind(step: Step, around: _Level) -> str:
    if step.is_call:
        return "call"
    domain = "" if step.node.domain == "ai.onnx" else step.node.domain
    if domain or step.node.op_type not in _HELD:
        return "other"
    if step.node.op_type == "Scan" and around.opsets.get("", 1) < _FIRST_SCAN_WITHOUT_BATCH:
        return "other"
    return step.node.op_type


_HELD: Mapping[str, Callable[[_Holder], Expr | None]] = {
    "call": _nothing,
    "If": _nothing,
    "Loop": _loop,
    "Scan": _scan,
    "other": _nobody_knows,
}
