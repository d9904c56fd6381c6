"""Shapes that others found out: what the model records, and what ``onnx.shape_inference`` says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

import onnx
from onnx import ModelProto, ValueInfoProto

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.symbolic.dims import InputDims
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_parser import parse_expression
from onnx_notebook_profiler.symbolic.value_types import ValueType

__all__ = ["inferred_by_onnx", "recorded_shapes"]

_logger = logging.getLogger(__name__)

Lookup = Callable[[str], Expr | None]


def recorded_shapes(model: LoadedModel, dims: InputDims) -> dict[str, ValueType]:
    """What the exporter wrote down: taken where every dimension is a number, or a dimension of the inputs."""
    known = frozenset(dims.names)

    def look_up(text: str) -> Expr | None:
        try:
            size = parse_expression(text)
        except ExpressionError:
            return None
        return size if size.symbols <= known else None

    graph = model.proto.graph
    return _read((*graph.value_info, *graph.output), look_up)


def inferred_by_onnx(skeleton: ModelProto, names: Mapping[str, Expr]) -> dict[str, ValueType]:
    """What ``onnx.shape_inference`` makes of a model with these *names* of dimensions; it computes no expressions."""
    try:
        graph = onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except Exception as error:  # noqa: BLE001 - it raises what a broken model makes it raise
        _logger.info("onnx.shape_inference stopped: %s", error)
        return {}
    return _read((*graph.value_info, *graph.output), names.get)


def _read(values: Iterable[ValueInfoProto], look_up: Lookup) -> dict[str, ValueType]:
    found: dict[str, ValueType] = {}
    for value in values:
        read = _read_type(value, look_up)
        if read is not None:
            found[value.name] = read
    return found


def _read_type(value: ValueInfoProto, look_up: Lookup) -> ValueType | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.elem_type or not kind.HasField("shape"):
        return None
    shape: list[Expr] = []
    for dim in kind.shape.dim:
        size: Expr | None = None
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            size = Expr.constant(dim.dim_value)
        elif dim.dim_param:
            size = look_up(dim.dim_param)
        if size is None:
            return None
        shape.append(size)
    return ValueType(kind.elem_type, tuple(shape))
