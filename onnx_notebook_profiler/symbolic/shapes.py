"""The shape of every value over the model's symbolic dimensions; the engine is onnx-shape-inference."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator

import onnx_ir as ir
from onnx import GraphProto, ModelProto, TypeProto

from onnx_notebook_profiler.model import LoadedModel, shorten
from onnx_notebook_profiler.symbolic.dims import InputDims
from onnx_notebook_profiler.symbolic.engine_sizes import EngineSizes
from onnx_notebook_profiler.symbolic.inference import Inference
from onnx_notebook_profiler.symbolic.items import Items, Maps
from onnx_notebook_profiler.symbolic.recorded import inferred_by_onnx, recorded_shapes
from onnx_notebook_profiler.symbolic.skeleton import make_skeleton
from onnx_notebook_profiler.symbolic.value_types import (
    DataDim,
    Inferred,
    UnknownSize,
    ValueType,
)

__all__ = ["DataDim", "Inferred", "UnknownSize", "ValueType", "infer_types"]

_logger = logging.getLogger(__name__)


def infer_types(model: LoadedModel, dims: InputDims) -> Inferred:
    """Type and shape of every named value of the main graph and of the bodies, or why there is none.

    Sizes are over *dims* and, where only data decides one, over symbols of :attr:`Inferred.data_dims`.
    """
    sizes = EngineSizes(dims.names)
    skeleton = make_skeleton(model, dims, sizes)
    failure = "no shape rule for its operator"
    try:
        found = _infer(model, dims, sizes, skeleton)
    except Exception as error:  # noqa: BLE001 - what a broken model makes the engine's reader raise; said in `unknown`
        failure = f"shape inference stopped: {type(error).__name__} {shorten(str(error), 200)}"
        _logger.info("%s", failure)
        found = Inferred({}, {}, {})
    missing = {
        name: kind if isinstance(kind, UnknownSize) else UnknownSize(failure)
        for name in _names(model.proto.graph)
        if not isinstance(kind := found.types.get(name), ValueType)
    }
    types = {**found.types, **missing}
    if missing:
        types |= _known_by_others(model, dims, sizes, skeleton, missing)
    limits = (limit for limit in found.limits if limit.size.symbols <= {*dims.names})
    return dataclasses.replace(
        found, types=types, limits=tuple(limits), abbreviations=sizes.abbreviations
    )


def _infer(
    model: LoadedModel, dims: InputDims, sizes: EngineSizes, skeleton: ModelProto
) -> Inferred:
    engine_model = ir.from_proto(skeleton)
    inference = Inference(sizes, model.functions)
    declared = {value.name: value.type for value in model.proto.graph.input}
    for value in engine_model.graph.inputs:
        kind = declared.get(value.name or "", TypeProto())
        shape = dims.shapes.get(value.name or "")
        value.shape = None if shape is None else sizes.to_shape(shape)
        if kind.HasField("sequence_type"):
            _note_sequence(inference, value, kind.sequence_type.elem_type)
        elif kind.HasField("map_type"):
            inference.maps[value] = Maps(_value_type(kind), many=False)
    for value in engine_model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = ir.Shape(value.const_value.shape.numpy())
    opsets = model.opsets
    return inference.graph(engine_model.graph, skeleton.graph.node, opsets)


def _note_sequence(inference: Inference, value: ir.Value, item: TypeProto) -> None:
    if item.HasField("map_type"):
        inference.maps[value] = Maps(_value_type(item), many=True)
    elif item.HasField("tensor_type"):
        inference.items[value] = Items(ir.DataType(item.tensor_type.elem_type), None, None)


def _value_type(kind: TypeProto) -> ir.DataType:
    return ir.DataType(kind.map_type.value_type.tensor_type.elem_type)


def _known_by_others(
    model: LoadedModel,
    dims: InputDims,
    sizes: EngineSizes,
    skeleton: ModelProto,
    missing: dict[str, UnknownSize],
) -> dict[str, ValueType]:
    """Of the *missing* values, those whose shape the model records, or onnx finds, over dimensions of the inputs."""
    recorded = recorded_shapes(model, dims)
    found = {name: recorded[name] for name in missing if name in recorded}
    if len(found) < len(missing):
        skeleton.functions.extend(model.proto.functions)
        names = {
            text: size for text, size in sizes.names().items() if size.symbols <= {*dims.names}
        }
        onnx_types = inferred_by_onnx(skeleton, names)
        found |= {
            name: onnx_types[name] for name in missing if name in onnx_types and name not in found
        }
    return found


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)
