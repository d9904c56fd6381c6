"""RoiAlign: one result for each region.

https://onnx.ai/onnx/operators/onnx__RoiAlign.html
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.sizes import known_dims

__all__ = ["infer_roi_align"]


def infer_roi_align(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """[regions, C, output_height, output_width]."""
    x, rois = node.inputs[:2]
    dims, regions = known_dims(x), known_dims(rois)
    if x is None or dims is None or regions is None:
        return
    height, width = (
        node.attributes[name].as_int() if name in node.attributes else 1
        for name in ("output_height", "output_width")
    )
    ctx.set_shape_and_dtype(
        node.outputs[0], ir.Shape([regions[0], dims[1], height, width]), x.dtype
    )


for _version in (10, 16, 22):
    registry.register("", "RoiAlign", since_version=_version)(infer_roi_align)
