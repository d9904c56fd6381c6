"""com.microsoft's MultiHeadAttention and Attention, in all their forms, against onnxruntime's own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import check, f, i32, ours, theirs
from tests.oracles import assert_same

H, D, S, P = 4, 8, 5, 3
W = H * D
QKV = (f(2, S, W), f(2, S, W, seed="k"), f(2, S, W, seed="v"))
PAST = (f(2, H, P, D), f(2, H, P, D, seed="v"))
PAD = i32([1, 1, 1, 1, 0], [1, 1, 0, 0, 0])
T = P + S

MULTI_HEAD: dict[str, tuple[Any, Any]] = {
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

PACKED_WEIGHTS: dict[str, tuple[Any, Any]] = {
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


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_of_packed_inputs(causal: int) -> None:
    whole = f(2, S, H, 3, D)
    parts = [np.ascontiguousarray(whole[:, :, :, one]).reshape(2, S, W) for one in range(3)]
    expected = theirs("MultiHeadAttention", *parts, num_heads=H, unidirectional=causal)
    packed = ours("MultiHeadAttention", whole, num_heads=H, unidirectional=causal)
    assert_same(packed, expected, rtol=1e-4, atol=2e-5)
    pairs = np.ascontiguousarray(whole[:, :, :, 1:])
    packed = ours("MultiHeadAttention", parts[0], pairs, num_heads=H, unidirectional=causal)
    assert_same(packed, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("past", [None, STATE])
def test_attention_with_a_square_mask(past: Any) -> None:
    before = 0 if past is None else P
    square = (f(2, 1, 9, 9, seed="m") > -0.5).astype(np.int32)
    part = np.ascontiguousarray(square[:, 0, before : before + S, : before + S])
    options = {"num_heads": H, "outputs": 2}
    expected = theirs("Attention", X, WEIGHTS, BIAS, part, past, **options)
    actual = ours("Attention", X, WEIGHTS, BIAS, square, past, **options)
    assert_same(actual, expected, rtol=1e-4, atol=2e-5)
