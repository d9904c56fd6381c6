"""Nodes that write into an input that dies: what they take over, what they must not, and what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from tests.memory_truth import assert_accounts_are_true

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def runs(
    model: str, feeds: Any, **options: Any
) -> tuple[list[Any], dict[str, str], onp.ReferenceEvaluator]:
    session = onp.ReferenceEvaluator(
        model,
        events_enabled=True,
        inplace=True,
        allocator=onp.SimpleRawBufferAllocator(64),
        **options,
    )
    outputs = session.run(None, feeds)
    taken = {
        f"{event.op_type}{event.node_index}": event.in_place
        for event in session.events()
        if event.action == onp.RuntimeEventAction.RUN_NODE
    }
    return outputs, taken, session


def test_a_chain_lives_in_one_buffer() -> None:
    model = (
        "g (float[2,4] x) => (float[2,4] y) { a = Neg(x) b = Exp(a) c = Sigmoid(b) y = Sqrt(c) }"
    )
    (y,), taken, session = runs(model, {"x": X})
    np.testing.assert_allclose(y, np.sqrt(1 / (1 + np.exp(-np.exp(-X)))), rtol=1e-6)
    # x is the caller's, y belongs to another account
    assert taken == {"Neg0": "", "Exp1": "a", "Sigmoid2": "b", "Sqrt3": ""}
    assert session.allocator is not None
    assert session.allocator.peak_allocated_size == 32
    np.testing.assert_array_equal(X, np.arange(8, dtype=np.float32).reshape(2, 4))


def test_off_by_default() -> None:
    session = onp.ReferenceEvaluator(
        "g (float[2] x) => (float[2] y) { a = Neg(x) b = Exp(a) y = Abs(b) }", events_enabled=True
    )
    session.run(None, {"x": np.ones(2, np.float32)})
    assert not any(event.in_place for event in session.events())


IO = "g (float[2,4] x) => "
EIGHT = "s = Constant <value_ints = [8]> () a = Neg(x) v = Reshape(a, s) b = Exp(v) "
CASES = {
    "read once more later": (
        IO + "(float[2,4] y) { a = Neg(x) b = Exp(a) y = Add(a, b) }",
        {"Neg0": "", "Exp1": "", "Add2": ""},
    ),
    "an output of the model": (
        IO + "(float[2,4] a, float[2,4] y) { a = Neg(x) b = Exp(a) y = Abs(b) }",
        {"Neg0": "", "Exp1": "", "Abs2": ""},
    ),
    "the same value twice": (
        IO + "(float[2,4] y) { a = Neg(x) b = Add(a, a) y = Abs(b) }",
        {"Neg0": "", "Add1": "", "Abs2": ""},
    ),
    "a view whose base is not read again": (
        IO + "(float[8] y) { " + EIGHT + "y = Abs(b) }",
        {"Constant0": "", "Neg1": "", "Reshape2": "", "Exp3": "v", "Abs4": ""},
    ),
    "a view whose base is read again": (
        IO + "(float[1,8] y) { " + EIGHT + "c = ReduceSum(a) d = Add(b, c) y = Abs(d) }",
        {
            "Constant0": "",
            "Neg1": "",
            "Reshape2": "",
            "Exp3": "",
            "ReduceSum4": "",
            "Add5": "",
            "Abs6": "",
        },
    ),
    "another size": (
        IO + "(float[2,4] y) { a = ReduceSum(x) b = Add(a, x) c = Neg(b) y = Abs(c) }",
        {"ReduceSum0": "", "Add1": "", "Neg2": "b", "Abs3": ""},
    ),
    "another type": (
        IO + "(bool[2,4] y) { a = Neg(x) b = Greater(a, x) c = Not(b) y = Identity(c) }",
        {"Neg0": "", "Greater1": "", "Not2": "", "Identity3": ""},
    ),
}


@pytest.mark.parametrize(("model", "expected"), CASES.values(), ids=CASES)
def test_what_may_be_taken_over(model: str, expected: dict[str, str]) -> None:
    plain = onp.ReferenceEvaluator(model).run(None, {"x": X})
    outputs, taken, _ = runs(model, {"x": X})
    for one, other in zip(outputs, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert taken == expected
    assert_accounts_are_true(model, {"x": X}, {"x": X + 1}, inplace=True)


def test_values_asked_for_in_the_middle_stay() -> None:
    model = "g (float[2,4] x) => (float[2,4] y) { a = Neg(x) b = Exp(a) y = Abs(b) }"
    session = onp.ReferenceEvaluator(model, inplace=True)
    a, y = session.run(["a", "y"], {"x": X})
    np.testing.assert_array_equal(a, -X)
    np.testing.assert_allclose(y, np.exp(-X), rtol=1e-6)


def test_a_loop_gives_its_states_away_untouched() -> None:
    model = """<ir_version: 9, opset_import: ["" : 17]> g (int64 n, float[2] x) => (float[2] y) {
      t = Constant <value = bool {1}> ()
      a = Neg(x)
      y = Loop(n, t, a) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
        d = Identity(c) u = Mul(s, s) v = Add(u, a) r = Abs(v) }>
    }"""
    feeds = {"n": np.array(3), "x": np.array([0.5, 2], np.float32)}
    expected = onp.ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(
        onp.ReferenceEvaluator(model, inplace=True).run(None, feeds), expected
    )


def test_the_profile_names_the_difference() -> None:
    model = "g (float[N] x) => (float[N] y) { a = Neg(x) b = Exp(a) y = Abs(b) }"
    prof = onp.profile(onp.ReferenceEvaluator(model, inplace=True), dims={"N": 4})
    assert [node.live_bytes for node in prof.nodes] == [16, 16, 32]
    assert [node.in_place for node in prof.nodes] == ["", "a", ""]
    assert [node.difference for node in prof.nodes] == [
        "",
        "outputs took over the bytes of inputs",
        "",
    ]
