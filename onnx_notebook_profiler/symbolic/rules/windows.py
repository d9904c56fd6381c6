"""Convolutions and pools: how many windows fit, with every ``auto_pad`` and ``ceil_mode``.

https://onnx.ai/onnx/operators/onnx__Conv.html, onnx__ConvTranspose.html, onnx__MaxPool.html and their like.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import onnx_ir as ir
import sympy
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.sizes import (
    Dim,
    ceil_div,
    dim_of,
    expression,
    ints,
    known_dims,
)

__all__ = ["infer_convolution", "infer_pool", "infer_transposed"]


class _Windows(NamedTuple):
    """The attributes, one entry for each spatial axis; ``pads`` has all beginnings, then all ends."""

    kernel: list[Any]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    auto: str
    ceils: bool


def _windows(node: ir.Node, spatial: int, kernel: list[Dim]) -> _Windows:
    attributes = node.attributes
    auto = attributes["auto_pad"].as_string() if "auto_pad" in attributes else "NOTSET"
    return _Windows(
        [expression(size) for size in ints(node, "kernel_shape", ()) or kernel],
        ints(node, "strides", [1] * spatial),
        ints(node, "dilations", [1] * spatial),
        ints(node, "pads", [0] * (2 * spatial)),
        auto,
        bool(attributes["ceil_mode"].as_int()) if "ceil_mode" in attributes else False,
    )


def _count(size: Dim, windows: _Windows, axis: int) -> Dim:
    """How many windows lie on an axis of *size*."""
    whole, stride = expression(size), windows.strides[axis]
    reach = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1
    if windows.auto.startswith("SAME"):
        return dim_of(ceil_div(whole, stride))
    begin, end = 0, 0
    if windows.auto != "VALID":
        begin, end = windows.pads[axis], windows.pads[axis + len(windows.strides)]
    room = whole + begin + end - reach
    if not windows.ceils:
        return dim_of(sympy.floor(room / sympy.Integer(stride)) + 1)
    # no window begins beyond the input and its first padding
    return dim_of(sympy.Min(ceil_div(room, stride) + 1, ceil_div(whole + begin, stride)))


def _set(ctx: ShapeInferenceContext, node: ir.Node, dims: list[Dim], dtype: Any) -> None:
    ctx.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), dtype)


def _infer_windows(
    ctx: ShapeInferenceContext, node: ir.Node, x: ir.Value | None, w: ir.Value | None, dtype: Any
) -> bool:
    """[N, M, ...] for weights [M, C, ...]; without weights the channels stay. False where something is not known."""
    dims, weights = known_dims(x), known_dims(w)
    if dims is None or (w is not None and weights is None) or len(dims) < 3:
        return False
    windows = _windows(node, len(dims) - 2, (weights or [])[2:])
    channels = dims[1] if weights is None else weights[0]
    sizes = [_count(size, windows, axis) for axis, size in enumerate(dims[2:])]
    _set(ctx, node, [dims[0], channels, *sizes], dtype)
    return True


_POOLS: Final[dict[str, tuple[int, ...]]] = {
    "AveragePool": (1, 7, 10, 11, 19, 22),
    "LpPool": (2, 11, 18, 22),
    "MaxPool": (1, 8, 10, 11, 12, 22),
}
_CONVOLUTIONS: Final[dict[str, tuple[int, ...]]] = {
    "Conv": (1, 11, 22),
    "ConvInteger": (10,),
    "QLinearConv": (10,),
}


def infer_pool(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Y, and for MaxPool the indices, which look like it."""
    x = node.inputs[0]
    if _infer_windows(ctx, node, x, None, x.dtype if x is not None else None):
        for extra in node.outputs[1:]:
            ctx.set_shape_and_dtype(extra, node.outputs[0].shape, ir.DataType.INT64)


def infer_convolution(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Conv, ConvInteger and QLinearConv, whose weights lie at different places."""
    inputs = [*node.inputs, *[None] * 8]
    x = inputs[0]
    if node.op_type == "QLinearConv":
        zero = inputs[7]
        _infer_windows(ctx, node, x, inputs[3], zero.dtype if zero is not None else None)
        return
    dtype = (
        ir.DataType.INT32 if node.op_type == "ConvInteger" else x.dtype if x is not None else None
    )
    _infer_windows(ctx, node, x, inputs[1], dtype)


def infer_transposed(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """[N, M * group, ...] for weights [C, M, ...]."""
    x, w = node.inputs[0], node.inputs[1]
    dims, weights = known_dims(x), known_dims(w)
    if x is None or dims is None or weights is None or len(dims) < 3:
        return
    spatial = len(dims) - 2
    windows = _windows(node, spatial, weights[2:])
    group = node.attributes["group"].as_int() if "group" in node.attributes else 1
    fixed = ints(node, "output_shape", ())
    extra = ints(node, "output_padding", [0] * spatial)
    sizes: list[Dim] = [*fixed[-spatial:]] if fixed else []
    for axis in range(spatial if not fixed else 0):
        whole, stride = expression(dims[axis + 2]), windows.strides[axis]
        reach = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1
        if windows.auto.startswith("SAME"):
            sizes.append(dim_of(whole * stride))
            continue
        cut = 0
        if windows.auto != "VALID":
            cut = windows.pads[axis] + windows.pads[axis + spatial]
        sizes.append(dim_of(stride * (whole - 1) + extra[axis] + reach - cut))
    _set(ctx, node, [dims[0], dim_of(expression(weights[1]) * group), *sizes], x.dtype)


for _operator, _versions in _POOLS.items():
    for _version in _versions:
        registry.register("", _operator, since_version=_version)(infer_pool)
for _operator, _versions in _CONVOLUTIONS.items():
    for _version in _versions:
        registry.register("", _operator, since_version=_version)(infer_convolution)
for _version in (1, 11, 22):
    registry.register("", "ConvTranspose", since_version=_version)(infer_transposed)
