"""Random operators and Dropout in training: what their draws must look like, and that a seed repeats them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.evaluator.kernels.harness import run, typed

MANY = 40_000  # more than two blocks; the standard error of a mean is 1 / 200 of the deviation


def draw(op: str, shape: tuple[int, ...], **attributes: Any) -> Any:
    if op.endswith("Like"):
        return run(op, np.zeros(shape, np.float32), **attributes)
    return run(op, shape=list(shape), **attributes)


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("op", ["RandomNormal", "RandomNormalLike"])
def test_normal_numbers(op: str, opset: int) -> None:
    found = draw(op, (4, MANY // 4), opset=opset, mean=3.0, scale=0.5, seed=1.0)
    assert found.shape == (4, MANY // 4)
    assert found.dtype == np.float32
    assert abs(found.mean() - 3) < 0.02
    assert abs(found.std() - 0.5) < 0.02
    assert abs((found < 3.5).mean() - 0.8413) < 0.01  # one deviation
    assert np.unique(found).size > MANY * 0.98  # blocks do not repeat each other


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("op", ["RandomUniform", "RandomUniformLike"])
def test_even_numbers(op: str, opset: int) -> None:
    found = draw(op, (MANY,), opset=opset, low=-2.0, high=6.0, seed=2.0)
    assert found.min() >= -2
    assert found.max() <= 6
    shares = np.histogram(found, bins=8, range=(-2, 6))[0] / MANY
    np.testing.assert_allclose(shares, 1 / 8, atol=0.01)


@pytest.mark.parametrize(
    "op", ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
def test_a_seed_repeats_and_none_does_not(op: str) -> None:
    one, same, other = (draw(op, (20_000,), seed=seed) for seed in (7.5, 7.5, 8.0))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(draw(op, (9,)), draw(op, (9,)))
    assert draw(op, (0, 3), seed=1.0).shape == (0, 3)
    if op.endswith("Like"):
        assert draw(op, (), seed=1.0).shape == ()


def test_types_of_random_tensors() -> None:
    for number, dtype in (
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    ):
        assert draw("RandomNormal", (3,), opset=22, dtype=number).dtype == dtype
        assert draw("RandomUniformLike", (3,), opset=22, dtype=number).dtype == dtype
        assert run("RandomNormalLike", np.zeros(3, dtype), opset=22).dtype == dtype
    assert run("RandomUniformLike", np.zeros(3, np.int64)).dtype == np.float32


@pytest.mark.parametrize("opset", [15, 22])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bernoulli(opset: int, dtype: Any) -> None:
    chances = np.repeat(np.array([0, 0.2, 0.9, 1], dtype), MANY)
    found = run("Bernoulli", chances, opset=opset, seed=3.0)
    assert found.dtype == dtype
    assert set(np.unique(found)) <= {0, 1}
    shares = found.astype(np.float64).reshape(4, -1).mean(axis=1)
    assert shares[0] == 0
    assert shares[3] == 1
    np.testing.assert_allclose(shares[1:3], [0.2, 0.9], atol=0.01)
    np.testing.assert_array_equal(found, run("Bernoulli", chances, opset=opset, seed=3.0))
    assert not np.array_equal(run("Bernoulli", chances), run("Bernoulli", chances))
    assert run("Bernoulli", chances[:5], opset=opset, dtype=TensorProto.BOOL).dtype == np.bool_


@pytest.mark.parametrize("opset", [7, 22])
def test_multinomial(opset: int) -> None:
    chances = np.array([[0.1, 0, 0.6, 0.3], [0, 1, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logits = (np.log(chances) + np.array([[5], [-900], [0]])).astype(
            np.float32
        )  # need not be normalised
    found = run("Multinomial", logits, opset=opset, sample_size=MANY, seed=4.0)
    assert found.shape == (3, MANY)
    assert found.dtype == np.int32
    shares = np.array([np.bincount(row, minlength=4) / MANY for row in found])
    np.testing.assert_allclose(shares, chances, atol=0.01)
    assert not shares[chances == 0].any()
    again = run("Multinomial", logits, opset=opset, sample_size=MANY, seed=4.0)
    np.testing.assert_array_equal(found, again)


def test_multinomial_of_many_rows_types_and_errors() -> None:
    only = np.full((5000, 7), -np.inf, np.float16)
    only[np.arange(5000), np.arange(5000) % 7] = 1
    found = run("Multinomial", only, sample_size=3, dtype=TensorProto.INT64)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, (np.arange(5000) % 7)[:, None].repeat(3, axis=1))
    assert run("Multinomial", np.zeros((0, 3), np.float32)).shape == (0, 1)
    with pytest.raises(ValueError, match=r"expects \[N, C\], got \[3\]"):
        run("Multinomial", np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="one class or more"):
        run("Multinomial", np.zeros((2, 0), np.float32))


@pytest.mark.parametrize("opset", [12, 13, 22])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dropout_in_training(opset: int, dtype: Any) -> None:
    x = np.ones((4, MANY // 4), dtype)
    y, mask = run("Dropout", x, dtype(0.25), np.array(True), opset=opset, outputs=2, seed=5)
    assert y.dtype == dtype
    assert mask.dtype == np.bool_
    assert abs(mask.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y, np.where(mask, dtype(1 / 0.75), 0), rtol=1e-3)
    # numpy's RandomState under that seed, in one call
    drawn = np.random.RandomState(5).uniform(size=x.shape) >= 0.25
    np.testing.assert_array_equal(mask, drawn)
    np.testing.assert_array_equal(
        y, run("Dropout", x, dtype(0.25), np.array(True), opset=opset, seed=5)
    )


def test_dropout_draws_anew_without_a_seed_and_halves_by_default() -> None:
    x = np.ones(MANY, np.float32)
    one, other = (run("Dropout", x, None, np.array(True), opset=13) for _ in range(2))
    assert not np.array_equal(one, other)
    assert set(np.unique(one)) == {0, 2}
    assert abs((one == 0).mean() - 0.5) < 0.02


def test_dropout_with_ratio_0_keeps_everything() -> None:
    x = np.arange(6, dtype=np.float32)
    y, mask = run("Dropout", x, typed.float32(0), np.array(True), opset=13, outputs=2)
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    with pytest.raises(ValueError, match="a ratio from 0 up to but not including 1, got 1"):
        run("Dropout", x, typed.float32(1), np.array(True), opset=13)


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_trained_unless_told_otherwise(opset: int) -> None:
    x = np.ones(MANY, np.float32)
    y, mask = run("Dropout", x, opset=opset, outputs=2, ratio=0.2)
    assert mask.dtype == np.float32
    assert abs((y == 0).mean() - 0.2) < 0.01
    np.testing.assert_allclose(y, mask * np.float32(1.25), rtol=1e-6)
    np.testing.assert_array_equal(run("Dropout", x, opset=opset, is_test=1), x)
