"""com.microsoft's Tokenizer."""

from __future__ import annotations

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

__all__ = ["infer_tokenizer"]


@registry.register("com.microsoft", "Tokenizer", since_version=1)  # type: ignore[untyped-decorator]
def infer_tokenizer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """X [N] or [N, C] -> [..., D]: the longest text decides D.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Tokenizer
    """
    texts = node.inputs[0]
    if texts is not None and texts.shape is not None:
        shape = ir.Shape([*texts.shape.dims, ctx.new_symbolic_dim()])
        ctx.set_shape_and_dtype(node.outputs[0], shape, ir.DataType.STRING)
