"""Split: sizes that are given, or equal parts of which the last may be smaller.

https://onnx.ai/onnx/operators/onnx__Split.html
"""

from __future__ import annotations

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

__all__ = ["infer_split"]

_LAST_MAY_BE_SMALLER = 18


def infer_split(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Parts of X along an axis."""
    x = node.inputs[0]
    dims = known_dims(x)
    if x is None or not dims:
        return
    (axis,) = [node.attributes["axis"].as_int() if "axis" in node.attributes else 0]
    axis %= len(dims)
    count = len(node.outputs)
    given: list[Dim] | None = ints(node, "split", ()) or None  # type: ignore[assignment]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        given = ctx.get_symbolic_value(node.inputs[1])
        sizes = given or [ctx.new_symbolic_dim() for _ in range(count)]
    else:
        sizes = given or _equal(dims[axis], count, ctx.get_opset_version(node.domain or ""))
    values = ctx.get_symbolic_value(x) if len(dims) == 1 else None
    start = 0
    for value, size in zip(node.outputs, sizes, strict=False):
        shape = ir.Shape([*dims[:axis], size, *dims[axis + 1 :]])
        ctx.set_shape_and_dtype(value, shape, x.dtype)
        if values is not None and isinstance(size, int):
            ctx.set_symbolic_value(value, values[start : start + size])
            start += size
        else:
            values = None


def _equal(size: Dim, count: int, version: int) -> list[Dim]:
    whole = expression(size)
    if version < _LAST_MAY_BE_SMALLER:
        return [dim_of(sympy.floor(whole / sympy.Integer(count)))] * count
    part = ceil_div(whole, count)
    return [dim_of(part)] * (count - 1) + [dim_of(whole - part * (count - 1))]


for _version in (1, 2, 11, 13, 18):
    registry.register("", "Split", since_version=_version)(infer_split)
