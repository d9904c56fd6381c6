"""com.microsoft.nchwc: channels put in blocks and back, and images enlarged in that order.

onnxruntime/core/optimizer/nchwc_transformer.cc writes these nodes.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.probing import infer_by_probe

__all__ = ["infer_reordering", "infer_upsample"]

_DOMAIN = "com.microsoft.nchwc"


@registry.register(_DOMAIN, "ReorderInput", since_version=1)  # type: ignore[untyped-decorator]
@registry.register(_DOMAIN, "ReorderOutput", since_version=1)  # type: ignore[untyped-decorator]
def infer_reordering(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """As the kernel says, where the number of channels is known: it is rounded up to whole blocks, or cut."""
    x = node.inputs[0]
    if x is None or x.shape is None:
        return
    last = node.op_type == "ReorderInput" and "channels_last" in node.attributes
    if isinstance(x.shape[-1 if last and node.attributes["channels_last"].as_int() else 1], int):
        infer_by_probe(ctx, node)


@registry.register(_DOMAIN, "Upsample", since_version=1)  # type: ignore[untyped-decorator]
def infer_upsample(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Each axis times its whole scale."""
    x = node.inputs[0]
    if x is None or x.shape is None or "scales" not in node.attributes:
        return
    scales = node.attributes["scales"].as_ints()
    dims = [size * scale for size, scale in zip(x.shape.dims, scales, strict=True)]
    ctx.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), x.dtype)
