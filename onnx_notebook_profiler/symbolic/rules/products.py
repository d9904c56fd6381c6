"""Matrix products whose stacks broadcast, whatever their numbers are.

https://onnx.ai/onnx/operators/onnx__MatMul.html
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, broadcast_shapes, registry

from onnx_notebook_profiler.symbolic.rules.sizes import Dim, known_dims

__all__ = ["infer_product"]


def infer_product(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """MatMul, MatMulInteger and QLinearMatMul, whose B and result type lie at different places."""
    inputs = [*node.inputs, *[None] * 8]
    a, b = inputs[0], inputs[3 if node.op_type == "QLinearMatMul" else 1]
    left, right = known_dims(a), known_dims(b)
    if a is None or not left or not right:
        return
    kind: Any = a.dtype
    if node.op_type == "MatMulInteger":
        kind = ir.DataType.INT32
    elif node.op_type == "QLinearMatMul":
        kind = inputs[7].dtype if inputs[7] is not None else None
    stack = broadcast_shapes(ir.Shape(left[:-2]), ir.Shape(right[:-2]))
    if stack is None:
        return
    rows: list[Dim] = left[-2:-1]
    columns: list[Dim] = right[-1:] if len(right) > 1 else []
    ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([*stack, *rows, *columns]), kind)


for _operator, _versions in {
    "MatMul": (1, 9, 13),
    "MatMulInteger": (10,),
    "QLinearMatMul": (10, 21),
}.items():
    for _version in _versions:
        registry.register("", _operator, since_version=_version)(infer_product)
