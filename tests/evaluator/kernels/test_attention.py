"""Attention of the default domain against its formula in float64, written out for whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import f
from tests.evaluator.kernels.harness import run


def formula(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past: Any = (None, None),
    filled: Any = None,
    *,
    opset: int,
    causal: int = 0,
    cap: float = 0.0,
) -> Any:
    """The operator's function body for four axes; a row without keys is zeros."""
    if past[0] is not None:
        k, v = np.concatenate((past[0], k), 2), np.concatenate((past[1], v), 2)
    share = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, share, 1), np.repeat(v, share, 1)))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[3])
    if cap:
        scores = cap * np.tanh(scores / cap)
    queries, keys = scores.shape[2:]
    if mask is not None:
        whole = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask.astype(np.float64)
        if opset >= 24:
            widths = [(0, 0)] * (whole.ndim - 1) + [(0, keys - whole.shape[-1])]
            whole = np.pad(whole, widths, constant_values=-np.inf)
        scores = scores + whole
    before = np.array([0 if past[0] is None else past[0].shape[2]] * len(q))
    if filled is not None:
        before = filled - queries
        scores = np.where(np.arange(keys) < filled[:, None, None, None], scores, -np.inf)
    if causal:
        ends = before[:, None, None] + np.arange(queries)[:, None]
        scores = np.where((np.arange(keys) <= ends)[:, None], scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total)) @ v


def check(
    opset: int,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past: Any = (None, None),
    filled: Any = None,
    *,
    causal: int = 0,
    cap: float = 0.0,
) -> None:
    expected = formula(q, k, v, mask, past, filled, opset=opset, causal=causal, cap=cap)
    inputs = [q, k, v, mask, *past, filled]
    while inputs[-1] is None:
        inputs.pop()
    wanted = 1 if past[0] is None else 3
    y = run("Attention", *inputs, opset=opset, outputs=wanted, is_causal=causal, softcap=cap)
    y = y[0] if wanted > 1 else y
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-5)


QKV = (f(2, 4, 3, 8), f(2, 2, 5, 8), f(2, 2, 5, 6))
LONG = (f(2, 4, 150, 8), f(2, 2, 150, 8), f(2, 2, 150, 6))


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    "shape", [(), (3, 1), (1, 1), (2, 4, 3, 1), (3, 5), (4, 1, 5), (2, 1, 3, 5)]
)
@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.parametrize("opset", [23, 24])
def test_masks(opset: int, kind: Any, shape: Any, causal: int) -> None:
    """A last axis of one key is for all in opset 23; from 24 on what follows it is forbidden."""
    if opset == 24 and shape == ():
        return
    mask = np.asarray(f(*shape, seed="m"))
    mask = np.asarray(mask > -1) if kind is bool else mask.astype(np.float32)
    check(opset, *QKV, mask, causal=causal)


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 3, 2)])
def test_short_masks(shape: Any) -> None:
    mask = f(*shape, seed="m")
    check(24, *QKV, mask)
    check(24, *QKV, mask > -1)
    with pytest.raises(ValueError, match="does not broadcast"):
        run("Attention", *QKV, mask, opset=23)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("cap", [0.0, 2.0])
def test_causal_after_a_past(queries: int, cap: float) -> None:
    """Positions count from the end of the past on, however many keys come with the queries."""
    past = (f(2, 2, 2, 8, seed="p"), f(2, 2, 2, 6, seed="p"))
    check(23, f(2, 4, queries, 8), *QKV[1:], None, past, causal=1, cap=cap)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("lengths", [(5, 2), (1, 4), (3, 3)])
def test_keys_that_are_padding(lengths: Any, causal: int) -> None:
    check(24, *QKV, None, (None, None), np.array(lengths), causal=causal)
    check(24, *QKV, f(3, 5), (None, None), np.array(lengths), causal=causal)


@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_many_positions_and_great_scores(masked: bool, causal: int, scale: float) -> None:
    q, k, v = LONG
    mask = f(150, 150, seed="m") > 0 if masked else None
    check(23, q * np.float32(scale), k, v, mask, causal=causal)


@pytest.mark.parametrize("kind", [bool, float])
def test_rows_without_keys_are_zeros(kind: Any) -> None:
    mask = np.ones((3, 5), np.bool_)
    mask[1] = False
    given = mask if kind is bool else np.where(mask, 0, -np.inf).astype(np.float32)
    check(23, *QKV, given)
    assert not run("Attention", *QKV, given, opset=23)[:, :, 1].any()
