"""A model as a few lines of text: opsets, inputs, initializers, numbered nodes, outputs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto

from onnx_notebook_profiler.model import ModelSource, load_model

__all__ = ["pretty_onnx"]

_TYPE_NAMES = {
    TensorProto.FLOAT: "float",
    TensorProto.DOUBLE: "double",
    **{
        value: name.lower()
        for name, value in TensorProto.DataType.items()
        if name not in ("FLOAT", "DOUBLE", "UNDEFINED")
    },
}


def pretty_onnx(model: ModelSource, *, with_attributes: bool = False) -> str:
    """The structure of a model, one line for each part; dimensions without name or value are ``?``.

    Args:
        with_attributes: Show the attributes of each node after its outputs.

    Raises:
        ModelError: The model cannot be read or is not well formed.
    """
    proto = load_model(model).proto
    lines = [
        f"opset: domain={entry.domain!r} version={entry.version}" for entry in proto.opset_import
    ]
    lines += _graph(proto.graph, with_attributes)
    for function in proto.functions:
        lines += ["", f"function: {function.name}[{function.domain}]"]
        lines += [
            f"opset: domain={entry.domain!r} version={entry.version}"
            for entry in function.opset_import
        ]
        lines += [f"input: {name}" for name in function.input]
        lines += [_node(index, node, with_attributes) for index, node in enumerate(function.node)]
        lines += [f"output: {name}" for name in function.output]
    return "\n".join(lines)


def _graph(graph: GraphProto, with_attributes: bool) -> Iterator[str]:
    yield f"graph: name={graph.name!r}"
    for value in graph.input:
        yield f"input: {_type(value.type)} {value.name}"
    for tensor in graph.initializer:
        yield f"init: {_tensor_type(tensor.data_type, map(str, tensor.dims))} {tensor.name}"
    for sparse in graph.sparse_initializer:
        yield f"init: {_tensor_type(sparse.values.data_type, map(str, sparse.dims))} {sparse.values.name}"
    for index, node in enumerate(graph.node):
        yield _node(index, node, with_attributes)
    for value in graph.output:
        yield f"output: {_type(value.type)} {value.name}"


def _type(kind: TypeProto) -> str:
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        dims = (
            str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
            for dim in kind.tensor_type.shape.dim
        )
        return _tensor_type(kind.tensor_type.elem_type, dims)
    if which == "sequence_type":
        return f"seq({_type(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({_type(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = _TYPE_NAMES.get(kind.map_type.key_type, "?")
        return f"map({key}, {_type(kind.map_type.value_type)})"
    return "?"


def _tensor_type(code: int, dims: Iterator[str]) -> str:
    return f"{_TYPE_NAMES.get(code, '?')}[{','.join(dims)}]"


def _node(index: int, node: NodeProto, with_attributes: bool) -> str:
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    line = f"{index}: {domain}{node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)}"
    if with_attributes and node.attribute:
        line += " --- " + ", ".join(f"{one.name}={_attribute(one)}" for one in node.attribute)
    return line


def _attribute(attribute: AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return "<graph>"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return _tensor_type(value.data_type, map(str, value.dims))
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
