"""Relative positions, packed sequences and states over time of com.microsoft, against their formulas as loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import f, i32, ours, theirs
from tests.oracles import assert_same


def bucket(distance: int, count: int, farthest: int, both: bool) -> int:
    """T5's bucket of a key *distance* places after the query."""
    first = 0
    if both:
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(farthest / exact)
    return first + min(exact + int(share * (count - exact)), count - 1)


@pytest.mark.parametrize("both", [0, 1])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (40, 40), (3, 7), (0, 4)])
def test_relative_position_bias(queries: int, keys: int, both: int) -> None:
    table = f(8, 3)
    columns = table.reshape(3, 8)
    lengths = (np.array(queries), np.array(keys))
    (y,) = ours("RelativePositionBias", table, *lengths, max_distance=19, is_bidirectional=both)
    assert y.shape == (1, 3, queries, keys)
    for query in range(queries):
        for key in range(keys):
            place = bucket(key - query, 8, 19, bool(both))
            np.testing.assert_array_equal(y[0, :, query, key], columns[:, place])


@pytest.mark.parametrize("packed", [False, True])
def test_gated_relative_position_bias(packed: bool) -> None:
    batch, heads, length, size, width = 2, 2, 3, 4, 6
    query, query_bias = f(batch, length, heads * size), f(heads * size)
    positions, weight, bias, eco = f(1, heads, length, length), f(size, width), f(width), f(heads)
    whole = query
    tail: tuple[Any, ...] = ()
    if packed:
        query[1, 2] = 0
        whole = np.concatenate((query[0], query[1, :2]))
        tail = (i32([0, 1, 2], [3, 4, 5]),)
    given = (whole, query_bias, positions, weight, bias, eco.reshape(1, heads, 1, 1), *tail)
    (y,) = ours("GatedRelativePositionBias", *given, num_heads=heads)
    for item, head, place in np.ndindex(batch, heads, length):
        own = slice(head * size, (head + 1) * size)
        made = (query[item, place, own] + query_bias[own]) @ weight + bias
        u, r = (1 / (1 + math.exp(-half.sum())) for half in np.split(made, 2))
        expected = positions[0, head, place] * (u * (r * eco[head] - 1) + 2)
        np.testing.assert_allclose(y[item, head, place], expected, rtol=1e-5)


@pytest.mark.parametrize("extra", [None, f(2, 1, 4, 4), f(1, 2, 4, 4)])
def test_packed_sequences_are_as_alone(extra: Any) -> None:
    heads, ends = 2, (0, 3, 3, 7) if extra is None or extra.shape[0] == 1 else (0, 3, 7)
    x, weights, bias = f(7, 5), f(5, 24), f(24)
    offsets = np.zeros((len(ends) - 1, 4), np.int32)
    parts = np.split(x @ weights, 3, axis=1)
    options: Any = {"num_heads": heads, "scale": 0.4}
    (y,) = ours("PackedAttention", x, weights, bias, offsets, i32(*ends), extra, **options)
    split = (*parts, bias, offsets, i32(*ends), extra)
    (z,) = ours("PackedMultiHeadAttention", *split, **options)
    joined = np.stack([part.reshape(7, heads, 4) for part in parts], axis=2)
    whole = (joined, None, None, *split[3:])
    (w,) = ours("PackedMultiHeadAttention", *whole, **options)
    for item, (first, last) in enumerate(itertools.pairwise(ends)):
        if first == last:
            continue
        alone = [np.ascontiguousarray(part[None, first:last]) for part in parts]
        own = None
        if extra is not None:
            row = extra[item : item + 1] if extra.shape[0] > 1 else extra
            own = np.ascontiguousarray(row[:, :, : last - first, : last - first])
        expected = theirs("MultiHeadAttention", *alone, bias, None, own, **options)
        for actual in (y, z, w):
            assert_same([actual[None, first:last]], expected, rtol=1e-4, atol=1e-5)


def test_gemma_rotary_embedding() -> None:
    emb = f(2, 5, 8)
    q, q_rot = (f(2, 3, 5, 8, seed=seed, dtype=np.float16) for seed in "ab")
    k, k_rot = (f(2, 1, 5, 8, seed=seed, dtype=np.float16) for seed in "cd")
    cos, sin = (turn(emb)[:, None].astype(np.float16) for turn in (np.cos, np.sin))
    actual = ours("GemmaRotaryEmbedding", emb, q, q_rot, k, k_rot, outputs=2)
    assert_same(actual, [q * cos + q_rot * sin, k * cos + k_rot * sin], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2), (2, 4)])
def test_linear_attention(heads: int, groups: int, rule: str) -> None:
    steps = 5
    given = (f(2, steps, heads * 3), f(2, steps, groups * 3, seed="k"), f(2, steps, groups * 4))
    past = f(2, groups, 3, 4)
    decay = -np.abs(f(2, steps, groups * 3)) if rule.startswith("gated") else None
    beta = np.abs(f(2, steps, 1)) if rule.endswith("delta") else None
    options: Any = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule, "outputs": 2}
    actual = ours("LinearAttention", *given, past, decay, beta, **options)
    expected = theirs("LinearAttention", *given, past, decay, beta, **options)
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)
    for window in (
        3,
        7,
    ):  # the states after each of the last steps, zeros before the first
        history = f(window, 2, groups, 3, 4)
        history[-1] = past
        _, states = ours(
            "LinearAttention", *given, history, decay, beta, state_window=window, **options
        )
        for back in range(window):
            count = steps - back
            if count <= 0:
                assert not states[-1 - back].any()
                continue
            short = [
                None if x is None else np.ascontiguousarray(x[:, :count])
                for x in (*given, decay, beta)
            ]
            _, state = theirs("LinearAttention", *short[:3], past, *short[3:], **options)
            assert_same(states[-1 - back], state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("known", [False, True])
def test_causal_convolution(known: bool, last: int, dilation: int, activation: str) -> None:
    reach = 2 * dilation
    x, weight, bias, past = f(2, 3, 7), f(3, 1, 3), f(3), f(2, 3, reach)
    if last:
        x, past = (np.ascontiguousarray(one.swapaxes(1, 2)) for one in (x, past))
    given = (x, weight, bias, past) if known else (x, weight)
    options: Any = {"channels_last": last, "dilation": dilation, "activation": activation}
    actual, expected = (
        run("CausalConvWithState", *given, outputs=2, **options) for run in (ours, theirs)
    )
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)
