"""com.microsoft's GroupQueryAttention, in all its forms, against onnxruntime's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import check, f, i32, ours, theirs
from tests.oracles import assert_same


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
    "prompts, rotary, positions": {
        "queries": 3,
        "lengths": [3, 3],
        "batch": 2,
        "rotary": True,
        "positions": np.array([[2, 3, 9], [5, 0, 6]]),
    },
    "prompts of one token, rotary, positions": {
        "queries": 1,
        "lengths": [1, 1],
        "batch": 2,
        "rotary": True,
        "positions": np.array([[2], [7]]),
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


def _rms(x: Any, weight: Any, epsilon: float) -> Any:
    heads = x.reshape(*x.shape[:2], -1, weight.size).astype(np.float64)
    scaled = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + epsilon) * weight
    return scaled.reshape(x.shape).astype(x.dtype)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(
    ("epsilons", "attributes"),
    [
        ((1e-6, 1e-6), {}),
        ((0.1, 0.01), {"q_norm_epsilon": 0.1, "qk_norm_epsilon": 0.01}),
        ((0.02, 0.3), {"qk_norm_epsilon": 0.02, "k_norm_epsilon": 0.3}),
    ],
)
def test_normalised_queries_and_keys(epsilons: Any, attributes: Any, rotary: int) -> None:
    q, k, v = f(2, 1, 64), f(2, 1, 32, seed="k"), f(2, 1, 32, seed="v")
    past = (f(2, 2, 8, 16), f(2, 2, 8, 16, seed="v"), i32(5, 2), i32(6))
    angles = (f(32, 8), f(32, 8, seed="s")) if rotary else (None, None)
    weights = f(16), f(16, seed="n")
    options = {"num_heads": 4, "kv_num_heads": 2, "outputs": 3, "do_rotary": rotary}
    expected = theirs(
        "GroupQueryAttention",
        *(_rms(q, weights[0], epsilons[0]), _rms(k, weights[1], epsilons[1]), v),
        *(*past, *angles),
        **options,
    )
    more = [None] * 5
    given = (q, k, v, *past, *angles, *more, *weights)
    actual = ours("GroupQueryAttention", *given, **options, **attributes)
    assert_same(actual, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("rotary", [0, 1])
def test_chunks_of_several_lengths(rotary: int) -> None:
    """Each item is as if it were alone with the queries that are no padding."""
    q, k, v = f(2, 4, 64), f(2, 4, 32, seed="k"), f(2, 4, 32, seed="v")
    past = f(2, 2, 8, 16), f(2, 2, 8, 16, seed="v")
    angles = (f(32, 8), f(32, 8, seed="s")) if rotary else (None, None)
    options = {"num_heads": 4, "kv_num_heads": 2, "outputs": 3, "do_rotary": rotary}
    lengths, chunks = (7, 3), (4, 2)
    more = [None] * 7
    given = (q, k, v, *past, i32(6, 2), i32(8), *angles, *more, i32(*chunks))
    y, keys, values = ours("GroupQueryAttention", *given, **options)
    for item, (length, count) in enumerate(zip(lengths, chunks, strict=True)):
        one = slice(item, item + 1)
        alone = [np.ascontiguousarray(x[one, :count]) for x in (q, k, v)]
        caches = [np.ascontiguousarray(x[one]) for x in past]
        own = (*alone, *caches, i32(length - 1), i32(length), *angles)
        expected = theirs("GroupQueryAttention", *own, **options)
        actual = [y[one, :count], keys[one, :, :length], values[one, :, :length]]
        expected[1:] = [cache[:, :, :length] for cache in expected[1:]]
        assert_same(actual, expected, rtol=1e-4, atol=2e-5)
