"""CausalConvWithState: the state is what the next window still needs.

https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.sizes import dim_of, expression, known_dims

__all__ = ["infer_causal_convolution"]


def infer_causal_convolution(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Output like X [B, C, L], present_state [B, C, (k - 1) * dilation]; with channels_last both are turned."""
    x, weight = node.inputs[:2]
    dims, kernel = known_dims(x), known_dims(weight)
    if x is None or dims is None or kernel is None or len(kernel) < 3:
        return
    attributes = node.attributes
    dilation = attributes["dilation"].as_int() if "dilation" in attributes else 1
    last = "channels_last" in attributes and attributes["channels_last"].as_int()
    reach = dim_of((expression(kernel[2]) - 1) * dilation)
    state = [dims[0], reach, dims[2]] if last else [dims[0], dims[1], reach]
    for value, shape in zip(node.outputs, (dims, state), strict=False):
        ctx.set_shape_and_dtype(value, ir.Shape(shape), x.dtype)


for _domain, _version in (("", 27), ("com.microsoft", 1)):
    registry.register(_domain, "CausalConvWithState", since_version=_version)(
        infer_causal_convolution
    )
