"""What a context answers about sizes, budgets and other models: against totals that are counted by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from onnx_notebook_profiler.errors import SizeError
from tests.symbolic.rows import computed, graph
from tests.symbolic.test_totals import two_peaks_model, two_peaks_totals


def peak(n: int, m: int) -> int:
    return max(two_peaks_totals(n, m))


def test_the_largest_size_within_a_budget() -> None:
    context = computed(two_peaks_model())
    for m, budget in itertools.product((1, 5, 300), (9_000, 100_000, 5_000_000)):
        fitting = [n for n in range(1, 5_000) if peak(n, m) <= budget]
        assert context.largest("N", budget, M=m) == max(fitting, default=0)
        assert context.largest("N", budget, {"M": m}) == max(fitting, default=0)
    assert context.largest("N", "1 MiB", M=5) == max(
        n for n in range(1, 5_000) if peak(n, 5) <= 2**20
    )


def test_the_grid_of_sizes_within_a_budget() -> None:
    context = computed(two_peaks_model())
    grid = context.feasible({"M": range(1, 400, 40), "N": [1, 100, 300]}, "600 KiB")
    expected = [[peak(n, m) <= 600 * 1024 for n in (1, 100, 300)] for m in range(1, 400, 40)]
    assert grid.tolist() == expected
    assert {True, False} == set(grid.reshape(-1).tolist())
    assert context.feasible({"N": [1, 500]}, 100_000, M=3).tolist() == [True, False]
    assert context.feasible({"N": []}, 1, M=3).shape == (0,)
    with pytest.raises(SizeError, match="missing: 'M'"):
        context.feasible({"N": [1]}, 100)


def test_the_bounds_of_all_nodes() -> None:
    context = computed(two_peaks_model())
    found = context.bounds(N=(2, 90), M=(3, 8))
    assert found.lower.tolist() == two_peaks_totals(2, 3)  # every total grows
    assert found.upper.tolist() == two_peaks_totals(90, 8)
    assert found.peak == (peak(2, 3), peak(90, 8))
    assert str(found) == f"peak between {peak(2, 3):,} and {peak(90, 8):,} bytes"


def test_where_the_peak_moves() -> None:
    context = computed(two_peaks_model())
    nodes = [int(np.argmax(two_peaks_totals(n, 100))) for n in range(1, 2000)]
    expected = [
        (n, before, after)
        for n, (before, after) in enumerate(itertools.pairwise(nodes), 2)
        if before != after
    ]
    moves = context.peak.breakpoints("N", 1, 1999, M=100)
    assert [(move.size, move.before, move.after) for move in moves] == expected
    assert expected


def test_the_difference_of_two_models() -> None:
    """Squares of N against products with 64: 4*N*N and 256*N, one on top of X and Y."""
    square = computed(
        graph("g (float[N,8] X) => (float[N,N] Y) { T = Transpose(X) Y = MatMul(X, T) }")
    )
    table = computed(
        graph("g (float[N,8] X, float[8,64] W) => (float[N,64] Y) { Y = MatMul(X, W) }")
    )
    found = square.diff(table)
    # X, T and Y of the first; X, W and Y of the second
    assert found.evaluate(N=10) == (4 * 100 + 2 * 4 * 80, 4 * 80 + 4 * 512 + 4 * 640)
    assert {op: str(change) for op, change in found.by_operator.items()} == {
        "MatMul": "-256*N+4*N*N",
        "Transpose": "32*N",
    }
    # 4*N*N + 64*N = 2048 + 288*N where N*N - 56*N - 512 = 0: at N = 64
    crossings = [(one.size, one.relation) for one in found.crossings("N", 1, 1000)]
    assert crossings == [(64, "="), (65, ">")]
    assert found.expressions == ("4*N*N+64*N", "288*N+2048")
    assert str(found).splitlines()[0] == "peak: 4*N*N+64*N against 288*N+2048"
    assert square.diff(square).by_operator == {}
    with pytest.raises(SizeError, match="no dimension is called 'K'"):
        found.evaluate(N=1, K=2)
