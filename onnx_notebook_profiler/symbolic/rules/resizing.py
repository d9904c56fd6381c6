"""Resize and Upsample: sizes, or scales times sizes, rounded down.

https://onnx.ai/onnx/operators/onnx__Resize.html, onnx__Upsample.html
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import onnx_ir as ir
import sympy
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.folding import small_constant
from onnx_notebook_profiler.symbolic.rules.sizes import Dim, dim_of, expression, ints, known_dims

__all__ = ["infer_resize"]

_ROI_BEFORE_SCALES = 11


def infer_resize(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """X with some axes made larger or smaller."""
    x = node.inputs[0]
    dims = known_dims(x)
    if x is None or dims is None:
        return
    version = ctx.get_opset_version(node.domain or "")
    inputs = [*node.inputs, *[None] * 4]
    scales, sizes = inputs[1], None
    if node.op_type == "Resize" and version >= _ROI_BEFORE_SCALES:
        scales, sizes = inputs[2], inputs[3]
    axes = [axis % len(dims) for axis in ints(node, "axes", range(len(dims)))]
    made: list[Dim] = list(dims)
    if sizes is not None:
        wanted = ctx.get_symbolic_value(sizes)
        policy = node.attributes.get("keep_aspect_ratio_policy")
        if policy is not None and policy.as_string() != "stretch":
            made = _keeping_ratio(
                ctx, dims, axes, wanted, smaller=policy.as_string() == "not_larger"
            )
        else:
            for number, axis in enumerate(axes):
                made[axis] = ctx.new_symbolic_dim() if wanted is None else wanted[number]
    else:
        factors = _scales(node, scales)
        crops = _crops(node)
        for number, axis in enumerate(axes):
            factor = None if factors is None or crops else factors[number]
            made[axis] = ctx.new_symbolic_dim() if factor is None else _scaled(dims[axis], factor)
    ctx.set_shape_and_dtype(node.outputs[0], ir.Shape(made), x.dtype)


def _crops(node: ir.Node) -> bool:
    mode = node.attributes.get("coordinate_transformation_mode")
    return mode is not None and mode.as_string() == "tf_crop_and_resize"


def _scales(node: ir.Node, scales: ir.Value | None) -> list[float] | None:
    """The scales, from an input or, before opset 9, attributes."""
    if "scales" in node.attributes:
        return list(node.attributes["scales"].as_floats())
    if "height_scale" in node.attributes:
        attributes = node.attributes
        return [
            1.0,
            1.0,
            attributes["height_scale"].as_float(),
            attributes["width_scale"].as_float(),
        ]
    found = small_constant(scales)
    return None if found is None or not found.size else [float(one) for one in found.reshape(-1)]


def _scaled(size: Dim, factor: float) -> Dim:
    if factor == 1:
        return size
    exact = Fraction(factor)
    ratio = sympy.Rational(exact.numerator, exact.denominator)
    return dim_of(sympy.floor(expression(size) * ratio))


def _keeping_ratio(
    ctx: ShapeInferenceContext, dims: list[Dim], axes: list[int], wanted: Any, *, smaller: bool
) -> list[Dim]:
    """One scale for all axes, the least or the greatest; only for sizes that are numbers."""
    made: list[Dim] = list(dims)
    numbers = [size for axis in axes if isinstance(size := dims[axis], int) and size]
    known = wanted is not None and all(isinstance(size, int) for size in wanted)
    if not known or len(numbers) < len(axes):
        for axis in axes:
            made[axis] = ctx.new_symbolic_dim()
        return made
    ratios = [Fraction(size, own) for size, own in zip(wanted, numbers, strict=True)]
    factor = min(ratios) if smaller else max(ratios)
    for axis, number in zip(axes, numbers, strict=True):
        made[axis] = int(factor * number + Fraction(1, 2))
    return made


for _operator, _versions in {"Resize": (10, 11, 13, 18, 19), "Upsample": (1, 7, 9, 10)}.items():
    for _version in _versions:
        registry.register("", _operator, since_version=_version)(infer_resize)
