"""Builds the plan of a model: numbers the values, finds last uses and views, gives each buffer its account."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from onnx import FunctionProto, GraphProto, NodeProto, TensorProto

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import LoadedModel, body_graphs, describe_node, shorten
from onnx_notebook_profiler.plan.functions import specialise
from onnx_notebook_profiler.plan.graph_plan import (
    ABSENT,
    EXECUTION,
    Body,
    BufferPlan,
    GraphPlan,
    Release,
    Step,
    Weight,
)
from onnx_notebook_profiler.plan.names import captured_names, free_names
from onnx_notebook_profiler.plan.views import viewed_inputs

__all__ = ["build_plan"]

Functions = Mapping[tuple[str, str], FunctionProto]


def build_plan(model: LoadedModel) -> GraphPlan:
    """The plan of the main graph, bodies and called functions included.

    Raises:
        ModelError: A function calls itself.
    """
    graph = model.proto.graph
    source = _Source(
        name=graph.name,
        inputs=[value.name for value in graph.input],
        initializers=_initializers(graph),
        nodes=graph.node,
        outputs=[value.name for value in graph.output],
        captures=[],
        opsets=model.opsets,
    )
    return _Builder(source, model.functions, ()).build()


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """The parts that main graphs, bodies and functions have in common."""

    name: str
    inputs: Sequence[str]
    initializers: Mapping[str, Weight]
    nodes: Sequence[NodeProto]
    outputs: Sequence[str]
    captures: Sequence[str]
    opsets: Mapping[str, int]


def _initializers(graph: GraphProto) -> dict[str, Weight]:
    weights: dict[str, Weight] = {tensor.name: tensor for tensor in graph.initializer}
    weights.update((sparse.values.name, sparse) for sparse in graph.sparse_initializer)
    return weights


class _Builder:
    """State while one graph is planned."""

    def __init__(
        self, source: _Source, functions: Functions, calls: tuple[tuple[str, str], ...]
    ) -> None:
        self.source = source
        self.functions = functions
        self.calls = calls
        self.slots: dict[str, int] = {}
        for name in (*source.inputs, *source.initializers, *source.captures):
            self.slots.setdefault(name, len(self.slots))
        self.borrowed = set(self.slots.values())
        self.roots: list[int] = list(range(len(self.slots)))
        self.constants = {
            name: tensor
            for name, tensor in source.initializers.items()
            if name not in source.inputs and isinstance(tensor, TensorProto)
        }

    def build(self) -> GraphPlan:
        source = self.source
        drafts = [self._draft(index, node) for index, node in enumerate(source.nodes)]
        names = list(self.slots)
        output_slots = [self.slots[name] for name in source.outputs]
        kept = frozenset(output_slots)
        accounts = self._accounts(output_slots)
        last_use = self._last_uses(drafts)
        buffers, last_of_root = self._buffers(drafts, names, accounts, last_use)
        steps = [
            dataclasses.replace(
                draft,
                accounts=tuple(
                    EXECUTION if slot == ABSENT else accounts.get(self.roots[slot], EXECUTION)
                    for slot in draft.outputs
                ),
                releases=self._releases(draft, names, kept, last_use, last_of_root, accounts),
            )
            for draft in drafts
        ]
        return GraphPlan(
            name=source.name,
            opsets=source.opsets,
            slots=self.slots,
            inputs=tuple(source.inputs),
            required=tuple(name for name in source.inputs if name not in source.initializers),
            initializers=source.initializers,
            outputs=tuple(source.outputs),
            captures=tuple(source.captures),
            steps=tuple(steps),
            buffers=tuple(buffers),
            value_count=len(self.slots),
        )

    # steps

    def _draft(self, index: int, node: NodeProto) -> Step:
        """A step without accounts and releases; numbers its outputs and finds what they are views of."""
        inputs = tuple(self.slots[name] if name else ABSENT for name in node.input)
        bodies, is_call = self._bodies(index, node)
        opset = self.source.opsets.get(node.domain if node.domain != "ai.onnx" else "", 1)
        views = [ABSENT] * len(node.output)
        if not is_call:
            views = list(viewed_inputs(node, opset, self.constants.get))
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self.constants.update(
                (node.output[0], attribute.t)
                for attribute in node.attribute
                if attribute.name == "value"
            )
        outputs = []
        for position, name in enumerate(node.output):
            if not name:
                outputs.append(ABSENT)
                continue
            slot = self.slots[name] = len(self.slots)
            root = slot
            if views[position] != ABSENT:
                root = self.roots[inputs[views[position]]]
                if root in self.borrowed and name in self.source.outputs:
                    views[position], root = (
                        ABSENT,
                        slot,
                    )  # a copy: the caller must never get hold of our bytes
            self.roots.append(root)
            outputs.append(slot)
        return Step(index, node, inputs, tuple(outputs), tuple(views), (), bodies, is_call, ())

    def _bodies(self, index: int, node: NodeProto) -> tuple[tuple[Body, ...], bool]:
        key = (node.domain if node.domain != "ai.onnx" else "", node.op_type)
        function = self.functions.get(key)
        if function is not None:
            return (self._function_body(index, node, key, function),), True
        bodies = []
        for attribute, graph in body_graphs(node).items():
            captures = free_names(graph)
            inner = _Source(
                name=graph.name,
                inputs=[value.name for value in graph.input],
                initializers=_initializers(graph),
                nodes=graph.node,
                outputs=[value.name for value in graph.output],
                captures=captures,
                opsets=self.source.opsets,
            )
            plan = _Builder(inner, self.functions, self.calls).build()
            pairs = tuple((self.slots[name], plan.slots[name]) for name in captures)
            bodies.append(Body(attribute, plan, pairs))
        return tuple(bodies), False

    def _function_body(
        self, index: int, node: NodeProto, key: tuple[str, str], function: FunctionProto
    ) -> Body:
        if key in self.calls:
            raise ModelError(
                f"{describe_node(index, node)}: function {shorten(function.name)} calls itself "
                f"({' -> '.join(name for _, name in (*self.calls, key))}): ONNX functions must not be recursive"
            )
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(
                f"{describe_node(index, node)} has {len(node.input)} inputs and {len(node.output)} outputs, "
                f"but function {shorten(function.name)} takes {len(function.input)} and gives {len(function.output)}"
            )
        inner = _Source(
            name=function.name,
            inputs=list(function.input),
            initializers={},
            nodes=specialise(function, node),
            outputs=list(function.output),
            captures=[],
            opsets={
                entry.domain if entry.domain != "ai.onnx" else "": entry.version
                for entry in function.opset_import
            },
        )
        plan = _Builder(inner, self.functions, (*self.calls, key)).build()
        return Body(function.name, plan, ())

    # lives

    def _accounts(self, output_slots: Sequence[int]) -> dict[int, int]:
        """For each root that reaches an output: the first output that it reaches. Borrowed bytes have no account."""
        accounts: dict[int, int] = {}
        for number, slot in enumerate(output_slots):
            root = self.roots[slot]
            if root not in self.borrowed:
                accounts.setdefault(root, number)
        return accounts

    def _last_uses(self, drafts: Sequence[Step]) -> dict[int, int]:
        """Last step that reads each slot, bodies included; a value that nobody reads is used where it is made."""
        last: dict[int, int] = {}
        for draft in drafts:
            last.update((slot, draft.index) for slot in draft.outputs if slot != ABSENT)
        for draft in drafts:
            last.update((slot, draft.index) for slot in draft.inputs if slot != ABSENT)
            for body in draft.bodies:
                last.update((outer, draft.index) for outer, _ in body.captures)
        return last

    def _buffers(
        self,
        drafts: Sequence[Step],
        names: Sequence[str],
        accounts: Mapping[int, int],
        last_use: Mapping[int, int],
    ) -> tuple[list[BufferPlan], dict[int, int]]:
        end = len(drafts) - 1
        members: dict[int, list[int]] = {}
        for slot, root in enumerate(self.roots):
            members.setdefault(root, []).append(slot)
        buffers, last_of_root = [], {}
        for draft in drafts:
            for slot in draft.outputs:
                if slot == ABSENT or self.roots[slot] != slot:
                    continue
                account = accounts.get(slot, EXECUTION)
                last = end if account != EXECUTION else max(last_use[one] for one in members[slot])
                last_of_root[slot] = last
                buffers.append(
                    BufferPlan(
                        tuple(names[one] for one in members[slot]), account, draft.index, last
                    )
                )
        return buffers, last_of_root

    def _releases(
        self,
        draft: Step,
        names: Sequence[str],
        kept: frozenset[int],
        last_use: Mapping[int, int],
        last_of_root: Mapping[int, int],
        accounts: Mapping[int, int],
    ) -> tuple[Release, ...]:
        """What goes after this step: its inputs in order, then captured values, then outputs that nobody reads."""
        captured = (
            [self.slots[name] for name in captured_names(draft.node)]
            if draft.bodies and not draft.is_call
            else []
        )
        going = [
            slot
            for slot in dict.fromkeys((*draft.inputs, *captured, *draft.outputs))
            if slot != ABSENT
            and slot not in self.borrowed
            and slot not in kept
            and last_use[slot] == draft.index
        ]
        closing = {
            self.roots[slot]: slot
            for slot in going
            if self.roots[slot] not in accounts
            and last_of_root.get(self.roots[slot]) == draft.index
        }
        return tuple(
            Release(
                slot,
                names[slot],
                self.roots[slot] if closing.get(self.roots[slot]) == slot else ABSENT,
            )
            for slot in going
        )
