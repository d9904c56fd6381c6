"""A model as the shape engine gets it: no weights, no recorded shapes, dimensions named by us.

Recorded shapes (``value_info``, outputs) are the exporter's opinion and come with names of their own; what the engine
cannot find out is looked up there afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import onnx
import onnx_ir as ir
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from onnx_notebook_profiler.model import LoadedModel, body_graphs
from onnx_notebook_profiler.symbolic.dims import InputDims
from onnx_notebook_profiler.symbolic.engine_sizes import EngineSizes
from onnx_notebook_profiler.symbolic.folding import MOST_ELEMENTS

__all__ = ["make_skeleton"]


def make_skeleton(model: LoadedModel, dims: InputDims, sizes: EngineSizes) -> ModelProto:
    """A copy of the main graph for the engine; functions stay out, they are gone through call by call."""
    proto = model.proto
    skeleton = ModelProto(ir_version=proto.ir_version)
    for domain, version in model.opsets.items():
        skeleton.opset_import.add(domain=domain, version=version)
    graph = skeleton.graph
    graph.name = "graph"
    graph.node.extend(map(_without_names, proto.graph.node))
    for value in proto.graph.input:
        graph.input.append(_input(value, dims, sizes))
    given = {value.name: value for value in graph.input}
    graph.output.extend(given.get(one.name) or _without_shape(one) for one in proto.graph.output)
    for tensor in proto.graph.initializer:
        graph.initializer.append(_without_data(tensor))
    for sparse in proto.graph.sparse_initializer:
        stub = TensorProto(
            name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims
        )
        graph.initializer.append(_as_external(stub))
    return skeleton


def _input(value: ValueInfoProto, dims: InputDims, sizes: EngineSizes) -> ValueInfoProto:
    shape = dims.shapes.get(value.name)
    if not value.type.HasField("tensor_type") or shape is None:
        copy = ValueInfoProto(name=value.name)
        if not _holds_maps(value.type):
            copy.type.CopyFrom(value.type)
            _forget_names((), [copy])
        return copy
    kind = TypeProto()
    kind.tensor_type.elem_type = value.type.tensor_type.elem_type
    kind.tensor_type.shape.SetInParent()
    for size in shape:
        dim = sizes.to_dim(size)
        if isinstance(dim, ir.SymbolicDim):
            kind.tensor_type.shape.dim.add(dim_param=dim.value)
        else:
            kind.tensor_type.shape.dim.add(dim_value=dim)
    return ValueInfoProto(name=value.name, type=kind)


def _holds_maps(kind: TypeProto) -> bool:
    """Whether a map is somewhere in the type: the engine knows none."""
    name = kind.WhichOneof("value")
    if name in ("sequence_type", "optional_type"):
        return _holds_maps(getattr(kind, name).elem_type)
    return bool(name == "map_type")


def _without_names(node: NodeProto) -> NodeProto:
    """*node*, its bodies without names of dimensions: the engine parses them, and they are none of its own."""
    if not body_graphs(node):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    _forget_names([copy], ())
    return copy


def _forget_names(nodes: Iterable[NodeProto], values: Iterable[ValueInfoProto]) -> None:
    """Clear the names of dimensions in the types of *values*, and in all bodies of *nodes*, in place."""
    for value in values:
        kind = value.type
        while kind.HasField("sequence_type") or kind.HasField("optional_type"):
            kind = getattr(kind, kind.WhichOneof("value") or "").elem_type
        for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
            dim.ClearField("dim_param")
    for node in nodes:
        for graph in body_graphs(node).values():
            _forget_names(graph.node, (*graph.input, *graph.output, *graph.value_info))


def _without_shape(output: ValueInfoProto) -> ValueInfoProto:
    code = output.type.tensor_type.elem_type if output.type.HasField("tensor_type") else 0
    if not code:
        return ValueInfoProto(name=output.name)
    return onnx.helper.make_tensor_value_info(output.name, code, None)


def _without_data(tensor: TensorProto) -> TensorProto:
    small = math.prod(tensor.dims) <= MOST_ELEMENTS
    if small and tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    return _as_external(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))


def _as_external(tensor: TensorProto) -> TensorProto:
    """A tensor whose data lies elsewhere: the engine reads its type and dims and never opens it."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="unread")
    return tensor
