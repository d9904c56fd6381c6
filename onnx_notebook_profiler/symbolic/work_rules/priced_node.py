"""A node as the rules see it: types of inputs and outputs, attributes, small constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onnx import NodeProto, TensorProto, defs, numpy_helper

from onnx_notebook_profiler.evaluator.attributes import attribute_value
from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from onnx_notebook_profiler.symbolic.value_bytes import stored_bytes

__all__ = ["PricedNode", "UnknownWork"]


class UnknownWork(Exception):  # noqa: N818 - not an error: the work is unknown, and the text says why
    """The work of a node cannot be said."""


class PricedNode:
    """One node with what is known of its values; everything that is not known raises :class:`UnknownWork`."""

    def __init__(
        self,
        node: NodeProto,
        opset: int,
        types: Mapping[str, ValueType | UnknownSize],
        constant: Callable[[str], TensorProto | None],
        *,
        is_view: bool = False,
    ) -> None:
        self.node = node
        self.is_view = is_view
        """Whether the first output is the first input, under another shape at most."""
        self.op_type = node.op_type
        self.opset = opset
        self._types = types
        self._constant = constant
        self._attributes = {entry.name: entry for entry in node.attribute}

    def has(self, position: int) -> bool:
        """Whether the input is given."""
        return position < len(self.node.input) and bool(self.node.input[position])

    def input(self, position: int) -> ValueType:
        """Type and shape of an input."""
        return self._type(self.node.input, position, "input")

    def output(self, position: int = 0) -> ValueType:
        """Type and shape of an output."""
        return self._type(self.node.output, position, "output")

    def known_output(self, position: int) -> ValueType | None:
        """Type and shape of an output; None where it is left out or unknown."""
        names = self.node.output
        kind = self._types.get(names[position]) if position < len(names) else None
        return kind if isinstance(kind, ValueType) else None

    def shape(self, position: int, rank: int | None = None) -> tuple[Expr, ...]:
        """Shape of an input; of *rank* axes where that is given."""
        shape = self.input(position).shape
        if rank is not None and len(shape) != rank:
            raise UnknownWork(f"input {position} has {len(shape)} axes, expected {rank}")
        return shape

    def size(self, position: int) -> Expr:
        """How many elements an input has; 0 where it is left out."""
        return self.input(position).elements if self.has(position) else Expr.constant(0)

    def bits(self, size: Expr, what: str) -> int:
        """⌈log2 *size*⌉, which has a formula for fixed sizes only."""
        if not size.is_constant:
            raise UnknownWork(f"log2 of {what}, {shorten(str(size))}, is no formula")
        return max(0, size.value - 1).bit_length()

    @property
    def made(self) -> Expr:
        """How many elements the first output has."""
        return self.output().elements

    def bytes_of(self, names: Iterable[str]) -> Expr:
        """Bytes of all distinct values among *names*."""
        return Expr.sum(self._bytes(name) for name in dict.fromkeys(names) if name)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute; else the operator's default; else *default*."""
        entry = self._attributes.get(name)
        if entry is None:
            entry = self._schema_default(name)
        return default if entry is None else attribute_value(entry)

    def number(self, position: int) -> float | None:
        """The one number that an input holds, where the model says it."""
        tensor = self._constant(self.node.input[position]) if self.has(position) else None
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
            return None
        values = numpy_helper.to_array(tensor)
        return float(values.reshape(-1)[0]) if values.size == 1 else None

    def _schema_default(self, name: str) -> Any:
        try:
            schema = defs.get_schema(self.op_type, self.opset, self.node.domain)
        except defs.SchemaError:
            return None
        known = schema.attributes.get(name)
        return known.default_value if known is not None and known.default_value.type else None

    def _type(self, names: Sequence[str], position: int, word: str) -> ValueType:
        if position >= len(names) or not names[position]:
            raise UnknownWork(f"{word} {position} is not there")
        kind = self._types.get(names[position])
        if isinstance(kind, ValueType):
            return kind
        raise UnknownWork(_no_size(names[position], kind))

    def _bytes(self, name: str) -> Expr:
        kind = self._types.get(name)
        size = stored_bytes(kind) if isinstance(kind, ValueType) else None
        if size is None:
            raise UnknownWork(_no_size(name, kind))
        return size


def _no_size(name: str, kind: ValueType | UnknownSize | None) -> str:
    reason = kind.reason if isinstance(kind, UnknownSize) else "its element type has no fixed width"
    return f"size of {shorten(name)}: {reason}"
