"""Operators that keep the shape and choose another element type."""

from __future__ import annotations

import onnx_ir as ir
from onnx import TensorProto

from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []

_BOOL_MASK_OPSET = 10


@rule("Cast")
def infer_cast(call: Call) -> None:
    """The type is a number, in opset 1 a name."""
    to = call.attributes.get("to")
    if isinstance(to, str):
        if to.upper() not in TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
            raise Undecided(f"{to[:20]!r} is no element type")
        to = TensorProto.DataType.Value(to.upper())
    call.give(0, call.shape(0), to)


@rule("Dropout")
def infer_dropout(call: Call) -> None:
    """As the data; the mask was of the data's type once."""
    call.give(0, call.shape(0), call.dtype(0))
    mask = ir.DataType.BOOL if call.opset >= _BOOL_MASK_OPSET else call.dtype(0)
    call.give(1, call.shape(0), mask)


@rule("RandomNormalLike", "RandomUniformLike")
def infer_random_like(call: Call) -> None:
    """The named type, else that of the input, float where it is none."""
    source = call.dtype(0)
    floating = source is not None and source.is_floating_point()
    dtype = call.attributes.get("dtype") or (source if floating else ir.DataType.FLOAT)
    call.give(0, call.shape(0), dtype)
