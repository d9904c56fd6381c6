"""com.microsoft's fused products, against the formulas in float64, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.evaluator.kernels.attention_inputs import f, ours, theirs
from tests.oracles import assert_same

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
ALPHA = 0.3

FORMULAS: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "LeakyRelu": lambda x: np.where(x < 0, ALPHA * x, x),
    "Elu": lambda x: np.where(x < 0, ALPHA * np.expm1(x), x),
    "HardSigmoid": lambda x: np.clip(ALPHA * x + 0.6, 0, 1),
    "Selu": lambda x: 1.2 * np.where(x < 0, ALPHA * np.expm1(x), x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
    "ThresholdedRelu": lambda x: np.where(x > ALPHA, x, 0),
}
NUMBERS = {"activation_alpha": ALPHA, "activation_beta": 0.6, "activation_gamma": 1.2}


def rounded_once(actual: Any, exact: Any, dtype: Any) -> None:
    assert actual.dtype == dtype
    assert actual.shape == exact.shape
    step = float(ml_dtypes.finfo(dtype).eps) if np.dtype(dtype).itemsize == 2 else 1e-5
    expected = exact.astype(dtype).astype(np.float64)
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=step, atol=step / 50)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", FORMULAS)
def test_activations(activation: str, dtype: Any) -> None:
    a, b, c = f(3, 7, dtype=dtype), f(7, 6, dtype=dtype), f(6, dtype=dtype)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    options: dict[str, Any] = {"activation": activation, "alpha": 0.7, **NUMBERS}
    product = 0.7 * (wide[0] @ wide[1])
    (y,) = ours("FusedMatMulActivation", a, b, **options)
    rounded_once(y, FORMULAS[activation](product), dtype)
    if dtype == ml_dtypes.bfloat16:
        return
    (y,) = ours("FusedGemm", a, b, c, beta=-0.4, **options)
    rounded_once(y, FORMULAS[activation](product - 0.4 * wide[2]), dtype)


@pytest.mark.parametrize("activation", FORMULAS)
def test_gemm_as_onnxruntime(activation: str) -> None:
    given = (f(7, 3), f(6, 7), f(3, 1))
    options: dict[str, Any] = {
        "activation": activation,
        "transA": 1,
        "transB": 1,
        "beta": 2.0,
        **NUMBERS,
    }
    actual, expected = (run("FusedGemm", *given, **options) for run in (ours, theirs))
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("turned", range(16))
def test_transpositions(turned: int, dtype: Any) -> None:
    bits = [turned >> bit & 1 for bit in range(4)]
    names = ("transA", "transB", "transBatchA", "transBatchB")
    sides, exact = [], []
    for shape, (last, batch) in (((3, 7), bits[::2]), ((7, 6), bits[1::2])):
        whole = f(2, 4, *shape, dtype=dtype)
        exact.append(whole.astype(np.float64))
        if last:
            whole = whole.swapaxes(-1, -2)
        sides.append(np.ascontiguousarray(np.moveaxis(whole, -2, 0) if batch else whole))
    options = dict(zip(names, bits, strict=True))
    (y,) = ours("FusedMatMul", *sides, alpha=0.5, **options)
    rounded_once(y, exact[0] @ exact[1] / 2, dtype)
    if dtype in (np.float32, np.float64):
        expected = theirs("FusedMatMul", *sides, alpha=0.5, **options)
        assert_same([y], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shapes", [((5,), (5,)), ((2, 5), (5,)), ((5,), (3, 5, 2))])
def test_vectors(shapes: Any) -> None:
    a, b = (f(*shape, seed=str(side)) for side, shape in enumerate(shapes))
    (y,) = ours("FusedMatMulActivation", a, b, alpha=2.0, activation="Elu")
    product = 2 * np.matmul(a.astype(np.float64), b.astype(np.float64))
    rounded_once(y, np.where(product < 0, np.expm1(product), product), np.float32)


@pytest.mark.parametrize("dtype", TYPES[:3])
@pytest.mark.parametrize("biased", [False, True])
def test_gemm_fast_gelu(biased: bool, dtype: Any) -> None:
    x, w = f(2, 3, 8, dtype=dtype), f(8, 4, dtype=dtype)
    bias = f(4, dtype=dtype) if biased else None
    total = x.astype(np.float64) @ w.astype(np.float64)
    if bias is not None:
        total += bias.astype(np.float64)
    exact = total / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    rounded_once(ours("GemmFastGelu", x, w, bias)[0], exact, dtype)


def test_nothing_to_split() -> None:
    assert ours("BiasSplitGelu", f(2, 0, 6), f(6))[0].shape == (2, 0, 3)
    assert ours("BiasSplitGelu", f(2, 3, 0), f(0))[0].shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("op_type", "shapes", "message"),
    [
        ("FusedGemm", ((3, 2), (2, 1), (3,)), "FusedGemm: C of shape"),
        ("FusedGemm", ((3, 2), (3, 1)), "FusedGemm: .* differ"),
        ("GemmFastGelu", ((3, 2), (2, 4), (3,)), "expects a bias"),
        ("GemmFastGelu", ((), (2, 4)), "do not multiply"),
        ("BiasSplitGelu", ((1, 2, 5), (5,)), "even D"),
        ("BiasSplitGelu", ((1, 2, 4), (2,)), "even D"),
        ("FusedMatMul", ((3, 2), (3, 2)), "differ in the dimension"),
    ],
)
def test_what_does_not_fit(op_type: str, shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours(op_type, *(np.ones(shape, np.float32) for shape in shapes))
