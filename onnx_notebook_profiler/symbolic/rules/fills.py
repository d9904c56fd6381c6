"""ConstantOfShape: the engine's rule, put right."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

__all__ = ["infer_constant_of_shape"]

_engine_rule: Any = registry.get("", "ConstantOfShape", 9)


@registry.register("", "ConstantOfShape", since_version=9)  # type: ignore[untyped-decorator]
def infer_constant_of_shape(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """The engine's rule, but for a shape that the model computes, such as ``Shape(x)``: it reads constants alone.

    https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
    """
    _engine_rule(ctx, node)
    target, output = node.inputs[0], node.outputs[0]
    if target is None or output.shape is not None:
        return
    sizes = ctx.get_symbolic_value(target)
    if sizes is not None:
        ctx.set_shape_and_dtype(output, ir.Shape(list(sizes)), output.dtype)
