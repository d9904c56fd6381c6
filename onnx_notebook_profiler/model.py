"""From whatever people have at hand to one checked model, and feeds for it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from onnx_notebook_profiler.errors import FeedError, ModelError

__all__ = [
    "LoadedModel",
    "ModelSource",
    "free_memory",
    "generate_feed",
    "graph_inputs",
    "load_model",
    "shorten",
]

ModelSource = (
    str | os.PathLike[str] | bytes | ModelProto | ir.Model | GraphProto | FunctionProto | NodeProto
)
"""What every entry point takes: a path, serialized bytes, ONNX text, or a model, graph, function or node."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that passed :func:`load_model`; initializers with external data are not read yet."""

    proto: ModelProto
    opsets: Mapping[str, int]
    """Version of each domain; the default domain is the empty string."""
    functions: Mapping[tuple[str, str], FunctionProto]
    folder: Path | None
    """Where external data may lie: the folder of the file that the model came from."""
    name: str


def shorten(text: str, limit: int = 60) -> str:
    """*text* for a message: quoted, control characters escaped, the middle left out beyond *limit* characters."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}…{text[-limit // 2 :]}"
    return repr(text)


def load_model(source: ModelSource) -> LoadedModel:
    """Read and check a model.

    Args:
        source: A path to a file of any format that ``onnx`` reads, serialized bytes, ONNX text (such as
            ``agraph (float[N] x) => (float[N] y) { y = Abs(x) }``), a ModelProto, GraphProto, FunctionProto or
            NodeProto, or a model of onnx-ir. External data is not read, so the size of the weights does not matter.

    Raises:
        ModelError: The source cannot be read, or the model is not well formed; the message names the place.
    """
    proto, folder, name = _read(source)
    model = _as_model(proto)
    loaded = LoadedModel(
        proto=model,
        opsets=_opsets(model),
        functions={(_domain(f.domain), f.name): f for f in model.functions},
        folder=folder,
        name=name or model.graph.name or "model",
    )
    _check_graph(model.graph, frozenset(), "the main graph")
    for function in model.functions:
        _check_function(function)
    return loaded


def _read(
    source: ModelSource,
) -> tuple[ModelProto | GraphProto | FunctionProto | NodeProto, Path | None, str]:
    if isinstance(source, ModelProto | GraphProto | FunctionProto | NodeProto):
        return source, None, ""
    if isinstance(source, ir.Model):
        return _from_ir(source)
    if isinstance(source, bytes):
        try:
            return onnx.load_model_from_string(source), None, ""
        except Exception as error:
            raise ModelError(
                f"{len(source)} bytes are no serialized ONNX model: {error}. Give the contents of an .onnx file"
            ) from error
    if isinstance(source, str) and "{" in source and not _is_file(source):
        parse = (
            onnx.parser.parse_model if source.lstrip().startswith("<") else onnx.parser.parse_graph
        )
        try:
            return parse(source), None, ""
        except Exception as error:
            reason = error.args[0] if error.args else error
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise ModelError(f"the text is no ONNX model or graph: {text}") from error
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"no model file at {str(path)!r}: check the path")
        try:
            return onnx.load_model(path, load_external_data=False), path.resolve().parent, path.stem
        except Exception as error:
            raise ModelError(f"{str(path)!r} is no ONNX model that can be read: {error}") from error
    raise ModelError(
        f"expected a path, bytes, ONNX text, ModelProto, GraphProto, FunctionProto, NodeProto or onnx_ir.Model, "
        f"found {type(source).__name__}"
    )


def _from_ir(source: ir.Model) -> tuple[ModelProto, Path | None, str]:
    """A model of onnx-ir, its external data left where it is."""
    folders = {
        str(tensor.base_dir)
        for value in source.graph.initializers.values()
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    if len(folders) > 1:
        raise ModelError(
            f"the model's external data lies in {len(folders)} folders: it is read from one, save the model anew"
        )
    try:
        proto: ModelProto = ir.to_proto(source)
    except Exception as error:
        raise ModelError(f"the onnx-ir model cannot be written as ONNX: {error}") from error
    return proto, Path(folders.pop()).resolve() if folders else None, source.graph.name or ""


def _is_file(text: str) -> bool:
    """Whether *text* names a file; a long text is no name at all."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _as_model(proto: ModelProto | GraphProto | FunctionProto | NodeProto) -> ModelProto:
    """Wrap graph, function or node into a model; a model is taken as it is."""
    if isinstance(proto, ModelProto):
        if not proto.HasField("graph"):
            raise ModelError("the model has no graph: is it an empty or truncated file?")
        return proto
    model = ModelProto(ir_version=onnx.IR_VERSION)
    if isinstance(proto, GraphProto):
        model.graph.CopyFrom(proto)
        nodes: Sequence[NodeProto] = proto.node
    elif isinstance(proto, FunctionProto):
        if proto.attribute:
            raise ModelError(
                f"function {shorten(proto.name)} needs values for its attributes {list(proto.attribute)}: "
                f"give a model that calls it"
            )
        model.opset_import.extend(proto.opset_import)
        nodes = proto.node
        _fill_graph(model.graph, proto.name, nodes, proto.input, proto.output)
        model.graph.value_info.extend(proto.value_info)
    else:
        nodes = [proto]
        names = dict.fromkeys(name for name in proto.input if name)
        outputs = [name for name in proto.output if name]
        _fill_graph(model.graph, proto.op_type, nodes, names, outputs)
    declared = {_domain(entry.domain) for entry in model.opset_import}
    for domain in sorted({_domain(node.domain) for node in all_nodes(nodes)} | {""}):
        if domain not in declared:
            model.opset_import.add(domain=domain, version=_latest_opset(domain))
    return model


def _fill_graph(
    graph: GraphProto,
    name: str,
    nodes: Iterable[NodeProto],
    inputs: Iterable[str],
    outputs: Iterable[str],
) -> None:
    graph.name = name
    graph.node.extend(nodes)
    graph.input.extend(ValueInfoProto(name=value) for value in inputs)
    graph.output.extend(ValueInfoProto(name=value) for value in outputs)


def _latest_opset(domain: str) -> int:
    versions = [
        schema.since_version for schema in onnx.defs.get_all_schemas() if schema.domain == domain
    ]
    return int(onnx.defs.onnx_opset_version()) if domain == "" else max(versions, default=1)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _opsets(model: ModelProto) -> dict[str, int]:
    """Version of each domain; where a domain is imported twice, the higher one holds, as in onnxruntime."""
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = _domain(entry.domain)
        opsets[domain] = max(entry.version, opsets.get(domain, 0))
    opsets.setdefault("", 1 if model.ir_version < 3 else int(onnx.defs.onnx_opset_version()))
    return opsets


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """*nodes* and those of every body inside them, outer ones first."""
    for node in nodes:
        yield node
        for graph in body_graphs(node).values():
            yield from all_nodes(graph.node)


def body_graphs(node: NodeProto) -> dict[str, GraphProto]:
    """The graphs among a node's attributes, by attribute name (lists get ``name[i]``), in order."""
    found: dict[str, GraphProto] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found[attribute.name] = attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            found.update(
                (f"{attribute.name}[{i}]", graph) for i, graph in enumerate(attribute.graphs)
            )
    return found


def describe_node(index: int, node: NodeProto) -> str:
    """How messages name a node: ``node 3 Conv 'features.0'``."""
    prefix = f"{node.domain}::" if _domain(node.domain) else ""
    name = f" {shorten(node.name)}" if node.name else ""
    return f"node {index} {prefix}{node.op_type}{name}"


def _check_graph(graph: GraphProto, outer: frozenset[str], place: str) -> None:
    """Every name is made once and before it is used; bodies may use the names around them."""
    produced: set[str] = set()
    for kind, values in (("input", graph.input), ("initializer", graph.initializer)):
        names = Counter(value.name for value in values)
        for name, count in names.items():
            if count > 1:
                raise ModelError(
                    f"{place} has {count} {kind}s named {shorten(name)}: names must be unique"
                )
        produced.update(names)
    produced.update(sparse.values.name for sparse in graph.sparse_initializer)
    _check_nodes(graph.node, produced, outer, place)
    for output in graph.output:
        if output.name not in produced and output.name not in outer:
            raise ModelError(
                f"{place} declares output {shorten(output.name)}, which no node, input or initializer provides"
            )


def _check_function(function: FunctionProto) -> None:
    place = f"function {shorten(function.name)}"
    produced = set(function.input)
    _check_nodes(function.node, produced, frozenset(), place)
    for name in function.output:
        if name not in produced:
            raise ModelError(
                f"{place} declares output {shorten(name)}, which none of its nodes provides"
            )


def _check_nodes(
    nodes: Sequence[NodeProto], produced: set[str], outer: frozenset[str], place: str
) -> None:
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and (name in makers or name in produced):
                first = (
                    describe_node(makers[name], nodes[makers[name]])
                    if name in makers
                    else "an input or initializer"
                )
                raise ModelError(
                    f"{describe_node(index, node)} in {place} makes {shorten(name)}, which {first} made "
                    f"already: every value needs a name of its own"
                )
            if name:
                makers[name] = index
    for index, node in enumerate(nodes):
        for name in node.input:
            if name and name not in produced and name not in outer:
                later = (
                    f"made only by {describe_node(makers[name], nodes[makers[name]])}"
                    if name in makers
                    else "made by no node"
                )
                raise ModelError(
                    f"{describe_node(index, node)} in {place} reads {shorten(name)}, {later}: "
                    f"nodes must be sorted so that a value is made before it is read, without cycles"
                )
        for attribute, graph in body_graphs(node).items():
            visible = outer | produced
            _check_graph(graph, frozenset(visible), f"{attribute} of {describe_node(index, node)}")
        produced.update(name for name in node.output if name)


def graph_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a caller has to feed: those without an initializer of the same name."""
    initialised = {tensor.name for tensor in graph.initializer}
    initialised.update(sparse.values.name for sparse in graph.sparse_initializer)
    return [value for value in graph.input if value.name not in initialised]


def generate_feed(value: ValueInfoProto, shape: Sequence[int], seed: int = 0) -> Any:
    """A valid, deterministic value for an input: floats uniform in [0, 1), integers and bools 1, strings ``"a"``.

    Ones are attention masks, trip counts and indices that nearly every model accepts. Sequences get three tensors;
    optionals are given.

    Raises:
        FeedError: No value can be made for the input's type.
    """
    kind = value.type.WhichOneof("value")
    if kind == "optional_type":
        inner = ValueInfoProto(name=value.name, type=value.type.optional_type.elem_type)
        return generate_feed(inner, shape, seed)
    if kind == "sequence_type":
        element = value.type.sequence_type.elem_type
        if element.WhichOneof("value") == "tensor_type":
            return [_tensor(element, value.name, shape, seed + i) for i in range(3)]
    if kind == "tensor_type":
        return _tensor(value.type, value.name, shape, seed)
    raise FeedError(
        f"no value can be generated for input {shorten(value.name)} of type {kind or 'unknown'}: give it in feeds"
    )


def free_memory() -> int | None:
    """Bytes that a process may still get without swapping; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return int(os.sysconf("SC_AVPHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    return None


def _tensor(kind: TypeProto, name: str, shape: Sequence[int], seed: int) -> np.ndarray[Any, Any]:
    code = kind.tensor_type.elem_type
    if code == TensorProto.STRING:
        return np.full(shape, "a", dtype=object)
    if code == TensorProto.UNDEFINED:
        raise FeedError(f"input {shorten(name)} has no element type: give it in feeds")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    if dtype.kind in "iub":
        return np.ones(shape, dtype)
    rng = np.random.default_rng([seed, *name.encode()])
    if dtype.kind == "c":
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    return rng.random(shape, np.float32).astype(dtype, copy=False)
