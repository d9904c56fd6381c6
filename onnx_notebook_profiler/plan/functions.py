"""A function's body for one call: references to the function's attributes take the call's values."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

__all__ = ["specialise"]


def specialise(function: FunctionProto, call: NodeProto) -> list[NodeProto]:
    """The nodes of *function* as *call* runs them.

    An attribute that refers to one of the function's attributes gets the call's value, else the function's default;
    with neither it is left out, so that the operator's own default holds.
    """
    values = {attribute.name: attribute for attribute in function.attribute_proto}
    values.update({attribute.name: attribute for attribute in call.attribute})
    if not any(_refers(node) for node in function.node):
        return list(function.node)
    return [_bind(node, values) for node in function.node]


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
