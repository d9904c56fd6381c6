"""Which output may take over which input: the facts that onnx-light's own tests state, and where ours differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan import GraphPlan, build_plan
from onnx_notebook_profiler.plan.inplace import Fit, InPlaceReuse, ReuseRule, find_reuse

EQUAL, GREATER = "equal", "greater"


def fits(sizes: Mapping[str, int]) -> Any:
    """Compares by given sizes; a value without one is unknown."""

    def fit(output: str, source: str) -> Fit | None:
        if output not in sizes or source not in sizes:
            return None
        if sizes[output] == sizes[source]:
            return "equal"
        return "greater" if sizes[source] > sizes[output] else None

    return fit


def reuse(
    text: str, sizes: Mapping[str, int], rule: ReuseRule, *, overwrite: bool = False
) -> list[Any]:
    plan: GraphPlan = build_plan(load_model(text))
    found = []
    for step in plan.steps:
        one = find_reuse(plan, step, fits(sizes), rule, overwrite_inputs=overwrite)
        assert all(isinstance(entry, InPlaceReuse) for entry in one)
        found.append([(entry.output_index, entry.input_index, entry.kind) for entry in one])
    return found


CHAIN = "g (float[3, 4] X) => (float[3, 4] Y) { A = Abs(X) B = Abs(A) Y = Abs(B) }"
SAME = dict.fromkeys("XABYW", 48)


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_fact_4_a_chain_of_element_wise_operators(rule: Any) -> None:
    assert reuse(CHAIN, SAME, rule) == [[], [(0, 0, EQUAL)], [(0, 0, EQUAL)]]


def test_none_is_none() -> None:
    assert reuse(CHAIN, SAME, "none") == [[], [], []]


def test_fact_11_inputs_may_be_overwritten_on_request() -> None:
    assert reuse(CHAIN, SAME, "operator", overwrite=True)[0] == [(0, 0, EQUAL)]
    twice = "g (float[3, 4] X) => (float[3, 4] Y, float[3, 4] A) { A = Abs(X) Y = Abs(X) }"
    assert reuse(twice, SAME, "operator", overwrite=True) == [[], [(0, 0, EQUAL)]]
    kept = "g (float[3, 4] X) => (float[3, 4] Y, float[3, 4] X) { Y = Abs(X) }"
    assert reuse(kept, SAME, "operator", overwrite=True) == [[]]


def test_fact_5_a_larger_buffer_fits_in_the_structural_rule_alone() -> None:
    text = "g (float[4] X) => (int32[4] Y) { A = Cast <to = 7> (X) Y = Cast <to = 6> (A) }"
    sizes = {"X": 16, "A": 32, "Y": 16}
    assert reuse(text, sizes, "structural") == [[], [(0, 0, GREATER)]]
    assert reuse(text, sizes, "operator") == [[], []]


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_fact_6_only_the_node_where_an_input_dies(rule: Any) -> None:
    text = "g (float[3, 4] X) => (float[3, 4] Y) { A = Abs(X) B = Abs(X) Y = Add(A, B) }"
    assert reuse(text, SAME, rule) == [[], [], [(0, 0, EQUAL)]]


def test_fact_7_transposes_are_a_bound_no_kernel_honours() -> None:
    text = "g (float[3, 4] X) => (float[3, 4] Y) { A = Transpose(X) Y = Transpose(A) }"
    assert reuse(text, SAME, "structural") == [[], [(0, 0, EQUAL)]]
    assert reuse(text, SAME, "operator") == [[], []]


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_fact_8_views_but_not_before_the_last_use(rule: Any) -> None:
    text = (
        "g (float[3, 4] X, int64[1] s) => (float[3, 4] Y, float[3, 4] C)"
        "{ A = Abs(X) B = Unsqueeze(A, s) C = Neg(A) Y = Squeeze(B, s) }"
    )
    sizes = {**SAME, "C": 48, "s": 8}
    assert reuse(text, sizes, rule) == [[], [], [(0, 0, EQUAL)], [(0, 0, EQUAL)]]


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_fact_9_an_output_of_the_model_is_never_taken(rule: Any) -> None:
    text = "g (float[3, 4] X) => (float[3, 4] A, float[3, 4] Y) { A = Abs(X) Y = Abs(A) }"
    assert reuse(text, SAME, rule) == [[], []]


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_fact_10_nor_is_an_initializer(rule: Any) -> None:
    text = "g (float[2] X) => (float[2] Y) <float[2] W = {1, 2}> { Y = Add(X, W) }"
    assert reuse(text, dict.fromkeys("XWY", 8), rule, overwrite=True) == [[(0, 0, EQUAL)]]
    swapped = text.replace("X, W", "W, X")
    assert reuse(swapped, dict.fromkeys("XWY", 8), rule, overwrite=True) == [[(0, 1, EQUAL)]]


def test_fact_12_equal_beats_greater() -> None:
    text = (
        "g (int64[4] x, int32[4] z) => (int32[4] Y)"
        "{ BIG = Abs(x) EQ = Abs(z) Y = local.Op(BIG, EQ) }"
    )
    sizes = {"x": 32, "z": 16, "BIG": 32, "EQ": 16, "Y": 16}
    assert reuse(text, sizes, "structural")[2] == [(0, 1, EQUAL)]
    assert reuse(text, sizes, "operator")[2] == []  # nobody knows what the operator does


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_an_input_that_occurs_twice_is_not_taken(rule: Any) -> None:
    text = "g (float[3, 4] X) => (float[3, 4] Y) { A = Abs(X) Y = Add(A, A) }"
    assert reuse(text, SAME, rule) == [[], []]


@pytest.mark.parametrize("rule", ["operator", "structural"])
def test_a_value_of_unknown_size_is_not_taken(rule: Any) -> None:
    assert reuse(CHAIN, {"X": 48, "A": 48, "Y": 48}, rule) == [[], [], []]


def test_each_input_and_output_is_matched_once() -> None:
    text = (
        "g (float[4] x) => (float[4] P, float[4] Q) { A = Abs(x) B = Neg(x)"
        " P, Q, R = local.Op(A, B) }"
    )
    sizes = {"A": 16, "B": 16, "P": 16, "Q": 16, "R": 16}
    assert reuse(text, sizes, "structural")[2] == [(0, 0, EQUAL), (1, 1, EQUAL)]


def test_element_wise_is_meant_in_the_default_domain_alone() -> None:
    text = "g (float[4] X) => (float[4] Y) { A = Abs(X) Y = local.Abs(A) }"
    assert reuse(text, SAME, "operator") == [[], []]
    assert reuse(text, SAME, "structural") == [[], [(0, 0, EQUAL)]]


def test_a_value_that_a_later_body_reads_does_not_die() -> None:
    text = (
        "g (bool c, float[4] x) => (float[4] y, float[4] z) { A = Abs(x) z = Neg(A)"
        " y = If (c) <then_branch = t () => (float[4] p) { p = Neg(A) },"
        "             else_branch = e () => (float[4] q) { q = Neg(x) }> }"
    )
    assert reuse(text, dict.fromkeys(("x", "A", "z", "y"), 16), "structural")[1] == []
    # nor does an input: the branch that is taken later may read it
    assert reuse(text, dict.fromkeys(("x", "A", "z", "y"), 16), "operator", overwrite=True)[0] == []
