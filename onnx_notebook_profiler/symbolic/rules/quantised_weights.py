"""Weights of four and eight bits, and what else com.microsoft has beside attention.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, axis_of

__all__: list[str] = []


@rule("MatMulBnb4", domain=CONTRIB)
def infer_product_with_four_bits(call: Call) -> None:
    """[..., N], or [..., K] where the matrix is not turned."""
    width = "N" if call.attributes.get("transB", 1) else "K"
    sizes = (*call.shape(0)[:-1], Expr.constant(int(call.attributes[width])))
    call.give(0, sizes, call.dtype(0))


@rule("GatherBlockQuantized", domain=CONTRIB)
def infer_gathered_blocks(call: Call) -> None:
    """As data, with the indices' shape in the place of an axis; bytes may hold several numbers along the last one."""
    data = list(call.shape(0))
    if call.dtype(0) == ir.DataType.UINT8:
        data[-1] = data[-1] * (8 // int(call.attributes.get("bits", 4)))
    axis = axis_of(int(call.attributes.get("gather_axis", 0)), len(data))
    call.give(0, (*data[:axis], *call.shape(1), *data[axis + 1 :]), call.dtype(2))


@rule("DynamicQuantizeLSTM", domain=CONTRIB)
def infer_quantised_lstm(call: Call) -> None:
    """Y [S, directions, B, H], Y_h and Y_c [directions, B, H] of X [S, B, I] and R [directions, H, 4 H]."""
    x, recurrence = call.shape(0), call.shape(2)
    directions, hidden = recurrence[:2]
    call.give(0, (x[0], directions, x[1], hidden), call.dtype(0))
    for position in (1, 2):
        call.give(position, (directions, x[1], hidden), call.dtype(0))


@rule("SwiGLU", domain=CONTRIB)
def infer_swiglu(call: Call) -> None:
    """As the gate, which holds both halves where nothing else is given."""
    shape = call.shape(0)
    half = shape if call.has(1) else (*shape[:-1], shape[-1] // 2)
    call.give(0, half, call.dtype(0))


@rule("NGramRepeatBlock", domain=CONTRIB)
def infer_repeat_block(call: Call) -> None:
    """As the scores."""
    call.give(0, call.shape(1), call.dtype(1))


@rule("GemmaRotaryEmbedding", domain=CONTRIB)
def infer_gemma_rotary(call: Call) -> None:
    """As q and k."""
    call.give(0, call.shape(1), call.dtype(1))
    call.give(1, call.shape(3), call.dtype(3))


@rule("RelativePositionBias", domain=CONTRIB)
def infer_position_bias(call: Call) -> None:
    """[1, heads, queries, keys] of a table [buckets, heads]."""
    queries, keys = call.entries(1)[0], call.entries(2)[0]
    call.give(0, (1, call.shape(0)[1], queries, keys), call.dtype(0))
