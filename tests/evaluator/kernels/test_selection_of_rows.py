"""TopK, OneHot, NonMaxSuppression, Einsum and the exact integer products, against brute force."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

from onnx_notebook_profiler.evaluator.kernels._integer_product import integer_product
from tests.evaluator.kernels.harness import run

KINDS = [np.float16, np.float32, np.float64, np.int64, np.uint8, ml_dtypes.bfloat16]


def topk(x: Any, k: int, largest: int) -> tuple[list[Any], list[int]]:
    """By sorting pairs: NaN counts as greater than all, the first of equals comes first."""
    key = [(np.inf, 1) if np.isnan(v) else (float(v), 0) for v in x.tolist()]
    order = sorted(
        range(len(key)), key=lambda i: ((-key[i][0], -key[i][1]) if largest else key[i], i)
    )[:k]
    return [x[i] for i in order], order


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_topk(data: Any) -> None:
    n = data.draw(st.integers(1, 90))
    kind = np.dtype(data.draw(st.sampled_from(KINDS)))
    x = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), kind)
    if kind.kind not in "iu":
        for place in data.draw(st.lists(st.integers(0, n - 1), max_size=n)):
            x[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
    k, largest = data.draw(st.integers(0, n)), data.draw(st.integers(0, 1))
    values, places = run("TopK", x[None], np.array([k]), outputs=2, largest=largest)
    expected, order = topk(x, k, largest)
    assert places[0].tolist() == order
    expected_values = np.array(expected, kind)
    if kind.kind == "V":
        values, expected_values = values.astype(np.float32), expected_values.astype(np.float32)
    np.testing.assert_array_equal(values[0], expected_values)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [1, 60, 75, 99])
def test_topk_reaches_into_many_missing_numbers(k: int, largest: int) -> None:
    x = np.random.default_rng(0).permutation(100).astype(np.float32)
    x[::3] = np.nan
    values, places = run("TopK", x, np.array([k]), outputs=2, largest=largest)
    expected, order = topk(x, k, largest)
    assert places.tolist() == order
    np.testing.assert_array_equal(values, np.array(expected, np.float32))


def test_topk_along_another_axis_and_before_opset_10() -> None:
    x = np.random.default_rng(0).permutation(60).reshape(3, 4, 5).astype(np.float32)
    values, places = run("TopK", x, outputs=2, axis=1, k=2, opset=1)
    np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(x, places, axis=1), values)
    with pytest.raises(ValueError, match="k is 6, axis 2 has 5"):
        run("TopK", x, np.array([6]), axis=2, outputs=2)


def test_one_hot_ignores_what_lies_outside() -> None:
    y = run("OneHot", np.array([0, -1, 3, 7]), np.array(4), np.array([5, 9]), axis=0)
    assert y.T.tolist() == [[9, 5, 5, 5], [5, 5, 5, 9], [5, 5, 5, 9], [5, 5, 5, 5]]


def overlap(a: Any, b: Any) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared: float = float(np.prod(np.maximum(high - low, 0)))
    return float(shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared))


@pytest.mark.parametrize("seed", range(5))
def test_non_max_suppression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.random((1, 20, 2), np.float32)
    boxes = np.concatenate(
        (corners, corners + rng.random((1, 20, 2), np.float32) * 0.5 + 0.01), axis=2
    )
    scores = rng.random((1, 2, 20), np.float32)
    chosen = run(
        "NonMaxSuppression",
        boxes,
        scores,
        np.array([4]),
        np.array([0.3], np.float32),
        np.array([0.2], np.float32),
    )
    expected = []
    for group in range(2):
        kept: list[int] = []
        for box in np.argsort(-scores[0, group]).tolist():
            free = all(overlap(boxes[0, box], boxes[0, other]) <= 0.3 for other in kept)
            if scores[0, group, box] > 0.2 and free and len(kept) < 4:
                kept.append(box)
        expected += [[0, group, box] for box in kept]
    assert chosen.tolist() == expected


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 6, 3, 4), (2, 6, 4, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("ii->i", [(4, 4)]),
        ("i,j", [(3,), (4,)]),
        ("ij,ij->", [(3, 4), (3, 4)]),
        ("ijk,jl->il", [(2, 3, 4), (3, 5)]),
        ("abc,cd,de->abe", [(2, 3, 4), (4, 5), (5, 2)]),
        ("ij->ji", [(3, 4)]),
        ("bhsd,bhtd->bhst", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ab,bc", [(0, 3), (3, 2)]),
    ],
)
def test_einsum(equation: str, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape) for shape in shapes]
    np.testing.assert_allclose(
        run("Einsum", *values, equation=equation), np.einsum(equation, *values), rtol=1e-12
    )


def test_einsum_that_does_not_fit() -> None:
    for equation, words in (
        ("ij,jk->il", "names an index"),
        ("ijk->i", "does not name"),
        ("i+j", "cannot read"),
    ):
        with pytest.raises(ValueError, match=words):
            run(
                "Einsum",
                np.ones((2, 3)),
                *([np.ones((3, 2))] if "," in equation else []),
                equation=equation,
            )


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_integer_products_are_exact(data: Any) -> None:
    """Also where a single float32 sum would not be: long rows of large numbers of one sign."""
    m, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    depth = data.draw(st.sampled_from([1, 7, 300, 5000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    low = data.draw(st.sampled_from([0, 200]))
    a = rng.integers(low, 256, (m, depth), np.int64)
    b = rng.integers(low, 256, (depth, n), np.int64)
    zero = data.draw(st.sampled_from([0, 3, 255]))
    out = np.empty((m, n), np.int32)
    integer_product(a.astype(np.float32), b.astype(np.uint8), np.uint8(zero), out)
    np.testing.assert_array_equal(out, a @ (b - zero))
