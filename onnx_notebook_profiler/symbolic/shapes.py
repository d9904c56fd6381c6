"""The shape of every value over the model's symbolic dimensions; the engine is onnx-shape-inference."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator

import onnx
import onnx_ir as ir
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx_shape_inference import infer_symbolic_shapes

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.model import LoadedModel, body_graphs, shorten
from onnx_notebook_profiler.symbolic.broadcasting import Broadcasts
from onnx_notebook_profiler.symbolic.dims import InputDims
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_parser import parse_expression
from onnx_notebook_profiler.symbolic.expression_sympy import from_sympy
from onnx_notebook_profiler.symbolic.rules import Watch, install_rules

__all__ = ["UnknownSize", "ValueType", "infer_types"]

_logger = logging.getLogger(__name__)

_SMALL_ELEMENTS = 256
"""Constants up to this size stay in the copy that the engine sees: shapes may be computed from them."""


@dataclasses.dataclass(frozen=True, slots=True)
class ValueType:
    """A tensor's element type (TensorProto code) and its dimensions."""

    data_type: int
    shape: tuple[Expr, ...]

    @property
    def elements(self) -> Expr:
        """How many elements it has."""
        return Expr.product(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownSize:
    """Why a value has no size."""

    reason: str


def infer_types(model: LoadedModel, dims: InputDims) -> dict[str, ValueType | UnknownSize]:
    """Type and shape of every named value of the main graph, or why there is none."""
    names = _EngineNames(dims)
    skeleton = _skeleton(model, dims, names)
    found: dict[str, ValueType | UnknownSize] = {}
    failure = ""
    watch = Watch()
    try:
        install_rules()
        engine_model = ir.from_proto(skeleton)
        with names.broadcasts.active(), watch.on():
            infer_symbolic_shapes(engine_model, warn_on_missing=False, adopt_declared_symbols=False)
        for value in _values(engine_model.graph):
            found[value.name or ""] = _read_value(value, names)
    except Exception as error:  # noqa: BLE001 - the engine raises what a broken model makes it raise; said in `unknown`
        failure = f"shape inference stopped: {type(error).__name__} {shorten(str(error), 200)}"
        _logger.info("%s; onnx.shape_inference is used instead", failure)
        found = _infer_with_onnx(skeleton, names)
    declared = _declared(model, names)
    for name in _names(model.proto.graph):
        if isinstance(found.get(name, UnknownSize("")), UnknownSize):
            reason = found.get(name)
            if name in watch.failures:
                reason = UnknownSize(watch.failures[name])
            found[name] = declared.get(name) or (
                reason
                if isinstance(reason, UnknownSize)
                else UnknownSize(failure or "no shape rule for its operator")
            )
    return found


class _EngineNames:
    """Names of dimensions for the engine, which parses them: ``d0``, ``d1``, … for whatever the user sees."""

    def __init__(self, dims: InputDims) -> None:
        self._engine = {name: f"onp_d{number}" for number, name in enumerate(dims.names)}
        self._user = {engine: name for name, engine in self._engine.items()}
        self.broadcasts = Broadcasts()

    def engine_text(self, size: Expr) -> str:
        renamed = size.substitute(
            {name: Expr.symbol(other) for name, other in self._engine.items()}
        )
        return str(renamed)

    def to_user(self, size: Expr) -> Expr | None:
        """*size* over the user's dimensions; None where it holds a symbol that the engine made up."""
        size = self.broadcasts.expand(size)
        if not size.symbols <= self._user.keys():
            return None
        return size.substitute({engine: Expr.symbol(name) for engine, name in self._user.items()})


def _skeleton(model: LoadedModel, dims: InputDims, names: _EngineNames) -> ModelProto:
    """The model for the engine: no weights, no recorded shapes, dimensions named by us.

    Recorded shapes (``value_info``, outputs) are the exporter's opinion and come with names of their own; what the
    engine cannot find out is looked up there afterwards.
    """
    proto = model.proto
    skeleton = ModelProto(ir_version=proto.ir_version)
    for domain, version in model.opsets.items():
        skeleton.opset_import.add(domain=domain, version=version)
    skeleton.functions.extend(proto.functions)
    for function in skeleton.functions:
        _forget_names(function.node, function.value_info)
    graph = skeleton.graph
    graph.name = "graph"
    graph.node.extend(map(_without_names, proto.graph.node))
    for value in proto.graph.input:
        graph.input.append(_input(value, dims, names))
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


def _input(value: ValueInfoProto, dims: InputDims, names: _EngineNames) -> ValueInfoProto:
    shape = dims.shapes.get(value.name)
    if not value.type.HasField("tensor_type") or shape is None:
        copy = ValueInfoProto()
        copy.CopyFrom(value)
        _forget_names((), [copy])
        return copy
    kind = TypeProto()
    kind.tensor_type.elem_type = value.type.tensor_type.elem_type
    kind.tensor_type.shape.SetInParent()
    for size in shape:
        if size.is_constant:
            kind.tensor_type.shape.dim.add(dim_value=size.value)
        else:
            kind.tensor_type.shape.dim.add(dim_param=names.engine_text(size))
    return ValueInfoProto(name=value.name, type=kind)


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
            if node.op_type == "Loop" and node.domain in ("", "ai.onnx"):
                for state in graph.input[2:]:  # it looks like what is fed, whatever is declared
                    state.type.tensor_type.ClearField("shape")
            _forget_names(graph.node, (*graph.input, *graph.output, *graph.value_info))


def _without_shape(output: ValueInfoProto) -> ValueInfoProto:
    code = output.type.tensor_type.elem_type if output.type.HasField("tensor_type") else 0
    if not code:
        return ValueInfoProto(name=output.name)
    return onnx.helper.make_tensor_value_info(output.name, code, None)


def _without_data(tensor: TensorProto) -> TensorProto:
    count = 1
    for size in tensor.dims:
        count *= size
    if count <= _SMALL_ELEMENTS and tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    return _as_external(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))


def _as_external(tensor: TensorProto) -> TensorProto:
    """A tensor whose data lies elsewhere: the engine reads its type and dims and never opens it."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="unread")
    return tensor


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from (value for value in node.outputs if value.name)


def _read_value(value: ir.Value, names: _EngineNames) -> ValueType | UnknownSize:
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        return UnknownSize(f"{type(value.type).__name__} values have no fixed size")
    if value.dtype is None:
        return UnknownSize("no element type is known")
    if value.shape is None:
        return UnknownSize(
            "the model declares no shape for it"
            if value.is_graph_input()
            else "no shape rule gives its rank"
        )
    shape: list[Expr] = []
    for axis, dim in enumerate(value.shape):
        size = _read_dim(dim, names)
        if size is None:
            return UnknownSize(
                f"dimension {axis} is decided by data, or by a rule that is not known"
            )
        shape.append(size)
    return ValueType(int(value.dtype), tuple(shape))


def _read_dim(dim: int | ir.SymbolicDim, names: _EngineNames) -> Expr | None:
    if isinstance(dim, int):
        return Expr.constant(dim) if dim >= 0 else None
    if dim.value is None:
        return None
    try:
        symbolic = dim._expr  # noqa: SLF001 - the only access to the engine's own expression
        size = from_sympy(symbolic) if symbolic is not None else parse_expression(dim.value)
    except (ExpressionError, ValueError):
        return None
    return names.to_user(size)


def _infer_with_onnx(
    skeleton: ModelProto, names: _EngineNames
) -> dict[str, ValueType | UnknownSize]:
    """What ``onnx.shape_inference`` knows; it keeps names of dimensions and computes no expressions."""
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except Exception as error:  # noqa: BLE001 - as above
        _logger.info("onnx.shape_inference stopped too: %s", error)
        return {}
    lookup = names.to_user
    found: dict[str, ValueType | UnknownSize] = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        read = _read_declared(value, lookup)
        if read is not None:
            found[value.name] = read
    for tensor in inferred.initializer:
        found[tensor.name] = ValueType(
            tensor.data_type, tuple(Expr.constant(size) for size in tensor.dims)
        )
    return found


def _declared(model: LoadedModel, names: _EngineNames) -> dict[str, ValueType]:
    """What the exporter recorded: taken where every dimension is a number, or a dimension of the inputs."""
    graph = model.proto.graph
    known = names._engine.keys()  # noqa: SLF001 - same file

    def lookup(size: Expr) -> Expr | None:
        return size if size.symbols <= known else None

    found: dict[str, ValueType] = {}
    for value in (*graph.value_info, *graph.output):
        read = _read_declared(value, lookup)
        if read is not None:
            found[value.name] = read
    return found


def _read_declared(
    value: ValueInfoProto, lookup: Callable[[Expr], Expr | None]
) -> ValueType | None:
    if not value.type.HasField("tensor_type"):
        return None
    kind = value.type.tensor_type
    if not kind.elem_type or not kind.HasField("shape"):
        return None
    shape: list[Expr] = []
    for dim in kind.shape.dim:
        size: Expr | None = None
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            size = Expr.constant(dim.dim_value)
        elif dim.dim_param:
            try:
                size = lookup(parse_expression(dim.dim_param))
            except ExpressionError:
                size = None
        if size is None:
            return None
        shape.append(size)
    return ValueType(kind.elem_type, tuple(shape))


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)
