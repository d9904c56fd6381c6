"""The symbolic dimensions of a model: the author's names, made safe for the shape engine and readable for people."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from onnx import TensorShapeProto, TypeProto, ValueInfoProto

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.model import LoadedModel, graph_inputs
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_parser import parse_expression

__all__ = ["InputDims", "read_dims"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,62}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@dataclasses.dataclass(frozen=True, slots=True)
class InputDims:
    """The shape of every input over the model's symbolic dimensions."""

    names: tuple[str, ...]
    """Symbolic dimensions, in the order of the inputs."""
    shapes: Mapping[str, tuple[Expr, ...] | None]
    """For each input its dimensions; None where the model declares no shape."""
    author_texts: Mapping[str, str]
    """What the author wrote where a dimension had to be renamed."""


def read_dims(model: LoadedModel) -> InputDims:
    """Name every dimension of the inputs that is no number.

    An identifier (dots allowed) keeps its name. An expression whose symbols are dimensions of their own, such as
    ``past + seq``, stays one. Anything else (no name, ``?``, ``-1``, ``batch-size``) is named after input and axis, for
    each place apart: the same unreadable text twice need not mean the same size.
    """
    inputs = graph_inputs(model.proto.graph)
    plain = {
        dim.dim_param.strip()
        for value in inputs
        for dim in _dims(value)
        if _NAME.fullmatch(dim.dim_param.strip())
    }
    taken = set(plain)
    authors: dict[str, str] = {}
    shapes: dict[str, tuple[Expr, ...] | None] = {}
    for value in inputs:
        kind = _tensor_type(value.type)
        if kind is None or not kind.HasField("shape"):
            shapes[value.name] = None
            continue
        shapes[value.name] = tuple(
            _read(dim, value.name, axis, plain, taken, authors)
            for axis, dim in enumerate(kind.shape.dim)
        )
    names: dict[str, None] = {}
    for shape in shapes.values():
        for size in shape or ():
            names.update(dict.fromkeys(sorted(size.symbols)))
    return InputDims(tuple(names), shapes, authors)


def _tensor_type(kind: TypeProto) -> TypeProto.Tensor | None:
    if kind.HasField("optional_type"):
        return _tensor_type(kind.optional_type.elem_type)
    return kind.tensor_type if kind.HasField("tensor_type") else None


def _dims(value: ValueInfoProto) -> Iterator[TensorShapeProto.Dimension]:
    kind = _tensor_type(value.type)
    if kind is not None:
        yield from kind.shape.dim


def _read(
    dim: TensorShapeProto.Dimension,
    name: str,
    axis: int,
    plain: set[str],
    taken: set[str],
    authors: dict[str, str],
) -> Expr:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return Expr.constant(dim.dim_value)
    text = dim.dim_param.strip()
    if text in plain:
        return Expr.symbol(text)
    try:
        expression = parse_expression(text)
    except ExpressionError:
        expression = None
    if expression is not None and expression.symbols and expression.symbols <= plain:
        return expression
    stem = _UNSAFE.sub("_", name).strip("_")[:40] or "input"
    renamed = f"{stem}_{axis}" if not stem[0].isdigit() else f"_{stem}_{axis}"
    while renamed in taken:
        renamed += "_"
    taken.add(renamed)
    authors[renamed] = dim.dim_param if not dim.HasField("dim_value") else str(dim.dim_value)
    return Expr.symbol(renamed)
