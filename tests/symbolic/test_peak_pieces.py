"""Who can be the peak, where it moves, what fits and what is certified: against every size of small ranges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic import expression as ex
from onnx_notebook_profiler.symbolic.bounds import total_bounds
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.inverse import feasible, largest
from onnx_notebook_profiler.symbolic.peak import Peak
from onnx_notebook_profiler.symbolic.ranges import bounds

N, M = Expr.symbol("N"), Expr.symbol("M")
GRID = list(itertools.product(range(14), range(7)))


@st.composite
def totals(draw: st.DrawFn) -> list[Expr]:
    """Sums as models have them: products of sizes, halved and rounded, maxima, minima, constants."""
    halves = [ex.floordiv(N + k, d) for d in (2, 3, 4) for k in (0, 1, d - 1)]
    atoms = [N, M, ex.minimum(N, 5), ex.maximum(N, M), ex.floordiv(M + 1, 2), N % 3, *halves]
    monomials = [Expr.constant(1), *atoms, N * M, N * N, *(M * half for half in halves[:4])]
    term = st.tuples(st.integers(-2, 9), st.sampled_from(monomials))
    sums = st.lists(term, min_size=1, max_size=3)
    return [
        Expr.sum(factor * monomial for factor, monomial in one)
        for one in draw(st.lists(sums, min_size=1, max_size=7))
    ]


def peak_of(made: list[Expr]) -> Peak:
    return Peak(made, CompiledForms(made, ("N", "M")))


def values(made: list[Expr], n: int, m: int) -> list[int]:
    return [one.evaluate({"N": n, "M": m}) for one in made]


@settings(max_examples=150, deadline=None)
@given(totals())
def test_the_pieces_hold_the_greatest_value_at_every_size(made: list[Expr]) -> None:
    whole = peak_of(made)
    for peak, grid in (
        (whole, GRID),
        (whole.within(N=(1, None), M=(1, None)), [(n, m) for n, m in GRID if n and m]),
        (whole.within(N=(2, 9), M=3), [(n, 3) for n in range(2, 10)]),
    ):
        pieces = [piece.bytes for piece in peak.pieces]
        for n, m in grid:
            assert max(values(pieces, n, m)) == max(values(made, n, m)), (n, m)


@settings(max_examples=100, deadline=None)
@given(totals())
def test_the_fast_way_gives_the_same_peak(made: list[Expr]) -> None:
    peak = peak_of(made)
    for n, m in GRID:
        assert peak.evaluate(N=n, M=m) == max(values(made, n, m))
    curve = peak.over(N=[n for n, _ in GRID], M=[m for _, m in GRID])
    for (n, m), nbytes, node in zip(GRID, curve.bytes, curve.nodes, strict=True):
        all_values = values(made, n, m)
        assert (nbytes, node) == (max(all_values), all_values.index(max(all_values)))


@settings(max_examples=60, deadline=None)
@given(totals(), st.integers(0, 6))
def test_breakpoints_are_where_the_node_changes(made: list[Expr], m: int) -> None:
    nodes = [int(np.argmax(values(made, n, m))) for n in range(3, 40)]
    expected = [
        (n, before, after)
        for n, (before, after) in enumerate(itertools.pairwise(nodes), 4)
        if before != after
    ]
    found = peak_of(made).breakpoints("N", 3, 39, M=m)
    assert [(one.size, one.before, one.after) for one in found] == expected


@settings(max_examples=100, deadline=None)
@given(totals(), st.integers(0, 6), st.integers(0, 400))
def test_the_largest_size_that_fits(made: list[Expr], m: int, budget: int) -> None:
    peak = peak_of(made)
    fitting = [n for n in range(1, 1200) if max(values(made, n, m)) <= budget]
    try:
        found = largest(peak, ("N", "M"), "N", budget, {"M": m})
    except SizeError:
        assert (
            fitting[-1] >= 1197
        )  # refused only where there is no last one; N%3 comes back again and again
        return
    assert found == max(fitting, default=0)


@settings(max_examples=60, deadline=None)
@given(totals(), st.integers(0, 300))
def test_the_grid_of_what_fits(made: list[Expr], budget: int) -> None:
    grid = feasible(peak_of(made), ("N", "M"), {"M": range(5), "N": [0, 3, 9]}, budget, {})
    assert grid.shape == (5, 3)
    for row, m in enumerate(range(5)):
        for column, n in enumerate((0, 3, 9)):
            assert grid[row, column] == (max(values(made, n, m)) <= budget)


@settings(max_examples=100, deadline=None)
@given(totals())
def test_bounds_hold_everywhere_and_are_met_by_sums_that_grow(made: list[Expr]) -> None:
    ranges = {"N": (2, 11), "M": (1, 4)}
    found = total_bounds(made, ranges, ("N", "M"))
    every = np.array([values(made, n, m) for n in range(2, 12) for m in range(1, 5)])
    assert (found.lower <= every.min(axis=0)).all()
    assert (found.upper >= every.max(axis=0)).all()
    assert found.peak[0] <= every.max(axis=1).min()
    assert found.peak[1] >= every.max()
    for number, total in enumerate(made):
        plain = all(factor > 0 or not monomial for monomial, factor in total.terms.items())
        if plain and "%" not in str(total):
            assert found.lower[number] == every[:, number].min()
            assert found.upper[number] == every[:, number].max()


def test_a_rounded_layer_never_beats_the_layer_before_it() -> None:
    """ceil(N/4) rows of 64 against ceil(N/2) rows of 64: never more, and equal at N = 1 and 2."""
    made = [64 * ex.floordiv(N + 1, 2), 64 * ex.floordiv(N + 3, 4)]
    assert [piece.node for piece in peak_of(made).pieces] == [0]
    assert [piece.node for piece in peak_of(made[::-1]).pieces] == [1]
    # though the first node to reach the peak is then node 0, at N = 0, 1, 2
    assert peak_of(made[::-1]).over(N=range(5), M=1).nodes.tolist() == [0, 0, 0, 1, 1]


def test_few_pieces_of_many_nodes() -> None:
    made = [k * N * M + (40 - k) * N + 7 * k for k in range(40)]
    pieces = peak_of(made).within(N=(1, None), M=(1, None)).pieces
    assert [piece.node for piece in pieces] == [39]  # at N = M = 1 all sums but 7 * k are 40
    assert str(pieces[0]) == "node 39: 39*M*N+N+273"


def test_sizes_that_the_model_cannot_have() -> None:
    """Two sizes that must be equal: no peak where they are not, whatever the pieces."""
    joined = ex.broadcast(2 * ex.floordiv(N + 1, 2), N)
    made = [4 * joined, 8 * N]
    peak = peak_of(made)
    for _ in range(40):
        assert peak.evaluate(N=6) == 48
        with pytest.raises(SizeError, match="broadcast"):
            peak.evaluate(N=7)
    assert largest(peak, ("N", "M"), "N", 120, {"M": 1}) == 14  # 15 * 8 is 120, but 15 is odd
    grid = feasible(peak, ("N", "M"), {"N": range(10, 17)}, 120, {"M": 1})
    assert grid.tolist() == [True, False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"K": (1, 2)}, "no dimension is called 'K'"),
        ({"N": (3, 2)}, "range of 'N'"),
        ({"N": (-1, 2)}, "range of 'N'"),
        ({"N": "1..2"}, "range of 'N'"),
        ({"N": True}, "range of 'N'"),
        ({"N": (1.5, 2)}, "range of 'N'"),
    ],
)
def test_what_is_no_range(ranges: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeError, match=message):
        peak_of([N]).within(ranges)


def test_questions_with_no_answer() -> None:
    peak = peak_of([N * M, M + 7])
    with pytest.raises(SizeError, match="stays within"):
        largest(peak_of([M]), ("N", "M"), "N", 100, {"M": 3})
    assert largest(peak_of([M]), ("N", "M"), "N", 100, {"M": 300}) == 0
    with pytest.raises(SizeError, match="missing: 'M'"):
        largest(peak, ("N", "M"), "N", 100, {})
    with pytest.raises(SizeError, match="no dimension is called 'K'"):
        largest(peak, ("N", "M"), "K", 100, {"M": 1})
    with pytest.raises(SizeError, match="budget"):
        largest(peak, ("N", "M"), "N", "much", {"M": 1})
    with pytest.raises(SizeError, match="too many"):
        peak.breakpoints("N", 0, 10**9, M=1)
    with pytest.raises(SizeError, match="ranges are missing: 'M'"):
        total_bounds([N * M], {"N": (1, 2)}, ("N", "M"))


def test_an_open_range_has_no_greatest_value() -> None:
    assert bounds(N * M + 3, {"N": (2, None), "M": (1, 4)}) == (5, None)
