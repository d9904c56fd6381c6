"""Bytes of values as expressions: packed as ONNX stores them, or as numpy holds them."""

from __future__ import annotations

import functools

import onnx
from onnx import TensorProto

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import ValueType

__all__ = ["numpy_bytes", "runtime_bytes", "stored_bytes"]

STRING_BYTES = 32

_SUB_BYTE_BITS_BY_NAME = {
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("INT2", "UINT2"), 2),
    **dict.fromkeys(("FLOAT6E2M3", "FLOAT6E3M2"), 6),
}
_SUB_BYTE_BITS = {
    getattr(TensorProto, name): bits
    for name, bits in _SUB_BYTE_BITS_BY_NAME.items()
    if hasattr(TensorProto, name)
}
"""Those that this version of onnx has."""


@functools.cache
def _numpy_itemsize(data_type: int) -> int:
    return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)


def stored_bytes(value: ValueType) -> Expr | None:
    """Bytes as ONNX counts them: elements below 8 bits are packed, rounded up to a whole byte. None for strings."""
    if value.data_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    bits = _SUB_BYTE_BITS.get(value.data_type)
    if bits is None:
        return value.elements * _numpy_itemsize(value.data_type)
    return (value.elements * bits + 7) // 8


def numpy_bytes(value: ValueType) -> Expr | None:
    """Bytes of the numpy array that holds the value: a whole byte for a smaller element; 0 for strings (objects)."""
    if value.data_type == TensorProto.UNDEFINED:
        return None
    if value.data_type == TensorProto.STRING:
        return Expr.constant(0)
    return value.elements * _numpy_itemsize(value.data_type)


def runtime_bytes(value: ValueType) -> Expr | None:
    """Bytes that onnxruntime asks for: as ONNX stores them; 32 for a string, its object on Linux and Windows."""
    if value.data_type == TensorProto.STRING:
        return value.elements * STRING_BYTES
    return stored_bytes(value)
