"""Attention with state, and convolutions with state, of the default domain."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call

__all__: list[str] = []


@rule("CausalConvWithState")
def infer_causal_conv(call: Call) -> None:
    """As the input, and the last ``k - 1`` of its columns, W [C, 1, k].

    https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
    """
    x, w = call.shape(0), call.shape(1)
    call.give(0, x, call.dtype(0))
    call.give(1, (*x[:2], w[-1] - 1), call.dtype(0))
