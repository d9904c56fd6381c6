"""A function's body for one call: its attributes take the call's values, inputs that the call lacks are left out."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from onnx_notebook_profiler.model import all_nodes

__all__ = ["specialise"]


def specialise(function: FunctionProto, call: NodeProto) -> list[NodeProto]:
    """The nodes of *function* as *call* runs them.

    An attribute that refers to one of the function's attributes gets the call's value, else the function's default;
    with neither it is left out, so that the operator's own default holds. An input that the call leaves out is left
    out by every node that reads it.
    """
    values = {attribute.name: attribute for attribute in function.attribute_proto}
    values.update({attribute.name: attribute for attribute in call.attribute})
    given = dict(zip(function.input, call.input, strict=False))
    absent = frozenset(name for name in function.input if not given.get(name))
    nodes = list(function.node)
    if any(_refers(node) for node in nodes):
        nodes = [_bind(node, values) for node in nodes]
    if absent and any(name in absent for node in all_nodes(nodes) for name in node.input):
        nodes = [_leave_out(node, absent) for node in nodes]
    return nodes


def _leave_out(node: NodeProto, absent: AbstractSet[str]) -> NodeProto:
    """A copy of *node* that reads nothing of *absent*, nor do its bodies."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    for attribute in copy.attribute:
        graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
        for graph in graphs:
            local = {value.name for value in graph.input}
            local.update(name for inner in graph.node for name in inner.output)
            nodes = [_leave_out(inner, absent - local) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return copy


def _refers(node: NodeProto) -> bool:
    return any(
        attribute.ref_attr_name
        or any(_refers(inner) for inner in attribute.g.node)
        or any(_refers(inner) for graph in attribute.graphs for inner in graph.node)
        for attribute in node.attribute
    )


def _bind(node: NodeProto, values: Mapping[str, AttributeProto]) -> NodeProto:
    bound = NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy = bound.attribute.add()
            copy.CopyFrom(attribute)
        elif attribute.ref_attr_name in values:
            copy = bound.attribute.add()
            copy.CopyFrom(values[attribute.ref_attr_name])
            copy.name = attribute.name
            continue
        else:
            continue
        if attribute.type == AttributeProto.GRAPH:
            _bind_graph(copy.g, values)
        for graph in copy.graphs:
            _bind_graph(graph, values)
    return bound


def _bind_graph(graph: GraphProto, values: Mapping[str, AttributeProto]) -> None:
    nodes = [_bind(node, values) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
