"""com.microsoft's attention where onnxruntime has no CPU kernel: the same numbers in a form that it has one for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import MS, check, f, i32
from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both
from tests.evaluator.kernels.test_contrib_attention import (
    BIAS,
    PAST,
    QKV,
    STATE,
    WEIGHTS,
    D,
    H,
    P,
    S,
    T,
    W,
    X,
)
from tests.evaluator.kernels.test_decoder_attention import ONE
from tests.oracles import assert_same


def by_ort(op_type: str, *inputs: Any, **options: Any) -> list[Any]:
    return by_both(op_type, *inputs, opset=1, domain=MS, **options)[1]


def ours(op_type: str, *inputs: Any, outputs: int = 1, **options: Any) -> list[Any]:
    found = run(op_type, *inputs, domain=MS, opset=1, outputs=outputs, **options)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("options", [{}, {"unidirectional": 1}], ids=str)
def test_packed_keys_and_values(options: dict[str, Any]) -> None:
    packed = f(2, S, H, 3, D)
    apart = [packed[:, :, :, part].reshape(2, S, W) for part in range(3)]
    expected = by_ort("MultiHeadAttention", *apart, num_heads=H, **options)
    assert_same(ours("MultiHeadAttention", packed, num_heads=H, **options), expected, 2e-4, 2e-5)
    pairs = np.ascontiguousarray(packed[:, :, :, 1:])
    found = ours("MultiHeadAttention", apart[0], pairs, num_heads=H, **options)
    assert_same(found, expected, 2e-4, 2e-5)


DECODED = {
    "plain": ({}, {}),
    "mask": ({4: i32([1, 1, 0, 1], [0, 1, 1, 1])}, {}),
    "bias": ({3: f(3 * W), 5: f(1, H, 1, P + 1)}, {}),
    "attention bias": ({5: f(2, 1, 1, P + 1)}, {}),
    "scale": ({}, {"scale": 0.4}),
}


@pytest.mark.parametrize("name", DECODED)
def test_decoder_with_a_cache_of_its_own(name: str) -> None:
    """The inputs of the other operator in another order."""
    more, options = DECODED[name]
    given: list[Any] = [*ONE, None, None, None, *PAST]
    for position, value in more.items():
        given[position] = value
    q, k, v, bias, mask, extra, *past = given
    expected = by_ort("MultiHeadAttention", *given, num_heads=H, outputs=3, **options)
    found = ours(
        "DecoderMaskedMultiHeadAttention",
        *(q, k, v, mask, extra, *past, None, None, None, bias),
        num_heads=H,
        outputs=3,
        **options,
    )
    assert_same(found, expected, 2e-4, 2e-5)
    if not more:
        packed = np.concatenate([q, k, v], axis=2)
        found = ours(
            "DecoderMaskedMultiHeadAttention",
            *(packed, None, None, None, None, *past),
            num_heads=H,
            outputs=3,
            **options,
        )
        assert_same(found, expected, 2e-4, 2e-5)


def test_a_mask_of_four_axes() -> None:
    """[B, 1, M, M], of which row and column of a position count: as the same mask of three axes."""
    mask = (f(2, 1, 8, 8, seed="m") > 0).astype(np.int32)
    options: dict[str, Any] = {"num_heads": H}
    expected = by_ort(
        "Attention", X, WEIGHTS, BIAS, np.ascontiguousarray(mask[:, 0, :S, :S]), **options
    )
    assert_same(ours("Attention", X, WEIGHTS, BIAS, mask, **options), expected, 2e-4, 2e-5)
    mask = (f(2, 1, 9, 9, seed="m") > 0).astype(np.int32)
    rows = np.ascontiguousarray(mask[:, 0, P:T, :T])
    expected = by_ort("Attention", X, WEIGHTS, BIAS, rows, STATE, outputs=2, **options)
    found = ours("Attention", X, WEIGHTS, BIAS, mask, STATE, outputs=2, **options)
    assert_same(found, expected, 2e-4, 2e-5)


def normalised(x: Any, weight: Any, epsilon: float) -> Any:
    """Each head by the root of the mean of its squares."""
    heads = x.reshape(*x.shape[:2], -1, len(weight)).astype(np.float64)
    heads = heads / np.sqrt((heads**2).mean(axis=-1, keepdims=True) + epsilon) * weight
    return heads.reshape(x.shape).astype(x.dtype)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01])
def test_normalised_queries_and_keys(epsilon: float) -> None:
    q, k, v = f(1, 5, 64), f(1, 5, 32, seed="k"), f(1, 5, 32, seed="v")
    weights = f(16), f(16, seed="n")
    angles = f(32, 8), f(32, 8, seed="s")
    rest = (None, None, i32(4), i32(5), *angles)
    options: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    plain = (normalised(q, weights[0], epsilon), normalised(k, weights[1], epsilon), v)
    expected = by_ort("GroupQueryAttention", *plain, *rest, outputs=3, **options)
    found = ours(
        "GroupQueryAttention",
        *(q, k, v, *rest, None, None, None, None, None, *weights),
        outputs=3,
        qk_norm_epsilon=epsilon,
        **options,
    )
    assert_same(found, expected, 2e-4, 2e-5)


def test_items_with_fewer_queries_than_there_is_room_for() -> None:
    """What lies beyond an item's own queries has no meaning."""
    batch = f(2, 4, 64), f(2, 4, 32, seed="k"), f(2, 4, 32, seed="v")
    past = f(2, 2, 8, 16), f(2, 2, 8, 16, seed="v")
    counts = i32(4, 2)
    given = (*batch, *past, i32(6, 2), i32(8), *[None] * 9, counts)
    options: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    actual, expected = by_both(
        "GroupQueryAttention", *given, opset=1, domain=MS, outputs=3, **options
    )
    for item, count in enumerate(counts):
        assert_same(actual[0][item, :count], expected[0][item, :count], 2e-4, 2e-5)


LENGTHS = (3, 5)


def places_of(lengths: tuple[int, ...]) -> tuple[Any, Any]:
    """token_offset and cumulative_sequence_length of items without their padding."""
    longest = max(lengths)
    own = [b * longest + t for b, length in enumerate(lengths) for t in range(length)]
    rest = [at for at in range(longest * len(lengths)) if at not in own]
    return i32(*own, *rest).reshape(len(lengths), -1), i32(0, *np.cumsum(lengths))


def test_attention_without_padding() -> None:
    """As each item by itself."""
    offsets, ends = places_of(LENGTHS)
    items = [f(1, length, 16, seed=str(length)) for length in LENGTHS]
    extra = f(1, H, 5, 5)
    found = ours(
        "PackedAttention",
        *(np.concatenate(items, axis=1)[0], WEIGHTS, BIAS, offsets, ends, extra),
        num_heads=H,
    )
    expected = [
        by_ort(
            "Attention",
            *(item, WEIGHTS, BIAS, None, None),
            np.ascontiguousarray(extra[:, :, : item.shape[1], : item.shape[1]]),
            num_heads=H,
        )[0][0]
        for item in items
    ]
    assert_same(found, [np.concatenate(expected)], 2e-4, 2e-5)


def test_multi_head_attention_without_padding() -> None:
    offsets, ends = places_of(LENGTHS)
    items = [[f(1, length, W, seed=f"{part}{length}") for part in "qkv"] for length in LENGTHS]
    together = [np.concatenate(parts, axis=1)[0] for parts in zip(*items, strict=True)]
    bias = f(3 * W)
    expected = np.concatenate(
        [by_ort("MultiHeadAttention", *item, bias, num_heads=H)[0][0] for item in items]
    )
    found = ours("PackedMultiHeadAttention", *together, bias, offsets, ends, num_heads=H)
    assert_same(found, [expected], 2e-4, 2e-5)
    packed = np.stack([one.reshape(-1, H, D) for one in together], axis=2)
    found = ours("PackedMultiHeadAttention", packed, None, None, bias, offsets, ends, num_heads=H)
    assert_same(found, [expected], 2e-4, 2e-5)


def test_linear_attention_and_causal_convolution() -> None:
    check(
        "LinearAttention",
        *QKV,
        q_num_heads=H,
        kv_num_heads=H,
        outputs=2,
        update_rule="linear",
    )
    check("CausalConvWithState", f(2, 6, S), f(6, 1, 3), f(6), outputs=2)


def bucket(distance: int, buckets: int, furthest: int, *, both: bool) -> int:
    """T5's bucket of key position minus query position (Raffel et al. 2020): exact when near, then logarithmic."""
    first, n = 0, -distance
    if both:
        buckets //= 2
        first = buckets if n < 0 else 0
        n = abs(n)
    n = max(n, 0)
    near = buckets // 2
    if n < near:
        return first + n
    far = near + int(math.log(n / near) / math.log(furthest / near) * (buckets - near))
    return first + min(far, buckets - 1)


@pytest.mark.parametrize("both", [True, False])
def test_relative_position_bias(both: bool) -> None:
    table = f(32, H)
    (found,) = ours(
        "RelativePositionBias",
        *(table, np.array([40]), np.array([50])),
        max_distance=20,
        is_bidirectional=int(both),
    )
    assert found.shape == (1, H, 40, 50)
    for query in range(40):
        for key in range(50):
            # The table lies in memory head by head.
            expected = table.reshape(H, 32)[:, bucket(key - query, 32, 20, both=both)]
            np.testing.assert_array_equal(found[0, :, query, key], expected)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_gated_relative_position_bias() -> None:
    """WavLM (Chen et al. 2022): gates u and r of each query; rel_pos times u (r s - 1) + 2."""
    query, query_bias, places = f(2, S, W), f(W), f(1, H, S, S)
    weight, bias, factors = f(D, 8), f(8), f(1, H, 1, 1)
    expected = np.empty((2, H, S, S))
    for b in range(2):
        for h in range(H):
            for s in range(S):
                own = slice(h * D, (h + 1) * D)
                line = (query[b, s, own] + query_bias[own]).astype(np.float64) @ weight + bias
                u, r = sigmoid(line[:4].sum()), sigmoid(line[4:].sum())
                expected[b, h, s] = (u * (r * factors[0, h, 0, 0] - 1) + 2) * places[0, h, s]
    given = (query, query_bias, places, weight, bias, factors)
    found = ours("GatedRelativePositionBias", *given, num_heads=H)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    tokens = np.concatenate([query[0, :3], query[1]])
    offsets, _ = places_of(LENGTHS)
    packed = ours(
        "GatedRelativePositionBias", tokens, *given[1:], offsets, i32(0, 3, 8), num_heads=H
    )
    np.testing.assert_allclose(packed[0][0, :, :3], expected[0, :, :3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(packed[0][1], expected[1], rtol=1e-4, atol=1e-5)


def test_gemma_rotary_embedding() -> None:
    angles = f(2, S, D)
    q, q_turned, k, k_turned = (f(2, H, S, D, seed=part, dtype=np.float16) for part in "abcd")
    found = ours("GemmaRotaryEmbedding", angles, q, q_turned, k, k_turned, outputs=2)
    for y, x, turned in ((found[0], q, q_turned), (found[1], k, k_turned)):
        expected = x * np.cos(angles)[:, None] + turned * np.sin(angles)[:, None]
        assert y.dtype == np.float16
        np.testing.assert_allclose(y.astype(float), expected, rtol=4e-3, atol=4e-3)
