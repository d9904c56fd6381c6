"""The order in which onnxruntime runs the nodes of a graph, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from onnx import GraphProto, NodeProto

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.plan.names import captured_names

__all__ = ["ExecutionOrder", "execution_order", "is_constant", "measured_order"]


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """Indices of the graph's nodes as they run. Constant nodes never do: they are loaded as initializers."""

    nodes: tuple[int, ...]
    is_measured: bool = False
    """True where a profile told it, False where the rule did."""


def is_constant(node: NodeProto) -> bool:
    """Whether the runtime makes an initializer of *node* when it loads the model."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def execution_order(graph: GraphProto) -> ExecutionOrder:
    """The rule: depth first and backwards from the nodes that no node reads.

    Those go on a stack by index, so that the last one is visited first. A visited node comes after all its producers,
    of which the one with the highest index is visited first; what bodies read counts like inputs.
    """
    makers = {
        name: index
        for index, node in enumerate(graph.node)
        if not is_constant(node)
        for name in node.output
        if name
    }
    producers = [
        sorted({makers[name] for name in (*node.input, *captured_names(node)) if name in makers})
        for node in graph.node
    ]
    read = {producer for found in producers for producer in found}
    stack = [
        (index, False)
        for index, node in enumerate(graph.node)
        if index not in read and not is_constant(node)
    ]
    visited: set[int] = set()
    order: list[int] = []
    while stack:
        index, leaving = stack.pop()
        if leaving:
            order.append(index)
        elif index not in visited:
            visited.add(index)
            stack.append((index, True))
            stack.extend((one, False) for one in producers[index] if one not in visited)
    return ExecutionOrder(tuple(order))


def measured_order(graph: GraphProto, names: Iterable[str]) -> ExecutionOrder:
    """The order that a profile of a session on *graph* shows.

    Args:
        names: Names of the nodes as they ran; a node without a name goes by operator and index, such as ``Add_3``.

    Raises:
        ModelError: A name is that of no node, or comes twice, or a node is missing.
    """
    known = {
        node.name or f"{node.op_type}_{index}": index
        for index, node in enumerate(graph.node)
        if not is_constant(node)
    }
    found: dict[int, None] = {}
    for name in names:
        index = known.get(name)
        if index is None or index in found:
            problem = "comes twice" if index is not None else "is no node of the graph"
            raise ModelError(
                f"the measured order names {shorten(name)}, which {problem}: give the graph that the session ran, "
                f"such as the optimized model that it saved, and one run of its profile"
            )
        found[index] = None
    if len(found) != len(known):
        raise ModelError(
            f"the measured order has {len(found)} of {len(known)} nodes: give the graph that the session ran, "
            f"such as the optimized model that it saved"
        )
    return ExecutionOrder(tuple(found), is_measured=True)
