"""com.microsoft's attention operators, in all their forms, against onnxruntime's own kernels."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.one_node import by_both
from tests.oracles import assert_same

MS = "com.microsoft"
H, D, S, P = 4, 8, 5, 3
W = H * D


def f(*shape: int, seed: str = "", dtype: Any = np.float32, scale: float = 1.0) -> Any:
    numbers = np.random.default_rng(zlib.crc32(f"{shape}{seed}".encode()))
    return (numbers.standard_normal(shape) * scale).astype(dtype)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def check(op_type: str, *inputs: Any, tolerance: float = 2e-5, **options: Any) -> None:
    kind = inputs[0].dtype if options.get("outputs", 1) > 3 else None  # scores may have other types
    actual, expected = by_both(op_type, *inputs, opset=1, domain=MS, output_type=kind, **options)
    if kind is not None:  # onnxruntime writes the least number for what is masked
        actual[3] = np.maximum(actual[3], np.finfo(kind).min)
    assert_same(actual, expected, rtol=tolerance * 10, atol=tolerance)


QKV = (f(2, S, W), f(2, S, W, seed="k"), f(2, S, W, seed="v"))
PAST = (f(2, H, P, D), f(2, H, P, D, seed="v"))
PAD = i32([1, 1, 1, 1, 0], [1, 1, 0, 0, 0])
T = P + S

MULTI_HEAD: dict[str, Any] = {
    "plain": (QKV, {}),
    "scale": (QKV, {"scale": 0.3}),
    "causal": (QKV, {"unidirectional": 1}),
    "bias": ((*QKV, f(3 * W)), {}),
    "bias, wider values": ((*QKV[:2], f(2, S, 2 * W), f(4 * W)), {}),
    "padding": ((*QKV, None, PAD), {}),
    "padding, nothing left": ((*QKV, None, i32([0, 0, 0, 0, 0], [1, 0, 0, 0, 0])), {}),
    "lengths": ((*QKV, None, i32(4, 2)), {}),
    "lengths and starts": ((*QKV, None, i32(4, 2, 0, 5, 10, 0, 5, 10)), {}),
    "mask 3-D": (
        (*QKV, None, (f(2, S, S, seed="m") > 0).astype(np.int32)),
        {"mask_filter_value": -50.0},
    ),
    "padding, causal": ((*QKV, None, PAD), {"unidirectional": 1}),
    "attention bias": ((*QKV, None, None, f(2, H, S, S)), {}),
    "attention bias, one": ((*QKV, None, None, f(1, 1, S, S)), {}),
    "attention bias, one item": ((*QKV, None, None, f(1, H, S, S)), {"unidirectional": 1}),
    "attention bias, one head": ((*QKV, None, None, f(2, 1, S, S)), {}),
    "cross": ((QKV[0], f(2, 7, W), f(2, 7, W, seed="v")), {}),
    "cross, causal": ((QKV[0], f(2, 7, W), f(2, 7, W, seed="v")), {"unidirectional": 1}),
    "cross, bias": ((QKV[0], f(2, 7, W), f(2, 7, W, seed="v"), f(3 * W)), {}),
    "cross, heads first": ((QKV[0], f(2, H, 7, D), f(2, H, 7, D, seed="v")), {}),
    "cross, heads first, bias": (
        (QKV[0], f(2, H, 7, D), f(2, H, 7, D, seed="v"), f(3 * W)),
        {},
    ),
    "past": ((*QKV, None, None, None, *PAST), {"outputs": 3}),
    "past, causal, bias": (
        (*QKV, f(3 * W), None, f(1, 1, S, T), *PAST),
        {"outputs": 3, "unidirectional": 1},
    ),
    "past, padding": (
        (*QKV, None, (f(2, T, seed="pad") > -1).astype(np.int32), None, *PAST),
        {"outputs": 3},
    ),
    "present": (QKV, {"outputs": 3}),
    "scores": (QKV, {"outputs": 4}),
    "scores, causal, padding": ((*QKV, None, PAD), {"outputs": 4, "unidirectional": 1}),
    "one query": (
        (f(2, 1, W), f(2, 1, W, seed="k"), f(2, 1, W, seed="v"), None, None, None, *PAST),
        {"outputs": 3},
    ),
    "shared buffer": (
        (
            f(2, 1, W),
            f(2, 1, W, seed="k"),
            f(2, 1, W, seed="v"),
            None,
            None,
            None,
            f(2, H, 9, D),
            f(2, H, 9, D, seed="v"),
            i32(4),
        ),
        {"outputs": 3},
    ),
}


@pytest.mark.parametrize("name", MULTI_HEAD)
def test_multi_head_attention(name: str) -> None:
    inputs, options = MULTI_HEAD[name]
    check("MultiHeadAttention", *inputs, **{"num_heads": H, **options})


X, WEIGHTS, BIAS = f(2, S, 16), f(16, 3 * W, scale=0.2), f(3 * W)
STATE = f(2, 2, H, P, D)

PACKED_WEIGHTS: dict[str, Any] = {
    "plain": ((X, WEIGHTS, BIAS), {}),
    "no bias": ((X, WEIGHTS), {}),
    "scale": ((X, WEIGHTS, BIAS), {"scale": 0.2}),
    "causal": ((X, WEIGHTS, BIAS), {"unidirectional": 1}),
    "sizes": (
        (X, f(16, 2 * 16 + 64, scale=0.2), f(2 * 16 + 64)),
        {"qkv_hidden_sizes": [16, 16, 64]},
    ),
    "lengths": ((X, WEIGHTS, BIAS, i32(4, 2)), {}),
    "ends and starts": ((X, WEIGHTS, BIAS, i32(4, 5, 1, 2)), {}),
    "lengths, none": ((X, WEIGHTS, BIAS, i32(0, 5)), {}),
    "mask 2-D": ((X, WEIGHTS, BIAS, PAD), {}),
    "mask 2-D, causal": ((X, WEIGHTS, BIAS, PAD), {"unidirectional": 1}),
    "mask 3-D": (
        (X, WEIGHTS, BIAS, (f(2, S, S, seed="m") > 0).astype(np.int32)),
        {"mask_filter_value": -100.0},
    ),
    "past": ((X, WEIGHTS, BIAS, None, STATE), {"outputs": 2}),
    "past, causal": ((X, WEIGHTS, BIAS, None, STATE), {"outputs": 2, "unidirectional": 1}),
    "past, mask 2-D": (
        (X, WEIGHTS, BIAS, (f(2, T, seed="pad") > -1).astype(np.int32), STATE),
        {"outputs": 2, "unidirectional": 1},
    ),
    "past, lengths": ((X, WEIGHTS, BIAS, i32(7, 6), STATE), {"outputs": 2}),
    "past, ends and starts": ((X, WEIGHTS, BIAS, i32(7, 8, 1, 4), STATE), {"outputs": 2}),
    "present": ((X, WEIGHTS, BIAS), {"outputs": 2, "unidirectional": 1}),
    "attention bias": ((X, WEIGHTS, BIAS, None, None, f(1, H, S, S)), {}),
    "attention bias, mask": ((X, WEIGHTS, BIAS, PAD, None, f(2, H, S, S)), {"unidirectional": 1}),
    "attention bias, one": ((X, WEIGHTS, BIAS, None, None, f(2, 1, S, S)), {}),
}


@pytest.mark.parametrize("name", PACKED_WEIGHTS)
def test_attention(name: str) -> None:
    inputs, options = PACKED_WEIGHTS[name]
    check("Attention", *inputs, **{"num_heads": H, **options})


def gqa(
    queries: int,
    lengths: list[int],
    room: int = 0,
    size: int = 16,
    batch: int = 1,
    rotary: bool = False,
    positions: Any = None,
    bias: Any = None,
    sink: Any = None,
    packed: bool = False,
    total: int = 0,
    more: tuple[Any, ...] = (),
    dtype: Any = np.float32,
    **attributes: Any,
) -> None:
    heads, groups = 4, 2
    tolerance = attributes.pop("tolerance", 2e-5)
    outputs = attributes.pop("outputs", 3)
    if packed:
        given = (f(batch, queries, (heads + 2 * groups) * size, dtype=dtype), None, None)
    else:
        given = (
            f(batch, queries, heads * size, dtype=dtype),
            f(batch, queries, groups * size, seed="k", dtype=dtype),
            f(batch, queries, groups * size, seed="v", dtype=dtype),
        )
    past: tuple[Any, Any] = (None, None)
    if room:
        past = (
            f(batch, groups, room, size, dtype=dtype),
            f(batch, groups, room, size, seed="v", dtype=dtype),
        )
    angles = (
        (f(32, size // 2, dtype=dtype), f(32, size // 2, seed="s", dtype=dtype))
        if rotary
        else (None, None)
    )
    check(
        "GroupQueryAttention",
        *given,
        *past,
        i32(*[one - 1 for one in lengths]),
        i32(total or max(lengths)),
        *angles,
        positions,
        bias,
        sink,
        *more,
        outputs=outputs,
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=int(rotary),
        tolerance=tolerance,
        **attributes,
    )


GROUPED: dict[str, dict[str, Any]] = {
    "prompt": {"queries": 5, "lengths": [5]},
    "prompt, no caches out": {"queries": 5, "lengths": [5], "outputs": 1},
    "prompts of two lengths": {"queries": 5, "lengths": [5, 3], "batch": 2},
    "prompt into a cache": {"queries": 5, "lengths": [5], "room": 8},
    "prompt, rotary": {"queries": 5, "lengths": [5], "rotary": True},
    "prompts, rotary, interleaved": {
        "queries": 5,
        "lengths": [5, 3],
        "batch": 2,
        "rotary": True,
        "rotary_interleaved": 1,
    },
    "prompt, packed": {"queries": 5, "lengths": [5], "packed": True},
    "prompts, packed, rotary": {
        "queries": 5,
        "lengths": [4, 5],
        "batch": 2,
        "packed": True,
        "rotary": True,
    },
    "step": {"queries": 1, "lengths": [6], "room": 5},
    "step in a cache": {"queries": 1, "lengths": [6], "room": 8},
    "steps of two lengths": {"queries": 1, "lengths": [6, 3], "room": 8, "batch": 2},
    "step, rotary": {"queries": 1, "lengths": [6, 3], "room": 8, "batch": 2, "rotary": True},
    "step, packed, rotary": {
        "queries": 1,
        "lengths": [6, 3],
        "room": 8,
        "batch": 2,
        "rotary": True,
        "packed": True,
    },
    "step, local": {"queries": 1, "lengths": [7], "room": 8, "local_window_size": 3},
    "prompt, local": {"queries": 6, "lengths": [6], "local_window_size": 2},
    "prompt, softcap": {"queries": 6, "lengths": [6], "softcap": 2.0},
    "prompt, smooth": {"queries": 6, "lengths": [6], "smooth_softmax": 1},
    "step, smooth, local": {
        "queries": 1,
        "lengths": [7],
        "room": 8,
        "smooth_softmax": 1,
        "local_window_size": 3,
    },
    "sink": {"queries": 6, "lengths": [6], "sink": f(4)},
    "sink, step": {"queries": 1, "lengths": [6, 4], "batch": 2, "room": 8, "sink": f(4)},
    "scale": {"queries": 6, "lengths": [6], "scale": 0.7},
    "continued": {"queries": 3, "lengths": [7], "room": 8},
    "continued, rotary": {"queries": 3, "lengths": [7], "room": 8, "rotary": True},
    "continued, rotary, positions": {
        "queries": 3,
        "lengths": [7],
        "room": 8,
        "rotary": True,
        "positions": np.array([[4, 5, 6]]),
    },
    "step, rotary, positions": {
        "queries": 1,
        "lengths": [6, 3],
        "room": 8,
        "batch": 2,
        "rotary": True,
        "positions": np.array([[5], [2]]),
    },
    "prompt, rotary, positions": {
        "queries": 5,
        "lengths": [5],
        "rotary": True,
        "positions": np.arange(5)[None],
    },
    "bias": {"queries": 5, "lengths": [5], "bias": f(1, 1, 5, 5)},
    "bias, heads": {"queries": 1, "lengths": [6, 3], "room": 8, "batch": 2, "bias": f(2, 4, 1, 6)},
    "bias, local": {"queries": 5, "lengths": [5], "bias": f(1, 4, 5, 5), "local_window_size": 2},
    "scores before": {"queries": 5, "lengths": [5], "qk_output": 1, "outputs": 4},
    "scores after": {"queries": 5, "lengths": [5], "qk_output": 2, "outputs": 4},
    "scores before, softcap, local": {
        "queries": 5,
        "lengths": [5],
        "qk_output": 1,
        "outputs": 4,
        "softcap": 1.5,
        "local_window_size": 2,
    },
    "scores after, step": {
        "queries": 1,
        "lengths": [6, 3],
        "batch": 2,
        "room": 8,
        "qk_output": 2,
        "outputs": 4,
    },
    "scores before, bias": {
        "queries": 5,
        "lengths": [5],
        "qk_output": 1,
        "outputs": 4,
        "bias": f(1, 4, 5, 5),
    },
    "scores before, prompts": {
        "queries": 5,
        "lengths": [5, 3],
        "batch": 2,
        "qk_output": 1,
        "outputs": 4,
    },
    "both directions": {"queries": 5, "lengths": [5], "causal": 0},
    "both directions, two lengths": {"queries": 5, "lengths": [5, 3], "batch": 2, "causal": 0},
    "narrow": {"queries": 5, "lengths": [5], "dtype": np.float16, "tolerance": 2e-3},
    "narrow, step": {
        "queries": 1,
        "lengths": [6],
        "room": 8,
        "rotary": True,
        "dtype": np.float16,
        "tolerance": 4e-3,
    },
    "window cache": {
        "queries": 1,
        "lengths": [9],
        "room": 4,
        "sliding_window_cache": 1,
        "local_window_size": 4,
        "rotary": True,
    },
    "window cache, prompt": {
        "queries": 6,
        "lengths": [6],
        "room": 4,
        "sliding_window_cache": 1,
        "local_window_size": 3,
    },
}


@pytest.mark.parametrize("name", GROUPED)
def test_group_query_attention(name: str) -> None:
    gqa(**GROUPED[name])


KEYS = f(2, 1, W, seed="k")
ONE = (f(2, 1, W), KEYS, f(2, 1, W, seed="v"))

DECODER: dict[str, Any] = {
    "buffer": (
        (*ONE, None, None, f(2, H, 9, D), f(2, H, 9, D, seed="v"), i32(4)),
        {"outputs": 3, "past_present_share_buffer": 1},
    ),
    "buffer, mask": (
        (
            *ONE,
            i32([1, 1, 0, 1, 1], [0, 1, 1, 1, 1]),
            None,
            f(2, H, 9, D),
            f(2, H, 9, D, seed="v"),
            i32(4),
        ),
        {"outputs": 3, "past_present_share_buffer": 1},
    ),
    "beams": (
        (
            f(4, 1, W),
            f(4, 1, W, seed="k"),
            f(4, 1, W, seed="v"),
            None,
            None,
            f(4, H, 9, D),
            f(4, H, 9, D, seed="v"),
            i32(4),
            i32(2),
            (f(2, 2, 9, seed="c") > 0).astype(np.int32),
        ),
        {"outputs": 3, "past_present_share_buffer": 1},
    ),
    "cross": ((ONE[0], f(2, H, 7, D), f(2, H, 7, D, seed="v")), {}),
    "cross, mask": (
        (ONE[0], f(2, H, 7, D), f(2, H, 7, D, seed="v"), (f(2, 7) > -1).astype(np.int32)),
        {},
    ),
    "cross, bias": ((ONE[0], f(2, H, 7, D), f(2, H, 7, D, seed="v"), *[None] * 7, f(3 * W)), {}),
}


@pytest.mark.parametrize("name", DECODER)
def test_decoder_masked_multi_head_attention(name: str) -> None:
    inputs, options = DECODER[name]
    check("DecoderMaskedMultiHeadAttention", *inputs, **{"num_heads": H, **options})


COS, SIN = f(16, D // 2), f(16, D // 2, seed="s")
PLACES = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])

ROTARY: dict[str, Any] = {
    "3-D": ((f(2, S, W), PLACES, COS, SIN), {}),
    "3-D, interleaved": ((f(2, S, W), PLACES, COS, SIN), {"interleaved": 1}),
    "4-D": ((f(2, H, S, D), PLACES, COS, SIN), {}),
    "4-D, one position": ((f(2, H, S, D), np.array([2]), COS, SIN), {"interleaved": 1}),
    "partial": ((f(2, S, 2 * W), PLACES, COS, SIN), {"num_heads": H, "rotary_embedding_dim": D}),
    "partial, interleaved": (
        (f(2, S, 2 * W), PLACES, COS, SIN),
        {"num_heads": H, "rotary_embedding_dim": D, "interleaved": 1},
    ),
    "scale": ((f(2, S, W), PLACES, COS, SIN), {"scale": 2.0}),
    "narrow": (
        (f(2, S, W, dtype=np.float16), PLACES, COS.astype(np.float16), SIN.astype(np.float16)),
        {"tolerance": 2e-3},
    ),
}


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_embedding(name: str) -> None:
    inputs, options = ROTARY[name]
    check("RotaryEmbedding", *inputs, **options)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ngram_repeat_block(size: int) -> None:
    tokens = np.random.default_rng(3).integers(0, 5, (4, 12))
    check("NGramRepeatBlock", tokens, f(4, 6), ngram_size=size)


def test_ngram_repeat_block_of_a_short_text() -> None:
    check("NGramRepeatBlock", np.array([[1, 2]]), f(1, 6), ngram_size=4)
