"""Turns the attributes of a node into the plain values that kernels read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from onnx import AttributeProto, NodeProto, defs, numpy_helper

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.evaluator.kernel import NodeSpec

__all__ = ["attribute_value", "node_spec"]


def _text(data: bytes) -> str:
    """Attribute strings are UTF-8 by the specification; other bytes survive a round trip."""
    return data.decode("utf-8", errors="surrogateescape")


_READERS: Final[Mapping[int, Callable[[AttributeProto], Any]]] = {
    AttributeProto.FLOAT: lambda attribute: attribute.f,
    AttributeProto.INT: lambda attribute: attribute.i,
    AttributeProto.STRING: lambda attribute: _text(attribute.s),
    AttributeProto.TENSOR: lambda attribute: numpy_helper.to_array(attribute.t),
    AttributeProto.GRAPH: lambda attribute: attribute.g,
    AttributeProto.SPARSE_TENSOR: lambda attribute: attribute.sparse_tensor,
    AttributeProto.TYPE_PROTO: lambda attribute: attribute.tp,
    AttributeProto.FLOATS: lambda attribute: list(attribute.floats),
    AttributeProto.INTS: lambda attribute: list(attribute.ints),
    AttributeProto.STRINGS: lambda attribute: [_text(item) for item in attribute.strings],
    AttributeProto.TENSORS: lambda attribute: [
        numpy_helper.to_array(tensor) for tensor in attribute.tensors
    ],
    AttributeProto.GRAPHS: lambda attribute: list(attribute.graphs),
    AttributeProto.SPARSE_TENSORS: lambda attribute: list(attribute.sparse_tensors),
    AttributeProto.TYPE_PROTOS: lambda attribute: list(attribute.type_protos),
}


def attribute_value(attribute: AttributeProto) -> Any:
    """The value of *attribute*: numbers, text, lists of them, tensors as arrays, graphs.

    Raises:
        ModelError: The attribute refers to one of an enclosing function, or has no known type.
    """
    if attribute.ref_attr_name:
        raise ModelError(
            f"attribute {attribute.name!r} refers to {attribute.ref_attr_name!r} of a function; "
            "expected a value, which only the function's caller knows"
        )
    reader = _READERS.get(attribute.type)
    if reader is None:
        raise ModelError(f"attribute {attribute.name!r} has the unknown type {attribute.type}")
    return reader(attribute)


@functools.cache
def _defaults(op_type: str, domain: str, opset: int) -> Mapping[str, Any]:
    """The defaults that the operator's schema gives; none where no schema is known."""
    try:
        schema = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return {}
    return {
        name: attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != AttributeProto.UNDEFINED
    }


def node_spec(node: NodeProto, opset: int) -> NodeSpec:
    """What a kernel may know of *node* in a model that imports its domain at version *opset*.

    Raises:
        ModelError: An attribute refers to one of an enclosing function, or has no known type.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    attributes = dict(_defaults(node.op_type, domain, opset))
    attributes.update((entry.name, attribute_value(entry)) for entry in node.attribute)
    wanted = [bool(name) for name in node.output]
    while wanted and not wanted[-1]:
        wanted.pop()
    return NodeSpec(
        op_type=node.op_type,
        domain=domain,
        opset=opset,
        attributes=attributes,
        wanted=tuple(wanted),
        input_count=len(node.input),
    )
