"""Slice: the engine's rule, put right."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import sympy
from onnx_shape_inference import ShapeInferenceContext, registry

__all__ = ["infer_slice"]

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
    """(start, end, step) of each axis that is cut forwards between fixed bounds counted from the front."""
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
        if step > 0 and start >= 0 and end >= 0 and -rank <= axis < rank
    }


def _constant(value: ir.Value | None) -> list[int] | None:
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    return [int(item) for item in tensor.numpy().flatten()] if tensor is not None else None


def _extent(size: ir.SymbolicDim, start: int, end: int, step: int) -> int | ir.SymbolicDim:
    """How many elements lie between the bounds: max(0, ceil((min(size, end) - start) / step))."""
    whole: Any = size._expr  # noqa: SLF001 - the engine's own expression of the dimension
    if start == 0 and step == 1 and end >= 2**31 - 1:
        return size
    # A bound that no dimension reaches is left out: exporters write 10**9 and more for "to the end".
    stop = whole if end >= 10**9 else sympy.Min(whole, end)
    count = sympy.Max(0, sympy.floor((stop - start + step - 1) / sympy.Integer(step)))
    if start == 0 and step == 1:
        count = stop
    return int(count) if count.is_Integer else ir.SymbolicDim(count)
