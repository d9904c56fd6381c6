"""Which outer names a body reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import GraphProto, NodeProto

from onnx_notebook_profiler.model import body_graphs

__all__ = ["captured_names", "free_names"]


def captured_names(node: NodeProto) -> list[str]:
    """Outer names that the bodies of *node* read, at any depth, in order of first use."""
    found: dict[str, None] = {}
    for graph in body_graphs(node).values():
        found.update(dict.fromkeys(free_names(graph)))
    return list(found)


def free_names(graph: GraphProto) -> list[str]:
    """Names that *graph* reads and does not define, in order of first use.

    A name that is defined anywhere in the graph is local to it, whatever the outer graph calls so.
    """
    local = {value.name for value in graph.input}
    local.update(tensor.name for tensor in graph.initializer)
    local.update(sparse.values.name for sparse in graph.sparse_initializer)
    return _free(graph.node, [output.name for output in graph.output], local)


def _free(nodes: Sequence[NodeProto], outputs: Iterable[str], local: set[str]) -> list[str]:
    for node in nodes:
        local.update(node.output)
    found: dict[str, None] = {}
    for node in nodes:
        for name in (*node.input, *captured_names(node)):
            if name and name not in local:
                found[name] = None
    for name in outputs:
        if name and name not in local:
            found[name] = None
    return list(found)
