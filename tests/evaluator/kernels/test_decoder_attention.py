"""com.microsoft's attention of one query, RotaryEmbedding and NGramRepeatBlock, against onnxruntime's own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import check, f, i32, ours, theirs
from tests.oracles import assert_same

H, D, S, P = 4, 8, 5, 3
W = H * D
PAST = (f(2, H, P, D), f(2, H, P, D, seed="v"))
KEYS = f(2, 1, W, seed="k")
ONE = (f(2, 1, W), KEYS, f(2, 1, W, seed="v"))

DECODER: dict[str, tuple[Any, Any]] = {
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


@pytest.mark.parametrize(
    ("mask", "extra", "biased", "attributes"),
    [
        (None, None, False, {}),
        (i32([1, 1, 0, 1], [0, 1, 1, 1]), None, False, {"mask_filter_value": -20.0}),
        (None, f(1, H, 1, P + 1), True, {}),
        (None, f(2, 1, 1, P + 1), False, {"scale": 0.4}),
    ],
)
def test_decoder_with_a_past_that_grows(
    mask: Any, extra: Any, biased: bool, attributes: Any
) -> None:
    bias = f(3 * W) if biased else None
    options = {"num_heads": H, "outputs": 3, **attributes}
    expected = theirs("MultiHeadAttention", *ONE, bias, mask, extra, *PAST, **options)
    tail = (None, None, None, bias) if biased else ()
    op_type = "DecoderMaskedMultiHeadAttention"
    actual = ours(op_type, *ONE, mask, extra, *PAST, *tail, **options)
    assert_same(actual, expected, rtol=1e-4, atol=2e-5)
    if biased or mask is not None:
        return
    packed = np.concatenate(ONE, axis=2)
    actual = ours(op_type, packed, None, None, mask, extra, *PAST, **options)
    assert_same(actual, expected, rtol=1e-4, atol=2e-5)


COS, SIN = f(16, D // 2), f(16, D // 2, seed="s")
PLACES = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])

ROTARY: dict[str, tuple[Any, Any]] = {
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
