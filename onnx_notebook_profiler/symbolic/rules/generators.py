"""Operators that make tensors of sizes that they are told, and those that tell sizes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import onnx_ir as ir
from onnx import AttributeProto, helper, numpy_helper

from onnx_notebook_profiler.symbolic.contents import truncated_quotient
from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div, maximum
from onnx_notebook_profiler.symbolic.folding import MOST_ELEMENTS
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__: list[str] = []

_PLAIN = {
    "value_float": (np.float32, ir.DataType.FLOAT),
    "value_floats": (np.float32, ir.DataType.FLOAT),
    "value_int": (np.int64, ir.DataType.INT64),
    "value_ints": (np.int64, ir.DataType.INT64),
}


@rule("Constant")
def infer_constant(call: Call) -> None:
    """Its tensor, which is looked into where it is small.

    https://onnx.ai/onnx/operators/onnx__Constant.html
    """
    for attribute in call.proto.attribute:
        if attribute.type == AttributeProto.TENSOR:
            tensor = attribute.t
            call.give(0, list(tensor.dims), tensor.data_type)
            small = math.prod(tensor.dims) <= MOST_ELEMENTS
            if small and not tensor.external_data and tensor.data_type != ir.DataType.STRING:
                call.inference.set_content(call.node.outputs[0], numpy_helper.to_array(tensor))
        elif attribute.type == AttributeProto.SPARSE_TENSOR:
            sparse = attribute.sparse_tensor
            call.give(0, list(sparse.dims), sparse.values.data_type)
        elif attribute.name in _PLAIN:
            kind, code = _PLAIN[attribute.name]
            content = np.array(helper.get_attribute_value(attribute), kind)
            call.give(0, content.shape, code)
            if content.size <= MOST_ELEMENTS:
                call.inference.set_content(call.node.outputs[0], content)
        elif attribute.name == "value_string":
            call.give(0, (), ir.DataType.STRING)
        elif attribute.name == "value_strings":
            call.give(0, (len(attribute.strings),), ir.DataType.STRING)


@rule("Shape")
def infer_shape(call: Call) -> None:
    """One number for each dimension, or for those from ``start`` to ``end``."""
    value = call.value(0)
    if value is not None and call.known_shape(0) is None:
        call.give(0, (call.unknown("the rank of its input is not known"),), ir.DataType.INT64)
        return
    start, end = int(call.attributes.get("start", 0)), call.attributes.get("end")
    call.give(0, (len(call.shape(0)[start:end]),), ir.DataType.INT64)


@rule("Size")
def infer_size(call: Call) -> None:
    """One number."""
    call.give(0, (), ir.DataType.INT64)


@rule("ConstantOfShape")
def infer_constant_of_shape(call: Call) -> None:
    """The shape that its input holds."""
    tensor = next((one.t for one in call.proto.attribute if one.name == "value"), None)
    dtype = ir.DataType.FLOAT if tensor is None else tensor.data_type
    if call.content(0) is None:
        (length,) = call.shape(0)
        if not length.is_constant:
            raise Undecided("the shape to make is not known")
        reason = "data decides the shape to make"
        call.give(0, [call.unknown(reason) for _ in range(length.value)], dtype)
        return
    call.give(0, call.entries(0), dtype)


@rule("Range")
@rule("Range", domain=CONTRIB)
def infer_range(call: Call) -> None:
    """As many numbers as there are before the limit.

    https://onnx.ai/onnx/operators/onnx__Range.html
    """
    dtype = call.dtype(0)
    call.give(0, None, dtype)
    given = [call.content(position) for position in range(3)]
    if not call.has(2):
        given[2] = np.ones((), np.int64)
    if any(one is None for one in given):
        bound = call.data_dim(0, 0, None)
        call.give(0, (bound,), dtype)
        return
    start, limit, delta = (one.reshape(-1).tolist()[0] for one in given if one is not None)
    if all(isinstance(one, (int, float)) for one in (start, limit, delta)):
        count = max(0, math.ceil((Fraction(limit) - Fraction(start)) / Fraction(delta)))
        call.give(0, (count,), dtype)
        return
    first, last, step = (
        one if isinstance(one, Expr) else _integer(one) for one in (start, limit, delta)
    )
    if not step.is_constant or not step.value:
        raise Undecided("the step of the range is not known")
    gap = last - first if step.value > 0 else first - last
    call.give(0, (maximum(0, ceil_div(gap, abs(step.value))),), dtype)


def _integer(value: object) -> Expr:
    if isinstance(value, (int, float)) and float(value).is_integer():
        return Expr.constant(int(value))
    raise Undecided("a bound of the range is a fraction")


@rule("OneHot")
def infer_one_hot(call: Call) -> None:
    """A new axis as long as the depth."""
    indices = call.shape(0)
    axis = axis_of(int(call.attributes.get("axis", -1)), len(indices) + 1)
    content = call.content(1)
    if content is None:
        depth = call.data_dim(0, axis, None)
    else:
        one = content.reshape(-1).tolist()[0]
        depth = one if isinstance(one, Expr) else Expr.constant(int(one))
    call.give(0, (*indices[:axis], depth, *indices[axis:]), call.dtype(2))


@rule("MelWeightMatrix")
def infer_mel_weight_matrix(call: Call) -> None:
    """[half of the transform and one, bins]."""
    bins, length = call.entries(0)[0], call.entries(1)[0]
    dtype = int(call.attributes.get("output_datatype", 1))
    call.give(0, (truncated_quotient(length, Expr.constant(2)) + 1, bins), dtype)


@rule("HannWindow", "HammingWindow", "BlackmanWindow")
def infer_window(call: Call) -> None:
    """As long as its input says."""
    dtype = int(call.attributes.get("output_datatype", 1))
    size = call.entries(0)[0] if call.content(0) is not None else call.data_dim(0, 0, None)
    call.give(0, (size,), dtype)


@rule("TopK")
def infer_top_k(call: Call) -> None:
    """K along the axis, values and indices."""
    shape = call.shape(0)
    axis = axis_of(int(call.attributes.get("axis", -1)), len(shape))
    k = call.attributes.get("k")
    if k is not None:
        size = Expr.constant(int(k))
    elif call.content(1) is not None:
        (size,) = call.entries(1)
    else:
        size = call.data_dim(0, axis, shape[axis])
    result = (*shape[:axis], size, *shape[axis + 1 :])
    call.give(0, result, call.dtype(0))
    call.give(1, result, ir.DataType.INT64)


@rule("STFT")
def infer_stft(call: Call) -> None:
    """[N, frames, bins, 2]: as many frames as begin early enough.

    https://onnx.ai/onnx/operators/onnx__STFT.html
    """
    signal = call.shape(0)
    step = call.numbers(1)
    length = call.entries(3)[0] if call.has(3) else call.shape(2)[0]
    bins = length // 2 + 1 if call.attributes.get("onesided", 1) else length
    if step is None:
        call.give(0, (signal[0], call.data_dim(0, 1, signal[1]), bins, 2), call.dtype(0))
        return
    frames = (signal[1] - length) // int(step[0]) + 1
    call.give(0, (signal[0], frames, bins, 2), call.dtype(0))
