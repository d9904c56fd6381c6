"""Where no verified rule says what onnxruntime plans: said for each node, never guessed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

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


def find_unplanned(
    model: LoadedModel,
    types: Mapping[str, RuntimeType],
    *,
    are_measured: bool = False,
    is_saved: bool = False,
) -> tuple[Unplanned, ...]:
    """The nodes of the main graph that no verified rule covers, each with the first reason.

    Args:
        are_measured: Whether the runtime itself gave the *types*.
        is_saved: Whether a session saved the model: then what it replaces has been replaced.
    """
    graph = model.proto.graph
    checks = _Checks(model, types, are_measured)
    found = []
    for index, node in enumerate(graph.node):
        if not is_constant(node):
            replaced = () if is_saved else checks.replacements(node)
            reason = next(chain(checks.reasons(node), replaced), None)
            if reason is not None:
                found.append(Unplanned(index, f"{describe_node(index, node)} {reason}"))
    return tuple(found)


class _Checks:
    """Asks the nodes one after the other, in the order of the graph."""

    def __init__(
        self, model: LoadedModel, types: Mapping[str, RuntimeType], are_measured: bool
    ) -> None:
        graph = model.proto.graph
        self.functions = model.functions
        self.opset = model.opsets[""]
        self.types = types
        self.are_measured = are_measured
        self.reads = _reads(graph)
        self.casts: set[str] = set()
        self.unclear: set[str] = set()
        """Values of which the runtime may know more than this package does."""

    def reasons(self, node: NodeProto) -> Iterator[str]:
        """Why it is not known what the runtime plans for *node*."""
        unclear = self._unclear_outputs(node)
        kinds = {
            self.types[name].kind for name in (*node.input, *node.output) if name in self.types
        }
        if body_graphs(node):
            yield "runs bodies: their memory and what they read have no verified rule"
        if "tensors" in kinds:
            yield "takes or makes a sequence or an optional: no verified rule"
        if unclear:
            yield "has outputs whose shape the runtime infers by rules of its own: ask it for them"

    def replacements(self, node: NodeProto) -> Iterator[str]:
        """Why the runtime may run other nodes in the place of *node*."""
        types = [self.types[name].data_type for name in node.input if name in self.types]
        first = self.types.get(node.input[0]) if node.input else None
        data_type = first.data_type if first else TensorProto.UNDEFINED
        if operator_key(node) in self.functions or may_be_expanded(node, self.opset, data_type):
            yield f"may be replaced by the nodes of its function: {_SAVED}"
        if not set(_SHORT_FLOATS).isdisjoint(types):
            yield f"computes in 16 bits, for which the runtime may put in Cast nodes: {_SAVED}"
        if operator_key(node) == ("", "Cast"):
            self.casts.add(node.output[0])
            if node.input[0] in self.casts:
                yield f"follows a Cast, and the runtime may drop both: {_SAVED}"
        if node.op_type == "DequantizeLinear" and self.reads[node.output[0]] > 1:
            yield f"is read by several nodes, and the runtime may run it for each: {_SAVED}"

    def _unclear_outputs(self, node: NodeProto) -> list[str]:
        """Outputs of which the runtime may know more than onnx's inference does."""
        is_foreign = node.domain not in _ONNX_DOMAINS
        if self.are_measured or not (is_foreign or not self.unclear.isdisjoint(node.input)):
            return []
        found = [name for name in node.output if name and not self._is_settled(name)]
        self.unclear.update(found)
        return found

    def _is_settled(self, name: str) -> bool:
        """Whether rank and every dimension are known, so that the runtime has nothing to add."""
        kind = self.types.get(name)
        return kind is not None and kind.shape is not None and None not in kind.shape


def _reads(graph: GraphProto) -> Counter[str]:
    """How many nodes read each value, the caller included."""
    found = Counter(name for node in graph.node for name in set(node.input))
    found.update(value.name for value in graph.output)
    return found
