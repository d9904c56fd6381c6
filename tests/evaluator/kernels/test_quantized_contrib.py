"""What onnxruntime's quantisers write for attention, LSTM, embeddings and weights of four bits: against its kernels."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both
from tests.oracles import assert_same

MS = "com.microsoft"


def f(*shape: int, seed: str = "", scale: float = 1.0, dtype: Any = np.float32) -> Any:
    numbers = np.random.default_rng(zlib.crc32(f"{shape}{seed}".encode()))
    return (numbers.standard_normal(shape) * scale).astype(dtype)


def whole(*shape: int, low: int, high: int, dtype: Any, seed: str = "") -> Any:
    numbers = np.random.default_rng(zlib.crc32(f"{shape}{seed}".encode()))
    return numbers.integers(low, high, shape).astype(dtype)


def check(op_type: str, *inputs: Any, tolerance: float = 2e-5, **options: Any) -> None:
    actual, expected = by_both(op_type, *inputs, opset=1, domain=MS, **options)
    assert_same(actual, expected, rtol=tolerance * 10, atol=tolerance)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("extra", ["plain", "mask", "lengths", "past", "causal"])
def test_quantised_attention(signed: bool, per_column: bool, extra: str) -> None:
    heads, size, inner, batch, seq, before = 4, 8, 16, 2, 5, 3
    width = 3 * heads * size
    x = whole(batch, seq, inner, low=0, high=256, dtype=np.uint8)
    kind = np.int8 if signed else np.uint8
    weights = whole(inner, width, low=-100 if signed else 0, high=100, dtype=kind)
    factors = np.abs(f(width)) * 0.01 + 0.001 if per_column else np.float32(0.01)
    zeros = np.full(width if per_column else (), 0 if signed else 50, kind)
    mask: Any = None
    if extra == "mask":
        mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
    elif extra == "lengths":
        mask = np.array([3, 5], np.int32)
    past = f(2, batch, heads, before, size) if extra == "past" else None
    check(
        "QAttention",
        *(x, weights, f(width), np.float32(0.02), np.asarray(factors, np.float32), mask),
        *(np.uint8(120), zeros, past),
        num_heads=heads,
        unidirectional=int(extra == "causal"),
        outputs=2 if extra == "past" else 1,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("per_gate", [False, True])
@pytest.mark.parametrize("more", ["plain", "states", "peepholes", "lengths"])
def test_lstm_of_eight_bits(direction: str, kind: Any, per_gate: bool, more: str) -> None:
    seq, batch, inner, hidden = 6, 2, 7, 5
    count = 2 if direction == "bidirectional" else 1
    low, high = (-127, 128) if kind == np.int8 else (0, 256)
    w = whole(count, inner, 4 * hidden, low=low, high=high, dtype=kind)
    r = whole(count, hidden, 4 * hidden, low=low, high=high, dtype=kind)
    shape = (count, 4 * hidden) if per_gate else (count,)
    zeros = np.full(shape, 0 if kind == np.int8 else 128, kind)
    states = more == "states"
    check(
        "DynamicQuantizeLSTM",
        *(f(seq, batch, inner), w, r, f(count, 8 * hidden)),
        np.array([6, 3], np.int32) if more == "lengths" else None,
        f(count, batch, hidden, seed="h") if states else None,
        f(count, batch, hidden, seed="c") if states else None,
        f(count, 3 * hidden) if more == "peepholes" else None,
        *(np.abs(f(*shape)) * 0.01 + 0.002, zeros),
        *(np.abs(f(*shape, seed="r")) * 0.01 + 0.002, zeros),
        hidden_size=hidden,
        direction=direction,
        outputs=3,
        tolerance=0.02,  # a number between two steps of eight bits may go to either
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_gathering_rows_of_few_bits(bits: int, zeros: bool, kind: Any) -> None:
    rows, width, block = 9, 64, 16
    per = 8 // bits
    data = whole(rows, width // per, low=0, high=256, dtype=np.uint8)
    scales = np.abs(f(rows, width // block, dtype=kind)) + kind(0.1)
    points = whole(rows, max(1, width // block // per), low=0, high=256, dtype=np.uint8)
    check(
        "GatherBlockQuantized",
        *(data, np.array([[0, 8, -1], [3, 3, 5]]), scales),
        *([points] if zeros else []),
        bits=bits,
        block_size=block,
        tolerance=2e-3 if kind == np.float16 else 1e-5,
    )


def test_gathering_along_the_axis_of_the_blocks() -> None:
    """Counted by hand: element i belongs to block i // 16."""
    import ml_dtypes

    data = whole(3, 40, low=-8, high=8, dtype=np.int64).astype(ml_dtypes.int4)
    scales, places = f(3, 3), np.array([0, 17, 39, 16])
    y = run(
        "GatherBlockQuantized",
        *(data, places, scales),
        domain=MS,
        opset=1,
        gather_axis=1,
        quantize_axis=1,
        block_size=16,
    )
    expected = data.astype(np.float32)[:, places] * scales[:, places // 16]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("sizes", [(5, 32), (3, 21), (48, 16)])
def test_products_with_four_bits(kind: int, sizes: tuple[int, int]) -> None:
    rows, columns = sizes
    count, block = rows * columns, 16
    packed = whole((count + 1) // 2, low=0, high=256, dtype=np.uint8)
    scales = np.abs(f(-(-count // block)))
    options = {"N": rows, "K": columns, "block_size": block, "quant_type": kind}
    check("MatMulBnb4", f(2, 3, columns), packed, scales, **options)
    # not turned: A times the matrix that a product with ones on the diagonal shows
    _, (turned,) = by_both(
        "MatMulBnb4",
        np.eye(columns, dtype=np.float32),
        packed,
        scales,
        opset=1,
        domain=MS,
        **options,
    )
    a = f(2, 3, rows)
    y = run("MatMulBnb4", a, packed, scales, domain=MS, opset=1, transB=0, **options)
    np.testing.assert_allclose(y, a @ turned.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("segments", [True, False])
def test_embeddings_of_eight_bits(segments: bool) -> None:
    width = 16
    tables = [
        whole(rows, width, low=0, high=256, dtype=np.uint8, seed=str(rows)) for rows in (30, 8, 2)
    ]
    rows = [whole(width, low=0, high=256, dtype=np.uint8, seed=one) for one in "gb"]
    ids = whole(2, 6, low=0, high=30, dtype=np.int32)
    kinds = whole(2, 6, low=0, high=2, dtype=np.int32) if segments else None
    mask = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)
    scales: list[Any] = [np.float32(0.01 * number + 0.01) for number in range(5)]
    zeros: list[Any] = [np.uint8(number + 100) for number in range(5)]
    if not segments:
        tables[2], scales[2], zeros[2] = None, None, None
    check(
        "QEmbedLayerNormalization",
        *(ids, kinds, *tables, *rows, mask, *scales, *zeros),
        outputs=2,
        tolerance=1e-4,
    )
