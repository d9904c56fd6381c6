"""Where onnxruntime puts each value: the plan that a session makes once, for one node after the other on the CPU."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from onnx import GraphProto

from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.plan.ort_operators import aliased_input, overwritten_input
from onnx_notebook_profiler.plan.ort_order import ExecutionOrder, execution_order, is_constant
from onnx_notebook_profiler.plan.ort_types import RuntimeType, SizeClass, runtime_types
from onnx_notebook_profiler.plan.ort_unplanned import Unplanned, find_unplanned

__all__ = ["AllocationPlan", "Placement", "Rule", "plan_allocation"]

Rule = Literal["output", "alias", "in place", "not a tensor", "free list", "own"]
"""output: a buffer that goes to the caller. alias, in place: that of an input. not a tensor: the value takes none
itself. free list: that of a value that is needed no more. own: a new one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where one output of a node lies."""

    value: str
    node: int
    rule: Rule
    root: str
    """The value whose buffer it is: the value itself where it gets one."""
    source: str = ""
    """alias, in place, free list: the value that it takes the place of."""

    @property
    def is_allocated(self) -> bool:
        """Whether the runtime asks for a buffer when the node runs."""
        return self.rule in ("output", "own")


@dataclasses.dataclass(frozen=True, slots=True)
class AllocationPlan:
    """The plan of one graph; of no use where :attr:`unplanned` says that it is not known."""

    order: ExecutionOrder
    placements: Mapping[str, Placement]
    """By value, in the order of the run."""
    releases: Mapping[int, tuple[str, ...]]
    """By node: the roots whose buffers go back after it, in this order."""
    at_end: tuple[str, ...]
    """Roots that the run holds to its end since nothing reads them, in the order in which they go back."""
    outputs: tuple[str, ...]
    types: Mapping[str, RuntimeType]
    unplanned: tuple[Unplanned, ...]

    def with_element_types(self, found: Mapping[str, int]) -> AllocationPlan:
        """The same plan with the element types of values that shape inference has none for (TensorProto codes)."""
        types = dict(self.types)
        for name, data_type in found.items():
            known = types.get(name, RuntimeType(0, None))
            if name in self.placements and known.kind == "tensor" and not known.data_type:
                types[name] = dataclasses.replace(known, data_type=data_type)
        return dataclasses.replace(self, types=types)


def plan_allocation(
    model: LoadedModel,
    *,
    order: ExecutionOrder | None = None,
    types: Mapping[str, RuntimeType] | None = None,
    reuse: bool = True,
    is_saved: bool = False,
) -> AllocationPlan:
    """Plan the main graph of *model*, which must be the graph that the session runs.

    Args:
        order: The order of the nodes, such as a measured one; None: by the rule.
        types: What the runtime says that it knows of the values; None: what onnx's shape inference finds.
        reuse: The session option ``enable_mem_reuse``.
        is_saved: The model is one that a session saved (``optimized_model_filepath``): nothing in it is replaced.
    """
    graph = model.proto.graph
    order = execution_order(graph) if order is None else order
    known = runtime_types(model) if types is None else types
    planner = _Planner(graph, order, known, reuse)
    for node in order.nodes:
        planner.place_outputs(node)
    numbers = _value_numbers(graph, order)
    releases = _releases(graph, order, planner.placements, numbers)
    released = {root for found in releases.values() for root in found}
    held = [
        name
        for name, placement in planner.placements.items()
        if placement.rule == "own" and name not in released
    ]
    return AllocationPlan(
        order=order,
        placements=planner.placements,
        releases=releases,
        at_end=tuple(sorted(held, key=lambda name: -numbers[name])),
        outputs=tuple(value.name for value in graph.output),
        types=known,
        unplanned=find_unplanned(model, known, are_measured=types is not None, is_saved=is_saved),
    )


class _Planner:
    """Reference counts and free buffers while the nodes are gone through."""

    def __init__(
        self,
        graph: GraphProto,
        order: ExecutionOrder,
        types: Mapping[str, RuntimeType],
        reuse: bool,
    ) -> None:
        self.graph = graph
        self.reuse = reuse
        self.classes = {name: kind.size_class for name, kind in types.items()}
        self.types = types
        self.outputs = {value.name for value in graph.output}
        self.reads = Counter(
            name for index in order.nodes for name in graph.node[index].input if name
        )
        self.uses = Counter(self.reads)
        self.uses.update(name for index in order.nodes for name in graph.node[index].output if name)
        self.uses.update(_kept_values(graph))
        self.placements: dict[str, Placement] = {}
        self.free: dict[SizeClass, list[str]] = {}
        """Roots that nothing needs any more, the latest one last."""

    def place_outputs(self, index: int) -> None:
        """Give each output of a node its place, then let go of what nothing needs after it."""
        node = self.graph.node[index]
        for position, name in enumerate(node.output):
            if name:
                self.placements[name] = placement = self._place(index, position)
                if placement.root != name:
                    self.uses[placement.root] += self.uses[name]
        for name in (*node.input, *node.output):
            if name:
                root = self._root(name)
                self.uses[root] -= 1
                size = self.classes.get(root)
                if self.uses[root] == 0 and size is not None:
                    self.free.setdefault(size, []).append(root)

    def _place(self, index: int, position: int) -> Placement:
        node = self.graph.node[index]
        name = node.output[position]
        if name in self.outputs:
            return Placement(name, index, "output", name)
        source = _given(node.input, aliased_input(node, position))
        if source:
            return Placement(name, index, "alias", self._root(source), source)
        source = _given(node.input, overwritten_input(node, position))
        size = self.classes.get(name)
        fits = bool(source) and size is not None and self.classes.get(source) == size
        if fits and self.uses[self._root(source)] == 1:
            return Placement(name, index, "in place", self._root(source), source)
        kind = self.types.get(name)
        if kind is not None and kind.kind != "tensor":
            return Placement(name, index, "not a tensor", name)
        if self.reuse and self.reads[name] and size is not None and size[1]:
            waiting = self.free.get(size)
            if waiting:
                root = waiting.pop()
                return Placement(name, index, "free list", root, root)
        return Placement(name, index, "own", name)

    def _root(self, name: str) -> str:
        placement = self.placements.get(name)
        return name if placement is None else placement.root


def _given(names: Sequence[str], position: int | None) -> str:
    """The name at *position*; empty where there is none."""
    return names[position] if position is not None and position < len(names) else ""


def _kept_values(graph: GraphProto) -> Iterator[str]:
    """Values that have one use more than nodes make of them: they outlive the run."""
    weights = [tensor.name for tensor in graph.initializer]
    weights += [sparse.values.name for sparse in graph.sparse_initializer]
    weights += [node.output[0] for node in graph.node if is_constant(node)]
    yield from dict.fromkeys((*(value.name for value in graph.input), *weights))
    yield from (value.name for value in graph.output)


def _value_numbers(graph: GraphProto, order: ExecutionOrder) -> dict[str, int]:
    """The runtime's numbers of the values: inputs, then what each node reads and makes, as first seen."""
    names = dict.fromkeys(value.name for value in graph.input)
    numbers = order.numbers or {}
    for index in sorted(order.nodes, key=lambda one: numbers.get(one, one)):
        node = graph.node[index]
        names.update(dict.fromkeys(name for name in (*node.input, *node.output) if name))
    return {name: number for number, name in enumerate(names)}


def _releases(
    graph: GraphProto,
    order: ExecutionOrder,
    placements: Mapping[str, Placement],
    numbers: Mapping[str, int],
) -> dict[int, tuple[str, ...]]:
    """Each buffer of its own goes back after the last node that reads a value in it, by number of the root."""
    last: dict[str, int] = {}
    for index in order.nodes:
        for name in graph.node[index].input:
            root = placements[name].root if name in placements else name
            if root in placements and placements[root].rule == "own":
                last[root] = index
    releases: dict[int, tuple[str, ...]] = {}
    for root in sorted(last, key=numbers.__getitem__):
        releases[last[root]] = (*releases.get(last[root], ()), root)
    return releases
