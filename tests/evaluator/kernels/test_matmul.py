"""MatMul and Gemm against sums written out."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run, typed

BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
SHAPES = [
    ((3,), (3,), ()),
    ((3,), (3, 2), (2,)),
    ((2, 3), (3,), (2,)),
    ((2, 3), (3, 4), (2, 4)),
    ((5, 2, 3), (3, 4), (5, 2, 4)),
    ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
    ((3,), (5, 3, 2), (5, 2)),
    ((5, 2, 3), (3,), (5, 2)),
    ((2, 0), (0, 3), (2, 3)),
    ((0, 2, 3), (3, 4), (0, 2, 4)),
    ((4, 2, 0), (0, 3), (4, 2, 3)),
]


def numbers(shape: Any, dtype: Any, seed: Any) -> Any:
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return (np.abs(values) if np.dtype(dtype).kind == "u" else values).astype(dtype)


@pytest.mark.parametrize(("a_shape", "b_shape", "shape"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64, np.int32, np.uint64])
def test_products_of_every_rank(a_shape: Any, b_shape: Any, shape: Any, dtype: Any) -> None:
    a, b = numbers(a_shape, dtype, 1), numbers(b_shape, dtype, 2)
    result = run("MatMul", a, b)
    assert result.shape == shape
    assert result.dtype == a.dtype
    exact = np.matmul(a.astype(np.int64), b.astype(np.int64))  # small integers: no rounding
    np.testing.assert_array_equal(result.astype(np.int64), exact)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_long_sums_of_narrow_floats(dtype: Any) -> None:
    ones = np.ones((1, 4096)).astype(dtype)  # counted up in float16 this would stop at 2048
    assert float(run("MatMul", ones, ones.reshape(-1, 1))[0, 0]) == 4096
    assert float(run("Gemm", ones, ones, transB=1)[0, 0]) == 4096


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3), (2, 3), "dimension to sum over"),
        ((), (3,), "rank 1 or more"),
        ((2, 2, 3), (3, 3, 4), "leading dimensions"),
    ],
)
def test_shapes_that_do_not_fit(a: Any, b: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run("MatMul", np.ones(a), np.ones(b))


def written_out(a: Any, b: Any, c: Any, alpha: Any, beta: Any, trans_a: Any, trans_b: Any) -> Any:
    a = a.T if trans_a else a
    b = b.T if trans_b else b
    rows, columns = a.shape[0], b.shape[1]
    y = np.zeros((rows, columns))
    for i, j, k in itertools.product(range(rows), range(columns), range(a.shape[1])):
        y[i, j] += alpha * a[i, k] * b[k, j]
    return y if c is None else y + beta * np.broadcast_to(c, y.shape)


@given(
    st.sampled_from([None, (), (1,), (4,), (1, 4), (2, 1), (2, 4)]),
    st.sampled_from([1.0, 0.5, -2.0]),
    st.sampled_from([1.0, 0.0, 2.5]),
    st.booleans(),
    st.booleans(),
)
def test_gemm(c_shape: Any, alpha: Any, beta: Any, trans_a: Any, trans_b: Any) -> None:
    a = numbers((3, 2) if trans_a else (2, 3), np.float64, 1)
    b = numbers((4, 3) if trans_b else (3, 4), np.float64, 2)
    c = None if c_shape is None else numbers(c_shape, np.float64, 3)
    attributes = {"alpha": alpha, "beta": beta, "transA": int(trans_a), "transB": int(trans_b)}
    expected = written_out(a, b, c, alpha, beta, trans_a, trans_b)
    inputs = (a, b) if c is None else (a, b, c)
    np.testing.assert_array_equal(run("Gemm", *inputs, **attributes), expected)
    narrow = run("Gemm", *(x.astype(np.float16) for x in inputs), **attributes)
    np.testing.assert_array_equal(narrow, expected)


def test_gemm_of_integers() -> None:
    a, b = typed.int64([[2**60, 1]]), typed.int64([[3], [1]])
    assert run("Gemm", a, b, typed.int64([5]))[0, 0] == 3 * 2**60 + 6  # not representable as float
    result = run(
        "Gemm", typed.int32([[3]]), typed.int32([[3]]), typed.int32([2]), alpha=0.5, beta=1.5
    )
    assert result[0, 0] == 7  # 4.5 + 3, cut off


def test_gemm_without_beta_ignores_c() -> None:
    c = np.full((1, 1), np.nan)
    assert run("Gemm", np.ones((1, 2)), np.ones((2, 1)), c, beta=0.0)[0, 0] == 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (2, 3)), "dimension to sum over"),
        (((3,), (3, 2)), "two matrices"),
        (((2, 3), (3, 4), (3,)), "does not broadcast"),
        (((2, 3), (3, 4), (1, 2, 4)), "does not broadcast"),
        (((1, 3), (3, 4), (2, 4)), "does not broadcast"),
    ],
)
def test_gemm_shapes_that_do_not_fit(shapes: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run("Gemm", *map(np.ones, shapes))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("most", [10, 2**20, None])
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((40, 50), (50, 30)),
        ((3, 40, 50), (50, 30)),
        ((2, 1, 20, 50), (3, 50, 30)),
        ((9, 2), (2, 9)),
    ],
)
def test_long_sums_of_integers_wrap_around(
    a_shape: Any, b_shape: Any, most: int | None, dtype: Any
) -> None:
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if most is None else (max(-most, limits.min), most)
    numbers = np.random.default_rng(3)
    a = numbers.integers(low, high, a_shape, dtype, endpoint=True)
    b = numbers.integers(low, high, b_shape, dtype, endpoint=True)
    exact = np.matmul(a.astype(object), b.astype(object))
    wrapped = (exact & (2**limits.bits - 1)).astype(f"u{limits.bits // 8}").view(dtype)
    np.testing.assert_array_equal(run("MatMul", a, b, opset=13), wrapped)
    if a.ndim == b.ndim == 2:
        np.testing.assert_array_equal(run("Gemm", a.T, b, opset=13, transA=1), wrapped)


def test_long_sums_of_integer_vectors() -> None:
    for most in (10, 2**30):
        a = np.random.default_rng(3).integers(-most, most, 9000, np.int32)
        exact = sum(int(x) * int(x) for x in a.tolist())
        wrapped = np.array(exact & 0xFFFFFFFF, np.uint32).view(np.int32)
        assert run("MatMul", a, a, opset=13) == wrapped
