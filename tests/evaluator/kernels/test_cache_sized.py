"""The helpers that cut work into pieces, against plain numpy and against the same work in one piece."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from onnx_notebook_profiler.evaluator.kernels import _bands, _sums, _turning
from onnx_notebook_profiler.evaluator.kernels._windows import boxes
from tests.evaluator.kernels.harness import run


@settings(max_examples=200)
@given(st.data())
def test_axes_in_every_order(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=5)))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
    expected = np.ascontiguousarray(x.transpose(order)).reshape([shape[axis] for axis in order])
    turn = _turning.turn_of(shape, order, x.itemsize)
    for step in {turn.step, 1, 2}:
        out = np.full(expected.shape, -1, np.int16)
        turn._replace(step=step).copy(x, out)
        np.testing.assert_array_equal(out, expected)


def test_axes_that_stay_neighbours_are_one() -> None:
    turn = _turning.turn_of((2, 3, 1, 4, 5), (3, 4, 2, 0, 1), 4)
    assert (turn.given, turn.order, turn.made) == ((6, 20), (1, 0), (20, 6))
    # rows that are 4096 bytes apart share the sets of the cache, so they are copied in pieces
    assert _turning.turn_of((1024, 1024), (1, 0), 4).step < 1024
    assert _turning.turn_of((1000, 24), (1, 0), 4).step == 1000


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_large_transpositions(order: Any) -> None:
    x = np.arange(3 * 2048 * 70, dtype=np.float32).reshape(3, 2048, 70)
    np.testing.assert_array_equal(run("Transpose", x, perm=list(order)), x.transpose(order))


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 300])
def test_sums_of_rows(count: int) -> None:
    rows = np.random.default_rng(count).normal(size=(4, count))
    for made, expected in (
        (_sums.add_rows, rows.sum(axis=1)),
        (_sums.add_squares, (rows**2).sum(axis=1)),
    ):
        out = np.full(4, np.nan)
        made(rows, out)
        np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_which_arrays_are_rows() -> None:
    x = np.zeros((2, 3, 4))
    found = {axes: _sums.rows_of(x, axes) for axes in [(2,), (1, 2), (0, 1, 2), (1,), (0, 2), ()]}
    shapes = {axes: None if rows is None else rows.shape for axes, rows in found.items()}
    assert shapes == {
        (2,): (6, 4),
        (1, 2): (2, 12),
        (0, 1, 2): (1, 24),
        (1,): None,
        (0, 2): None,
        (): None,
    }
    assert _sums.rows_of(x.transpose(1, 0, 2), (2,)) is None
    assert _sums.rows_of(x.astype(np.int64), (2,)) is None
    assert _sums.rows_of(x[:0], (2,)) is None


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    st.integers(1, 40),
)
def test_boxes_hold_each_window_once_and_are_contiguous(shape: Any, limit: int) -> None:
    numbers = np.arange(math.prod(shape)).reshape(shape)
    seen = [numbers[box].reshape(-1) for box in boxes(shape, limit)]
    assert [int(number) for part in seen for number in part] == list(range(numbers.size))
    sizes = [part.size for part in seen]
    assert all(size <= limit for size in sizes)
    assert sizes == sorted(sizes, reverse=True) or len(shape) > 1
    assert not sizes or sizes[0] == max(sizes)


@pytest.mark.parametrize("filters", [1, 3])
@pytest.mark.parametrize(
    "how",
    [
        {"pads": [2, 1, 2, 1]},
        {"strides": [2, 3], "pads": [1, 0, 0, 2]},
        {"dilations": [3, 2], "pads": [3, 4, 3, 4]},
        {"pads": [9, 9, 9, 9]},
    ],
)
def test_bands_in_small_scratch(monkeypatch: pytest.MonkeyPatch, how: Any, filters: int) -> None:
    random = np.random.default_rng(0)
    x, w = random.normal(size=(2, 5, 20, 40)), random.normal(size=(5 * filters, 1, 3, 3))
    bias = random.normal(size=5 * filters)
    expected = run("Conv", x, w, bias, group=5, **how)
    monkeypatch.setattr(_bands, "ROOM", 2**12)
    _bands.bands.cache_clear()
    np.testing.assert_allclose(run("Conv", x, w, bias, group=5, **how), expected, rtol=1e-12)
    monkeypatch.setattr(_bands, "ROOM", 0)  # no band fits: the other way
    _bands.bands.cache_clear()
    np.testing.assert_allclose(run("Conv", x, w, bias, group=5, **how), expected, rtol=1e-10)
    _bands.bands.cache_clear()


def test_bands_leave_infinities_and_their_channels_to_another_way() -> None:
    x = np.zeros((2, 3, 6, 6), np.float32)
    x[1, 1, 2, 2] = np.inf
    x[0, 2, 5, 5] = np.nan
    y = run("Conv", x, np.ones((3, 1, 3, 3), np.float32), group=3, pads=[1] * 4)
    assert np.isinf(y[1, 1]).sum() == 9
    assert np.isnan(y[0, 2]).sum() == 4
    assert np.isfinite(y).sum() == y.size - 13
