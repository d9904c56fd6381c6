"""Many expressions at once: values, shapes of the result, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr, broadcast, exact_div

N, M, H = (Expr.symbol(name) for name in "NMH")


def test_one_size() -> None:
    forms = CompiledForms([16 * N + 64, Expr.constant(7), Expr.constant(0), N * M, 16 * N + 64])
    result = forms({"N": 8, "M": 3})
    assert result.dtype == np.int64
    assert result.tolist() == [192, 7, 0, 24, 192]
    assert forms.dims == ("M", "N")
    assert len(forms) == 5


def test_arrays_of_sizes() -> None:
    forms = CompiledForms([16 * N + 64, (N + 1) // 2 * M])
    result = forms({"N": np.arange(1, 4), "M": 10})
    assert result.tolist() == [[80, 10], [96, 10], [112, 20]]
    both = forms({"N": np.array([1, 2]), "M": np.array([5, 7], dtype=np.uint8)})
    assert both.tolist() == [[80, 5], [96, 7]]
    stretched = forms({"N": np.array([1, 2]), "M": [5]})
    assert stretched.tolist() == [[80, 5], [96, 5]]
    assert forms({"N": np.array([4]), "M": 1}).tolist() == [[128, 2]]
    assert forms({"N": np.arange(0), "M": 1}).shape == (0, 2)


def test_no_expressions_and_constants_alone() -> None:
    assert CompiledForms([])({}).tolist() == []
    assert CompiledForms([], ["N"])({"N": np.arange(3)}).shape == (3, 0)
    assert CompiledForms([Expr.constant(5)])({}).tolist() == [5]
    wide = CompiledForms([Expr.constant(5)], ["N"])
    assert wide({"N": np.arange(3)}).tolist() == [[5], [5], [5]]
    assert wide({}).tolist() == [5]


def test_results_do_not_share_memory() -> None:
    forms = CompiledForms([N])
    first = forms({"N": 1})
    first[0] = 99
    assert forms({"N": 1}).tolist() == [1]


def test_values_at_the_edge_of_64_bits() -> None:
    forms = CompiledForms([N, N * M, N - H])
    top = 2**63 - 1
    assert forms({"N": top, "M": 1, "H": 0}).tolist() == [top, top, top]
    assert forms({"N": np.array([top, 3]), "M": 1, "H": 3}).tolist() == [
        [top, top, top - 3],
        [3, 3, 0],
    ]


def test_intermediate_steps_may_leave_64_bits() -> None:
    # N^3 is beyond 64 bits at 2^31, but its quotient is not
    forms = CompiledForms([N * N * N // (M * M * M + 1), N * N * N * 0 + N])
    assert forms({"N": 2**31, "M": 2**30}).tolist() == [7, 2**31]
    assert forms({"N": np.array([2**31, 2]), "M": 2**30}).tolist() == [[7, 2**31], [0, 2]]


def test_sums_beyond_exact_floats_are_exact() -> None:
    odd = 2**53 + 1
    forms = CompiledForms([N + M, N - M])
    assert forms({"N": np.array([odd, odd + 2]), "M": 2}).tolist() == [
        [odd + 2, odd - 2],
        [odd + 4, odd],
    ]


def test_a_coefficient_beyond_64_bits() -> None:
    forms = CompiledForms([N * 2**70 - M * 2**70 + 5])
    assert forms({"N": 3, "M": 3}).tolist() == [5]
    with pytest.raises(SizeError, match="leaves 64-bit"):
        forms({"N": 3, "M": 2})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "sizes are missing: 'batch'"),
        ({"batc": 3}, "no dimension is called 'batc'.*did you mean 'batch'"),
        ({"batch": 3, "zzz": 1}, r"no dimension is called 'zzz' \(known: 'batch', 'seq'\)$"),
        ({"batch": -1}, "must not be negative, found -1"),
        ({"batch": np.array([3, -4])}, "must not be negative, found -4"),
        ({"batch": 1.5}, "must be an integer, found '1.5'"),
        ({"batch": 2.0}, "must be an integer"),
        ({"batch": True}, "must be an integer"),
        ({"batch": "3"}, "must be an integer"),
        ({"batch": None}, "must be an integer"),
        ({"batch": np.array([1.0, 2.0])}, "must be an integer"),
        ({"batch": np.ones((2, 2), dtype=int)}, r"one axis, found shape \(2, 2\)"),
        ({"batch": 2**63}, "leaves 64-bit integers"),
        ({"batch": np.array([1, 2]), "seq": np.array([1, 2, 3])}, "must have one length"),
        ({"batch": 2**62}, r"the value of 4\*batch leaves 64-bit integers at batch=4611686018"),
        ({"batch": np.array([1, 2**62])}, r"4\*batch leaves 64-bit integers at batch=4611686018"),
    ],
)
def test_sizes_that_are_refused(sizes: dict[str, Any], message: str) -> None:
    forms = CompiledForms([4 * Expr.symbol("batch")], ["batch", "seq"])
    with pytest.raises(SizeError, match=message):
        forms(sizes)


@pytest.mark.parametrize(
    ("expr", "sizes"),
    [
        (N // M, {"N": 4, "M": np.array([1, 0])}),
        (N % M, {"N": 4, "M": 0}),
        (exact_div(N, 2), {"N": np.array([4, 3])}),
        (broadcast(N, M), {"N": 2, "M": np.array([2, 3])}),
    ],
)
def test_operations_without_a_value(expr: Expr, sizes: dict[str, Any]) -> None:
    with pytest.raises(SizeError, match="has no value at"):
        CompiledForms([expr])(sizes)


def test_large_tables_are_computed_in_parts() -> None:
    # too many monomials for the dense product: the sparse one must agree with the closed form
    count = 2_500
    names = [f"d{i}" for i in range(count)]
    forms = CompiledForms([(i + 1) * Expr.symbol(name) + 1 for i, name in enumerate(names)])
    result = forms({name: np.array([2, 3, 5]) for name in names})
    expected = np.arange(1, count + 1) * np.array([[2], [3], [5]]) + 1
    np.testing.assert_array_equal(result, expected)
