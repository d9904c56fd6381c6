"""Slice: the engine's rule, put right."""

from __future__ import annotations

from typing import Any, Final

import onnx_ir as ir
import sympy
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.folding import small_constant
from onnx_notebook_profiler.symbolic.rules.sizes import Dim, ceil_div, dim_of, expression

__all__ = ["infer_slice"]

_FAR: Final = 10**9

_engine_slice: Any = registry.get("", "Slice", 10)


@registry.register("", "Slice", since_version=10)  # type: ignore[untyped-decorator]
def infer_slice(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """The engine's rule, but for a fixed end on a symbolic axis, which it takes to lie inside.

    ``x[:, :100]`` of ``[batch, seq]`` is ``[batch, min(seq, 100)]``; exporters write 10**9 for "to the end".
    https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    _engine_slice(ctx, node)
    data, output = node.inputs[0], node.outputs[0]
    if data is None or data.shape is None or output.shape is None:
        return
    limits = _fixed_limits(node, data.shape.rank())
    dims = list(output.shape.dims)
    for axis, (start, end, step) in limits.items():
        size = data.shape[axis]
        if isinstance(size, ir.SymbolicDim) and size.value is not None:
            dims[axis] = _extent(size, start, end, step)
    output.shape = ir.Shape(dims)


def _fixed_limits(node: ir.Node, rank: int) -> dict[int, tuple[int, int, int]]:
    """(start, end, step) of each axis that is cut between fixed bounds."""
    starts, ends, axes, steps = (
        _constant(node.inputs[position]) if position < len(node.inputs) else None
        for position in range(1, 5)
    )
    if starts is None or ends is None:
        return {}
    if len(node.inputs) > 3 and node.inputs[3] is not None and axes is None:
        return {}
    if len(node.inputs) > 4 and node.inputs[4] is not None and steps is None:
        return {}
    axes = axes if axes is not None else list(range(len(starts)))
    steps = steps if steps is not None else [1] * len(starts)
    return {
        axis % rank: (start, end, step)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=False)
        if step and -rank <= axis < rank
    }


def _constant(value: ir.Value | None) -> list[int] | None:
    found = small_constant(value)
    return None if found is None else [int(item) for item in found.reshape(-1)]


def _extent(size: ir.SymbolicDim, start: int, end: int, step: int) -> Dim:
    """How many elements lie between the bounds; exporters write 10**9 and more for "to the end"."""
    whole: Any = expression(size)
    if step > 0:
        begin, stop = _forwards(whole, start), _forwards(whole, end)
        if start == 0 and step == 1:
            return dim_of(stop)
        if start < 0 and end >= _FAR and step == 1:
            return dim_of(sympy.Min(-start, whole) if start > -_FAR else whole)
        if start > 0 and end >= _FAR:
            begin = sympy.Integer(start)
        return dim_of(sympy.Max(0, ceil_div(stop - begin, step)))
    begin, stop = _backwards(whole, start), _backwards(whole, end)
    count = ceil_div(begin - stop, -step)
    from_end_to_end = start == -1 or start >= _FAR
    return dim_of(count if from_end_to_end and end <= -_FAR else sympy.Max(0, count))


def _forwards(whole: Any, bound: int) -> Any:
    """*bound* brought into [0, size]."""
    if bound >= 0:
        return whole if bound >= _FAR else sympy.Min(whole, bound)
    return sympy.Integer(0) if bound <= -_FAR else sympy.Max(whole + bound, 0)


def _backwards(whole: Any, bound: int) -> Any:
    """*bound* brought into [-1, size - 1]."""
    if bound == -1 or bound >= _FAR:
        return whole - 1
    if bound >= 0:
        return sympy.Min(whole - 1, bound)
    return sympy.Integer(-1) if bound <= -_FAR else sympy.Max(whole + bound, -1)
