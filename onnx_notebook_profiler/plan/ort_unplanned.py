"""Where no verified rule says what onnxruntime plans: said for each node, never guessed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping

from onnx import GraphProto, NodeProto, TensorProto

from onnx_notebook_profiler.model import LoadedModel, body_graphs, describe_node
from onnx_notebook_profiler.plan.ort_operators import may_be_expanded, operator_key
from onnx_notebook_profiler.plan.ort_order import is_constant
from onnx_notebook_profiler.plan.ort_types import RuntimeType

__all__ = ["Unplanned", "find_unplanned"]

_ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Domains whose inference is that of the onnx package, in the runtime too."""

_SHORT_FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)

_SAVED = "plan the model that a session saved (optimized_model_filepath)"


@dataclasses.dataclass(frozen=True, slots=True)
class Unplanned:
    """A node at which no verified rule says what the runtime does."""

    node: int
    reason: str


def find_unplanned(model: LoadedModel, types: Mapping[str, RuntimeType]) -> tuple[Unplanned, ...]:
    """The nodes of the main graph that no verified rule covers, each with the first reason."""
    graph = model.proto.graph
    checks = _Checks(model, types)
    found = []
    for index, node in enumerate(graph.node):
        if not is_constant(node):
            reason = next(checks.reasons(node), None)
            if reason is not None:
                found.append(Unplanned(index, f"{describe_node(index, node)} {reason}"))
    return tuple(found)


class _Checks:
    """Asks the nodes one after the other, in the order of the graph."""

    def __init__(self, model: LoadedModel, types: Mapping[str, RuntimeType]) -> None:
        graph = model.proto.graph
        self.functions = model.functions
        self.opset = model.opsets[""]
        self.types = types
        self.reads = _reads(graph)
        self.casts: set[str] = set()
        self.unclear: set[str] = set()
        """Values of which the runtime may know more than this package does."""

    def reasons(self, node: NodeProto) -> Iterator[str]:
        """Why what happens at *node* is not known."""
        is_unclear = self._note(node)
        names = [name for name in (*node.input, *node.output) if name]
        known = [self.types[name] for name in names if name in self.types]
        if body_graphs(node):
            yield "runs bodies: their memory and what they read have no verified rule"
        first = self.types.get(node.input[0]) if node.input else None
        if operator_key(node) in self.functions or may_be_expanded(
            node, self.opset, first.data_type if first else 0
        ):
            yield f"may be replaced by the nodes of its function: {_SAVED}"
        if any(kind.kind == "tensors" for kind in known):
            yield "takes or makes a sequence or an optional: no verified rule"
        if any(kind.data_type in _SHORT_FLOATS for kind in known):
            yield f"computes in 16 bits, for which the runtime may put in Cast nodes: {_SAVED}"
        if operator_key(node) == ("", "Cast") and node.input[0] in self.casts:
            yield f"follows a Cast, and the runtime may drop both: {_SAVED}"
        if node.op_type == "DequantizeLinear" and self.reads[node.output[0]] > 1:
            yield f"is read by several nodes, and the runtime may run it for each: {_SAVED}"
        if is_unclear:
            yield "has outputs whose shape the runtime infers by rules of its own: give their types"

    def _note(self, node: NodeProto) -> bool:
        """Remember what later nodes depend on; whether an output of *node* is unclear."""
        if operator_key(node) == ("", "Cast"):
            self.casts.add(node.output[0])
        foreign = node.domain not in _ONNX_DOMAINS
        if not foreign and self.unclear.isdisjoint(node.input):
            return False
        unclear = [name for name in node.output if name and not self._is_settled(name)]
        self.unclear.update(unclear)
        return bool(unclear)

    def _is_settled(self, name: str) -> bool:
        """Whether rank and every dimension are known, so that the runtime has nothing to add."""
        kind = self.types.get(name)
        return kind is not None and kind.shape is not None and None not in kind.shape


def _reads(graph: GraphProto) -> Counter[str]:
    """How many nodes read each value, the caller included."""
    found = Counter(name for node in graph.node for name in set(node.input))
    found.update(value.name for value in graph.output)
    return found
