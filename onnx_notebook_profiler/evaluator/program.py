"""A plan with a kernel for each step: what the evaluator executes, made once for a model."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto

from onnx_notebook_profiler.errors import ModelError, UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.control_flow import Region, find_region
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array, Kernel, NodeSpec
from onnx_notebook_profiler.evaluator.steady import mark_steady
from onnx_notebook_profiler.evaluator.tiers import FUNCTION, OWN, KernelChoice, Tiers
from onnx_notebook_profiler.evaluator.weights import load_weight
from onnx_notebook_profiler.events.rows import MAX_SAMPLE, NodeCall, NodeStamp
from onnx_notebook_profiler.model import body_graphs, describe_node
from onnx_notebook_profiler.plan import Body, GraphPlan, Step
from onnx_notebook_profiler.plan.graph_plan import ABSENT, EXECUTION
from onnx_notebook_profiler.plan.inplace import dying_inputs
from onnx_notebook_profiler.plan.names import captured_names

__all__ = ["BodyProgram", "Op", "Output", "Program", "build_program"]

_executor_ids = itertools.count(1)

_KEPT_SIGNATURES = 1024
"""Input shapes for which a node keeps its outputs' shapes; a session that sees more starts over."""

_DIFFERENT: Any = None
"""Stands for the shape of a sequence, which may hold other tensors each time."""

OutputPlan = tuple[tuple[int, ...], Any, int, bool]
"""(shape, dtype, bytes, few numbers) of an output; strings and objects have 0 bytes. Few: so many as an event keeps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Where an output of a node goes: *position* among the node's outputs, *view* of which input (ABSENT: of none)."""

    position: int
    slot: int
    name: str
    view: int
    account: int


@dataclasses.dataclass(frozen=True, slots=True)
class BodyProgram:
    """A body with its program; *captures* as in the plan."""

    name: str
    program: Program
    inputs: tuple[tuple[str, int], ...]
    """Name and slot of each input of the body."""
    captures: tuple[tuple[int, int], ...]
    graph: GraphProto | None


Signature = Callable[[Sequence[Any]], Any]
Direct = tuple[int, int, int, str, Callable[..., None]]
"""Slot, view, account and name of an op's only output, and its compute."""


@dataclasses.dataclass(slots=True)
class Op:
    """One step, ready to run."""

    index: int
    label: str
    fetch: Callable[[Sequence[Any]], Sequence[Any]]
    """Takes the inputs out of the values of a frame; for a fallback with bodies the captured values follow."""
    outputs: tuple[Output, ...]
    is_view: bool
    """True where its first output is a view of its first input."""
    direct: Direct | None
    """Set where a kernel of ours has one output, which is not written in place: the case that has to be fast."""
    output_count: int
    releases: tuple[tuple[int, int, str], ...]
    call: NodeCall
    kernel: Kernel | None
    adopting: AdoptingKernel | None
    region: Region | None
    kind: str
    """Kind of its outputs in the log: results of bodies are outputs, all others intermediates."""
    bodies: tuple[BodyProgram, ...]
    signature: Signature
    tiers: Tiers | None
    """What else could run the node; None where it has bodies that run node by node."""
    slots: tuple[int, ...]
    """Where its inputs lie."""
    reuse: tuple[tuple[int, int, int], ...]
    """(input, its slot, slot of its buffer) of what output 0 may take the bytes of."""
    spec: NodeSpec
    constant: tuple[OutputPlan, Array] | None = None
    """Its output where that is known before the run and stays inside: charged like an initializer, not copied."""
    stamp: NodeStamp | None = None
    """For the log, where ``direct`` or ``constant`` is set and every value that is released is a tensor."""
    steady: bool = False
    """True where its inputs look the same whenever what comes from outside has the same shapes."""
    fixed: OutputPlan | None = None
    """What the output of a steady node looks like with the shapes that came last."""
    inferred: dict[Any, tuple[OutputPlan, ...]] = dataclasses.field(default_factory=dict)
    """What the outputs look like, for each signature of the inputs met so far."""

    def infer(self, inputs: Sequence[Any], key: Any) -> tuple[OutputPlan, ...]:
        """Ask the kernel what the outputs look like, and keep the answer under *key*.

        Nothing comes back where the kernel does not do the case: the node then belongs to the next tier, for good.
        """
        assert self.kernel is not None
        try:
            specs = self.kernel.infer(inputs)
        except UnsupportedOperatorError as error:
            self.fall(error)
            return ()
        plans = tuple(_plan_output(shape, dtype) for shape, dtype in specs)
        if len(plans) < self.output_count:
            raise ValueError(
                f"the operator has {len(plans)} outputs, the node names {self.output_count}"
            )
        if len(self.inferred) >= _KEPT_SIGNATURES:
            self.inferred.clear()
        self.inferred[key] = plans
        return plans

    def fall(self, reason: Exception) -> None:
        """Hand the node to the next tier, since the one that it is on does not do the case.

        Raises:
            UnsupportedOperatorError: None is left; the node stays as it is.
        """
        assert self.tiers is not None
        self.settle(self.tiers.advance(reason))

    def settle(self, kernel: Kernel | AdoptingKernel) -> None:
        """Run on *kernel* from now on."""
        assert self.tiers is not None
        self.call = self.call._replace(tier=self.tiers.tier)
        self.inferred.clear()
        self.direct = self.constant = self.stamp = self.fixed = None
        if isinstance(kernel, AdoptingKernel):
            self.kernel, self.adopting, self.reuse = None, kernel, ()
            self.signature = _signature(self.slots, ())
            return
        self.kernel, self.adopting = kernel, None
        self.signature = _signature(self.slots, kernel.value_inputs)
        self.reuse = tuple(one for one in self.reuse if one[0] in kernel.in_place)
        inside = bool(self.outputs) and self.outputs[0].account == EXECUTION
        if kernel.constant is not None and inside:
            value = kernel.constant
            self.constant = (_plan_output(value.shape, value.dtype), value)
            self._make_stamp()
        else:
            self._make_direct(kernel)

    def mark(self, *, steady: bool) -> None:
        """Say whether its inputs look the same whenever what comes from outside has the same shapes."""
        self.steady, self.fixed = steady, None
        if self.kernel is not None and self.constant is None:
            self._make_direct(self.kernel)

    def _make_direct(self, kernel: Kernel) -> None:
        self.direct = self.stamp = None
        if self.output_count != 1 or not self.outputs or self.reuse:
            return
        if self.is_view and not self.steady:
            return  # what comes may be a sequence
        (output,) = self.outputs
        self.direct = (output.slot, output.view, output.account, output.name, kernel.compute)
        if ABSENT not in self.slots:
            self._make_stamp()

    def _make_stamp(self) -> None:
        removed = tuple(name for _, _, name in self.releases)
        zeros = (0,) * len(removed)
        self.stamp = NodeStamp(self.index, self.call, self.outputs[0].name, removed, zeros)


def _plan_output(shape: Sequence[int], dtype: np.dtype[Any]) -> OutputPlan:
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"an output of shape {sizes} is impossible: dimensions are 0 or more")
    count, text = math.prod(sizes), dtype.kind in "OUS"
    nbytes = 0 if text else count * dtype.itemsize
    return (sizes, dtype, nbytes, count <= MAX_SAMPLE and not text)


@dataclasses.dataclass(slots=True)
class Program:
    """The ops of a graph, its constants, and for each value with a buffer the slot that owns it."""

    plan: GraphPlan
    ops: tuple[Op, ...]
    weights: tuple[tuple[int, str, Array], ...]
    roots: dict[int, int]
    template: list[Any]
    """The values of a graph before it runs: the constants, and None."""
    given: tuple[int, ...]
    """Slots of what comes from outside: inputs and captured values."""
    fixed: frozenset[int]
    """Slots of constants, captured ones included, which no feed replaces."""
    types: list[Any] = dataclasses.field(default_factory=list)
    """Types of the values that came from outside last."""
    shapes: list[Any] = dataclasses.field(default_factory=list)
    """Their shapes."""

    def mark_steady(self) -> None:
        """Find the nodes whose inputs look the same whenever what comes from outside has the same shapes."""
        mark_steady(self.ops, self.fixed.union(self.given), self.fixed)

    def meet(self, values: Sequence[Any]) -> None:
        """See what comes from outside, and forget what was worked out for other types or shapes."""
        types: list[Any] = []
        shapes: list[Any] = []
        for slot in self.given:
            value = values[slot]
            if isinstance(value, np.ndarray):
                types.append(value.dtype)
                shapes.append(value.shape)
            else:
                types.append(type(value))
                shapes.append(_DIFFERENT)
        if types != self.types:
            self.forget_shapes()
            self.types = types
        elif shapes != self.shapes or _DIFFERENT in shapes:
            self.forget_plans()
        self.shapes = shapes

    def forget_plans(self) -> None:
        """Drop what was fixed for the shapes of the last feeds."""
        for op in self.ops:
            op.fixed = None

    def forget_shapes(self) -> None:
        """Drop every inferred output, for feeds of other types than before."""
        self.forget_plans()
        for op in self.ops:
            op.inferred.clear()
            for body in op.bodies:
                body.program.forget_shapes()


@dataclasses.dataclass(frozen=True, slots=True)
class Building:
    """What all graphs of a model are built with."""

    folder: Path | None
    """Where external data may lie."""
    kernels: KernelChoice
    inplace: bool
    executor: int = dataclasses.field(default_factory=lambda: next(_executor_ids))


def build_program(
    plan: GraphPlan, folder: Path | None, *, kernels: KernelChoice = "auto", inplace: bool = False
) -> Program:
    """Find a kernel for each step of *plan* and load its constants.

    Raises:
        UnsupportedOperatorError: A node has no implementation; the message names it.
        ModelError: A constant cannot be read.
    """
    return _build(plan, Building(folder, kernels, inplace), {})


def _build(plan: GraphPlan, building: Building, outer: Mapping[str, Array]) -> Program:
    names = list(plan.slots)
    roots: dict[int, int] = {}
    for buffer in plan.buffers:
        owner = plan.slots[buffer.names[0]]
        roots.update((plan.slots[name], owner) for name in buffer.names)
    weights = tuple(
        (plan.slots[name], name, load_weight(tensor, building.folder))
        for name, tensor in plan.initializers.items()
    )
    constants = {name: outer[name] for name in plan.captures if name in outer}
    constants.update((name, value) for _, name, value in weights if name not in plan.inputs)
    ops = tuple(_build_op(step, plan, names, building, constants) for step in plan.steps)
    template: list[Any] = [None] * (plan.value_count + 1)
    for slot, _, value in weights:
        template[slot] = value
    given = tuple(plan.slots[name] for name in (*plan.inputs, *plan.captures))
    fixed = frozenset(plan.slots[name] for name in constants if name in plan.slots)
    program = Program(plan, ops, weights, roots, template, given, fixed)
    program.mark_steady()
    return program


def _build_op(
    step: Step,
    plan: GraphPlan,
    names: Sequence[str],
    building: Building,
    constants: dict[str, Array],
) -> Op:
    node = step.node
    domain = node.domain if node.domain != "ai.onnx" else ""
    spec = node_spec(node, plan.opsets.get(domain, 1))
    bodies = _bodies(step, building, constants)
    region = find_region(spec, is_call=step.is_call) if bodies else None
    captured = captured_names(node) if region is None else []
    tiers = None
    if region is None:
        tiers = Tiers(
            building.kernels,
            spec,
            node,
            plan.opsets,
            captured=captured,
            constants=constants,
            # A copy of unknown type may be of a sequence: like every such copy it is computed and adopted.
            copies=spec.op_type == "Identity" and step.views == (ABSENT,),
        )
    slots = (*step.inputs, *(plan.slots[name] for name in captured))
    outputs = tuple(
        Output(position, slot, names[slot], step.views[position], step.accounts[position])
        for position, slot in enumerate(step.outputs)
        if slot != ABSENT
    )
    tier = FUNCTION if step.is_call else OWN
    op = Op(
        index=step.index,
        label=describe_node(step.index, node),
        fetch=_fetcher(slots),
        outputs=outputs,
        is_view=bool(step.views) and step.views[0] != ABSENT,
        direct=None,
        output_count=len(step.outputs),
        releases=tuple((going.slot, going.frees, going.name) for going in step.releases),
        call=NodeCall(
            domain or "ai.onnx", node.op_type, tuple(node.input), building.executor, 1, tier
        ),
        kernel=None,
        adopting=None,
        region=region,
        kind="intermediate" if region is None else "output",
        bodies=bodies,
        signature=_signature(slots, ()),
        tiers=tiers,
        slots=slots,
        reuse=_reuse(step, outputs) if building.inplace else (),
        spec=spec,
    )
    if tiers is not None:
        try:
            op.settle(tiers.advance())
        except UnsupportedOperatorError as error:
            raise UnsupportedOperatorError(f"{op.label}: {error}") from error
        except ValueError as error:
            raise ModelError(f"{op.label}: {error}") from error
    if (
        node.op_type == "Constant"
        and domain == ""
        and isinstance(spec.attributes.get("value"), np.ndarray)
    ):
        constants[node.output[0]] = spec.attributes["value"]
    return op


def _reuse(step: Step, outputs: Sequence[Output]) -> tuple[tuple[int, int, int], ...]:
    """Inputs whose bytes output 0 may take over: (input, its slot, slot of its buffer)."""
    if not outputs or outputs[0].position != 0 or outputs[0].account != EXECUTION:
        return ()
    frees = {going.slot: going.frees for going in step.releases}
    return tuple(
        (position, step.inputs[position], frees[step.inputs[position]])
        for position in dying_inputs(step)
        if frees[step.inputs[position]] != ABSENT
    )


def _bodies(
    step: Step, building: Building, constants: Mapping[str, Array]
) -> tuple[BodyProgram, ...]:
    graphs = body_graphs(step.node)

    def build(body: Body) -> BodyProgram:
        known = {} if step.is_call else constants
        program = _build(body.plan, building, known)
        slots = body.plan.slots
        inputs = tuple((name, slots[name]) for name in body.plan.inputs)
        return BodyProgram(body.name, program, inputs, body.captures, graphs.get(body.name))

    return tuple(build(body) for body in step.bodies)


def _fetcher(slots: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the values of *slots*, as a tuple; :func:`operator.itemgetter` does so for two and more."""
    if len(slots) > 1:
        return operator.itemgetter(*slots)
    if not slots:
        return lambda _: ()
    (slot,) = slots
    return lambda values: (values[slot],)


def _signature(inputs: Sequence[int], value_inputs: Sequence[int]) -> Signature:
    """What identifies the inputs of a kernel: their shapes, and the contents of those that decide shapes.

    The common cases have functions of their own: the general one takes as long as a small kernel.
    """
    by_value = frozenset(position for position in value_inputs if position < len(inputs))
    if by_value or ABSENT in inputs:
        return lambda given: tuple(
            [
                None
                if one is None
                else (one.shape, one.tobytes() if one.dtype.kind != "O" else tuple(one.flat))
                if position in by_value
                else one.shape
                for position, one in enumerate(given)
            ]
        )
    if len(inputs) == 1:
        return lambda given: given[0].shape
    if len(inputs) == 2:
        return lambda given: (given[0].shape, given[1].shape)
    return lambda given: tuple([one.shape for one in given])
