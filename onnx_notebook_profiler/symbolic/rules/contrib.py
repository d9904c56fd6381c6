"""Other operators of com.microsoft.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import maximum
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__: list[str] = []


@rule("BiasSoftmax", "Inverse", "Trilu", "QLinearSoftmax", "QLinearSigmoid", domain=CONTRIB)
@rule("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "BiasAdd", "QLinearLeakyRelu", domain=CONTRIB)
def infer_same(call: Call) -> None:
    """As the first input."""
    call.give(0, call.shape(0), call.dtype(0))


@rule("BiasDropout", domain=CONTRIB)
def infer_bias_dropout(call: Call) -> None:
    """As the data, and a mask."""
    call.give(0, call.shape(0), call.dtype(0))
    call.give(1, call.shape(0), ir.DataType.BOOL)


@rule("BiasSplitGelu", domain=CONTRIB)
def infer_split_gelu(call: Call) -> None:
    """Half of the last axis."""
    shape = call.shape(0)
    call.give(0, (*shape[:-1], shape[-1] // 2), call.dtype(0))


@rule("IsAllFinite", domain=CONTRIB)
def infer_is_all_finite(call: Call) -> None:
    """One boolean."""
    call.give(0, (), ir.DataType.BOOL)


@rule("MurmurHash3", domain=CONTRIB)
def infer_murmur_hash(call: Call) -> None:
    """As X; without a sign unless ``positive`` is 0."""
    positive = call.attributes.get("positive", 1)
    call.give(0, call.shape(0), ir.DataType.UINT32 if positive else ir.DataType.INT32)


@rule("QuantizeLinear", domain=CONTRIB)
def infer_quantize(call: Call) -> None:
    """As x, in the type of the zero point, of ``output_dtype``, or uint8."""
    wanted = int(call.attributes.get("output_dtype", 0))
    dtype = call.dtype(2) if call.has(2) else wanted or ir.DataType.UINT8
    call.give(0, call.shape(0), dtype)


@rule("DequantizeLinear", domain=CONTRIB)
def infer_dequantize(call: Call) -> None:
    """As x, in the type of the scale."""
    call.give(0, call.shape(0), call.dtype(1))


@rule("Rfft", domain=CONTRIB)
def infer_rfft(call: Call) -> None:
    """One side of the spectrum, complex."""
    shape = call.shape(0)
    call.give(0, (*shape[:-1], shape[-1] // 2 + 1, 2), call.dtype(0))


@rule("Irfft", domain=CONTRIB)
def infer_irfft(call: Call) -> None:
    """The signal of one side of a spectrum."""
    shape = call.shape(0)
    call.give(0, (*shape[:-2], (shape[-2] - 1) * 2), call.dtype(0))


@rule("QLinearReduceMean", domain=CONTRIB)
def infer_quantised_mean(call: Call) -> None:
    """1 along the axes, or nothing with ``keepdims`` 0."""
    shape = call.shape(0)
    given = call.attributes.get("axes")
    axes = {axis_of(axis, len(shape)) for axis in (given or range(len(shape)))}
    if call.attributes.get("keepdims", 1):
        call.give(0, [1 if axis in axes else s for axis, s in enumerate(shape)], call.dtype(0))
    else:
        call.give(0, [s for axis, s in enumerate(shape) if axis not in axes], call.dtype(0))


@rule("GroupQueryAttention", domain=CONTRIB)
def infer_group_query_attention(call: Call) -> None:
    """Output [B, S, heads * D], caches [B, groups, T, D], T from the input that holds the total length."""
    heads, groups = (int(call.attributes[name]) for name in ("num_heads", "kv_num_heads"))
    q = call.shape(0)
    if call.has(1):
        hidden, size = q[2], q[2] // heads
    else:  # queries, keys and values in one
        size = q[2] // (heads + 2 * groups)
        hidden = size * heads
    call.give(0, (q[0], q[1], hidden), call.dtype(0))
    past = call.known_shape(3)
    content = call.content(6) if call.has(6) else None
    if content is None:
        total = call.data_dim(1, 2, None) if call.wants(1) or call.wants(2) else None
    else:
        total = call.entries(6)[0]
        if past is not None:
            total = maximum(total, past[2])
    for position in (1, 2):
        if call.wants(position):
            assert total is not None
            call.give(position, (q[0], groups, total, size), call.dtype(0))


@rule("EmbedLayerNormalization", domain=CONTRIB)
def infer_embedding(call: Call) -> None:
    """[B, S, hidden], a mask index of each item, and the sum of the embeddings."""
    tokens, words = call.shape(0), call.shape(2)
    if len(tokens) != 2 or len(words) != 2:
        raise Undecided("it expects [batch, sequence] and [words, hidden]")
    call.give(0, (*tokens, words[1]), call.dtype(2))
    call.give(1, tokens[:1], ir.DataType.INT32)
    call.give(2, (*tokens, words[1]), call.dtype(2))
