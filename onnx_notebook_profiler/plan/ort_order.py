"""The order in which onnxruntime runs the nodes of a graph, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from onnx import GraphProto, NodeProto

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import describe_node, shorten
from onnx_notebook_profiler.plan.names import captured_names

__all__ = ["ExecutionOrder", "execution_order", "is_constant", "measured_order"]


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionOrder:
    """Indices of the graph's nodes as they run. Constant nodes never do: they are loaded as initializers."""

    nodes: tuple[int, ...]
    is_measured: bool = False
    """True where a profile told it, False where the rule did."""
    numbers: Mapping[int, int] | None = None
    """The session's own numbers of the nodes, by index in the graph; None where they are the same.

    A session that optimizes numbers what it puts in behind what was there, and saves the nodes in another order: order
    and releases of such a session do not follow from the model that it saved without these.
    """


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


def measured_order(graph: GraphProto, ran: Iterable[tuple[str, int]]) -> ExecutionOrder:
    """The order that a profile shows of a session that runs *graph*.

    Args:
        graph: What the session runs: the model that it saved, or the author's where nothing is replaced.
        ran: Name and ``node_index`` of each node, as one run's rows of the profile have them; a node without a name
            goes by operator and index, such as ``Add_3``.

    Raises:
        ModelError: A name is that of no node, or comes twice, or a node is missing; or nodes have no names, and the
            session numbered them in another way than *graph* does.
    """
    known = {
        node.name or f"{node.op_type}_{index}": index
        for index, node in enumerate(graph.node)
        if not is_constant(node)
    }
    numbers: dict[int, int] = {}
    for name, number in ran:
        if name not in known or known[name] in numbers:
            problem = "comes twice" if name in known else "is no node of the graph"
            raise ModelError(
                f"the measured order has a node {shorten(name)}, which {problem}: give the graph that the session ran, "
                f"such as the optimized model that it saved, and one run of its profile"
            )
        numbers[known[name]] = number
    if len(numbers) != len(known):
        raise ModelError(
            f"the measured order has {len(numbers)} of {len(known)} nodes: give the graph that the session ran, such "
            f"as the optimized model that it saved"
        )
    _check_measured(graph, numbers)
    return ExecutionOrder(tuple(numbers), is_measured=True, numbers=numbers)


def _check_measured(graph: GraphProto, numbers: Mapping[int, int]) -> None:
    """That *graph* is what ran: a session that optimizes gives names that another one gives to other nodes."""
    if any(index != number for index, number in numbers.items()):
        nameless = sum(not graph.node[index].name for index in numbers)
        if nameless:
            raise ModelError(
                f"{nameless} nodes have no name, and the session numbered the nodes anew: which of them ran when is "
                f"not known. Make the session of a model whose nodes have names"
            )
    made_by = {name: index for index in numbers for name in graph.node[index].output if name}
    done: set[int] = set()
    for index in numbers:
        node = graph.node[index]
        for name in (*node.input, *captured_names(node)):
            if name in made_by and made_by[name] not in done:
                raise ModelError(
                    f"in the measured order {describe_node(index, node)} runs before what it reads is made: the graph "
                    f"is that of another session. Let one session save its model and write the profile"
                )
        done.add(index)
