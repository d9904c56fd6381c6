"""What onnxruntime knows of a value before it runs: element type and shape, and which two have one size."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import onnx
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto

from onnx_notebook_profiler.model import LoadedModel

__all__ = ["RuntimeType", "SizeClass", "constant_outputs", "element_bits", "runtime_types"]

_logger = logging.getLogger(__name__)

SizeClass: TypeAlias = "tuple[int, tuple[int | str, ...]]"
"""Bits of an element, dimensions: values of one class have one size, whatever the symbols stand for."""

Kind = Literal["tensor", "tensors", "maps"]
"""What a value is: a tensor, a sequence or optional of tensors, or a map or sequence of maps."""

_MOST_ELEMENTS_READ = 1024
"""Initializers of more elements tell shape inference nothing; it gets them without their data."""


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeType:
    """Type of a value as the runtime sees it while it plans."""

    data_type: int
    """TensorProto code; 0 where it is not known, or the value is no tensor."""
    shape: tuple[int | str | None, ...] | None
    """Each dimension a number, a symbol of the model, or None; None where not even the rank is known."""
    kind: Kind = "tensor"

    @property
    def size_class(self) -> SizeClass | None:
        """Equal for two values whose sizes are the same; None for a value that is the size of nothing else."""
        if self.data_type in (TensorProto.UNDEFINED, TensorProto.STRING) or self.shape is None:
            return None
        known = tuple(size for size in self.shape if size is not None)
        return (element_bits(self.data_type), known) if len(known) == len(self.shape) else None


def element_bits(data_type: int) -> int:
    """Bits of an element as onnxruntime stores it; 0 for strings, whose size the platform decides."""
    if data_type == TensorProto.STRING:
        return 0
    name = TensorProto.DataType.Name(data_type)
    if name.endswith(("INT4", "E2M1")):
        return 4
    if name.endswith("INT2"):
        return 2
    return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize) * 8


def runtime_types(model: LoadedModel) -> Mapping[str, RuntimeType]:
    """Types of the main graph's values, for those that have one: what the model says, and what onnx's inference adds.

    onnxruntime runs the same inference, without following what shapes hold. It keeps no names that the inference makes
    up: a symbol that the model does not have is an unknown dimension.
    """
    graph = model.proto.graph
    symbols = source_symbols(graph)
    found: dict[str, RuntimeType] = {}
    for value in (*_inferred(model), *graph.input):
        kind = _read(value.type, symbols)
        if kind is not None:
            found[value.name] = kind
    for tensor in (*graph.initializer, *constant_outputs(graph).values()):
        found[tensor.name] = RuntimeType(tensor.data_type, tuple(tensor.dims))
    for sparse in graph.sparse_initializer:
        name, data_type = sparse.values.name, sparse.values.data_type
        found[name] = RuntimeType(data_type, tuple(sparse.dims))
    return found


def source_symbols(graph: GraphProto) -> set[str]:
    """The symbols that *graph* itself has in the types of its values."""
    return {
        dim.dim_param
        for value in (*graph.input, *graph.output, *graph.value_info)
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }


def constant_outputs(graph: GraphProto) -> dict[str, TensorProto]:
    """The outputs of Constant nodes, by name, as tensors without data: the runtime loads them as initializers."""
    return {
        node.output[0]: _stub(node.output[0], attribute)
        for node in graph.node
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx")
        for attribute in node.attribute
    }


def _stub(name: str, attribute: onnx.AttributeProto) -> TensorProto:
    kinds = onnx.AttributeProto
    if attribute.type == kinds.TENSOR:
        return TensorProto(name=name, data_type=attribute.t.data_type, dims=attribute.t.dims)
    if attribute.type == kinds.SPARSE_TENSOR:
        sparse = attribute.sparse_tensor
        return TensorProto(name=name, data_type=sparse.values.data_type, dims=sparse.dims)
    value = onnx.helper.get_attribute_value(attribute)
    dims = [len(value)] if isinstance(value, list) else []
    codes = {
        kinds.INT: TensorProto.INT64,
        kinds.INTS: TensorProto.INT64,
        kinds.FLOAT: TensorProto.FLOAT,
        kinds.FLOATS: TensorProto.FLOAT,
    }
    return TensorProto(
        name=name, data_type=codes.get(attribute.type, TensorProto.STRING), dims=dims
    )


def _inferred(model: LoadedModel) -> Iterator[ValueInfoProto]:
    """The types of nodes' outputs; where the inference stops, those that the model records."""
    graph = model.proto.graph
    try:
        graph = onnx.shape_inference.infer_shapes(_without_data(model)).graph
    except Exception as error:  # noqa: BLE001 - it raises what a broken model makes it raise
        _logger.info("onnx.shape_inference stopped: %s", error)
    yield from graph.value_info
    yield from graph.output


def _without_data(model: LoadedModel) -> ModelProto:
    proto, graph = model.proto, model.proto.graph
    light = ModelProto(ir_version=proto.ir_version)
    for domain, version in model.opsets.items():
        light.opset_import.add(domain=domain, version=version)
    light.functions.extend(proto.functions)
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    for tensor in graph.initializer:
        few = math.prod(tensor.dims) <= _MOST_ELEMENTS_READ
        if few and tensor.data_location != TensorProto.EXTERNAL:
            light.graph.initializer.append(tensor)
        else:
            light.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
    return light


def _read(kind: TypeProto, symbols: set[str]) -> RuntimeType | None:
    """The type as the runtime knows it; None where there is none."""
    if kind.WhichOneof("value") is None:
        return None
    if not kind.HasField("tensor_type"):
        return RuntimeType(TensorProto.UNDEFINED, None, "maps" if _is_of_maps(kind) else "tensors")
    tensor = kind.tensor_type
    if not tensor.elem_type:
        return None
    if not tensor.HasField("shape"):
        return RuntimeType(tensor.elem_type, None)
    shape: list[int | str | None] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value if dim.dim_value >= 0 else None)
        else:
            shape.append(dim.dim_param if dim.dim_param in symbols else None)
    return RuntimeType(tensor.elem_type, tuple(shape))


def _is_of_maps(kind: TypeProto) -> bool:
    name = kind.WhichOneof("value")
    if name in ("sequence_type", "optional_type"):
        return _is_of_maps(getattr(kind, name).elem_type)
    return bool(name == "map_type")
