"""Inputs of attention that do not fit are refused by name, not broadcast and not left to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import f, i32, ours
from tests.evaluator.kernels.harness import run

QKV = (f(2, 3, 8), f(2, 3, 8), f(2, 3, 8))
PAST = (f(2, 2, 4, 4), f(2, 2, 4, 4))
GROUPED = (f(2, 1, 16), f(2, 1, 8), f(2, 1, 8))
CACHES = (f(2, 2, 6, 4), f(2, 2, 6, 4))
LENGTHS = (i32(3, 4), i32(5))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ((*QKV, f(23)), "bias"),
        ((*QKV, None, i32(1, 1, 1)), "mask"),
        ((*QKV, None, None, f(2, 2, 3, 4)), "attention_bias"),
        ((*QKV, None, None, None, f(1, 2, 4, 4), PAST[1]), "past_key"),
        ((*QKV, None, None, None, PAST[0], f(2, 2, 3, 4)), "past_value"),
        ((f(2, 24), *QKV[1:]), "query"),
    ],
)
def test_multi_head_attention(given: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ours("MultiHeadAttention", *given, num_heads=2, outputs=3)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ((f(1, 2, 6, 4), CACHES[1], *LENGTHS), "past_key"),
        ((CACHES[0], f(2, 2, 5, 4), *LENGTHS), "past_value"),
        ((*CACHES, *LENGTHS, f(9, 2), f(9, 1)), "sin_cache"),
        ((*CACHES, *LENGTHS, f(9, 2), f(9, 2), np.zeros((1, 1), np.int64)), "position_ids"),
        ((*CACHES, *LENGTHS, f(9, 2), f(9, 2), None, f(3, 1, 1, 5)), "attention_bias"),
        ((*CACHES, *LENGTHS, f(9, 2), f(9, 2), None, f(2, 1, 1, 4)), "attention_bias"),
        ((*CACHES, *LENGTHS, f(9, 2), f(9, 2), None, None, f(2)), "head_sink"),
    ],
)
def test_group_query_attention(given: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ours(
            "GroupQueryAttention",
            *GROUPED,
            *given,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
            outputs=3,
        )


@pytest.mark.parametrize(
    ("past", "name"),
    [((f(1, 2, 4, 4), PAST[1]), "past_key"), ((PAST[0], f(2, 2, 3, 4)), "past_value")],
)
def test_attention(past: Any, name: str) -> None:
    heads = f(2, 2, 3, 4)
    with pytest.raises(ValueError, match=name):
        run("Attention", heads, heads, heads, None, *past, opset=23, outputs=3)


@pytest.mark.parametrize(
    ("bias", "extra", "name"), [(f(12), None, "bias"), (f(24), f(3, 1, 3, 3), "attention_bias")]
)
def test_attention_of_com_microsoft(bias: Any, extra: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ours("Attention", f(2, 3, 5), f(5, 24), bias, None, None, extra, num_heads=2)


@pytest.mark.parametrize(
    ("update", "starts", "name"),
    [(f(2, 1, 4), np.array([1]), "write_indices"), (f(8), np.array([1, 1]), "rank")],
)
def test_tensor_scatter(update: Any, starts: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        run("TensorScatter", f(2, 6, 4), update, starts, opset=24)
