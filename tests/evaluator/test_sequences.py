"""Sequences, optional values and SequenceMap: results as elsewhere, every element counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from tests.memory_truth import assert_accounts_are_true
from tests.oracles import assert_same, onnx_reference, ort

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
A, B = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "construct_and_concat": (
        (
            "g (float[k] a, float[l] b) => (float[m] y) { s = SequenceConstruct(a, b, a)"
            " y = ConcatFromSequence <axis = 0> (s) }"
        ),
        {"a": A, "b": B},
    ),
    "insert_erase_at": (
        (
            "g (float[k] a, float[l] b, int64 i) => (float[m] y, int64 n) { s = SequenceConstruct(a, b)"
            " t = SequenceInsert(s, b, i) u = SequenceErase(t, i) v = SequenceInsert(u, a)"
            " y = SequenceAt(v, i) n = SequenceLength(v) }"
        ),
        {"a": A, "b": B, "i": np.array(0)},
    ),
    "sequence_output": (
        "g (float[k] a, float[l] b) => (seq(float[m]) s) { c = Neg(a) s = SequenceConstruct(c, b, c) }",
        {"a": A, "b": B},
    ),
    "split_to_sequence": (
        (
            "g (float[k] a) => (seq(float[m]) s, float[n] y) { s = SplitToSequence <axis = 0, keepdims = 0> (a)"
            " t = SplitToSequence <axis = 0> (a) y = ConcatFromSequence <axis = 0> (t) }"
        ),
        {"a": B},
    ),
    "sequence_input": (
        (
            "g (seq(float[k]) s) => (seq(float[k]) t, float[l] y) { t = Identity(s) u = Identity(t)"
            " y = ConcatFromSequence <axis = 0> (u) }"
        ),
        {"s": [A, A, A]},
    ),
    "loop_over_a_sequence": (
        (
            "g (int64 n, bool go, float[k] a) => (seq(float[m]) y) { s = SequenceEmpty <dtype = 1> ()"
            " y = Loop(n, go, s) <body = b (int64 i, bool c, seq(float[p]) v) => (bool d, seq(float[q]) w) {"
            "   d = Identity(c) w = SequenceInsert(v, a) }> }"
        ),
        {"n": np.array(3), "go": np.array(True), "a": A},
    ),
    "if_with_sequences": (
        (
            "g (bool c, float[k] a) => (seq(float[m]) y) { n = Neg(a) y = If (c) <"
            " then_branch = t () => (seq(float[p]) p) { p = SequenceConstruct(n, a) },"
            " else_branch = e () => (seq(float[q]) q) { q = SequenceEmpty <dtype = 1> () }> }"
        ),
        {"c": np.array(True), "a": A},
    ),
    "map": (
        (
            "g (seq(float[k]) s, float[k] a) => (seq(float[k]) t, seq(float[k]) u) { n = Neg(a)"
            " t, u = SequenceMap <body = b (float[k] v, float[k] w) => (float[k] p, float[k] q) {"
            "   p = Add(v, n) m = Mul(v, w) q = Abs(m) }> (s, a) }"
        ),
        {"s": [A, A * 2, -A], "a": A},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sequences(name: Any) -> None:
    text, feeds = CASES[name]
    first, second = assert_accounts_are_true(text, feeds, feeds)
    assert_same(first, second)
    model = parser.parse_model(HEAD + text)
    assert_same(first, ort(model, feeds))
    # onnx.reference adds to its own input in the loop, and its SequenceMap sees no outer values
    if name not in ("loop_over_a_sequence", "map"):
        assert_same(first, onnx_reference(model, feeds))


@pytest.mark.parametrize("name", CASES)
def test_outputs_share_no_bytes_with_feeds_or_each_other(name: Any) -> None:
    text, feeds = CASES[name]
    session = ReferenceEvaluator(text)
    first = session.run(None, feeds)
    kept = [one.copy() for one in _arrays(first)]
    for value in _arrays(first):
        np.add(value, 100, out=value)
    for one, other in zip(kept, _arrays(session.run(None, feeds)), strict=True):
        np.testing.assert_array_equal(one, other)
    for feed in _arrays(list(feeds.values())):
        assert not any(np.shares_memory(feed, value) for value in _arrays(first))


def _arrays(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _arrays(value) if isinstance(value, list) else [value]
    return found


def test_sequences_have_no_events_of_their_own_and_all_their_bytes() -> None:
    session = ReferenceEvaluator(
        "g (float[2] a, float[3] b) => (float[m] y) { s = SequenceConstruct(a, b)"
        " y = ConcatFromSequence <axis = 0> (s) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(9),
    )
    session.run(None, {"a": A, "b": B})
    assert [(e.action.label, e.name or e.op_type, e.live_bytes) for e in session.events()] == [
        ("add", "a", 0),
        ("add", "b", 0),
        ("run_node", "SequenceConstruct", 20),
        ("add", "y", 40),
        ("run_node", "ConcatFromSequence", 40),
    ]


OPTIONAL = (
    "g (optional(float[k]) o, float[k] a) => (bool has, float[k] y) { has = OptionalHasElement(o)"
    " y = If (has) <then_branch = t () => (float[k] p) { p = OptionalGetElement(o) },"
    " else_branch = e () => (float[k] q) { q = Neg(a) }> }"
)


@pytest.mark.parametrize("given", [A * 5, None])
def test_optional_values(given: Any) -> None:
    feeds = {"o": given, "a": A}
    ((has, y),) = assert_accounts_are_true(OPTIONAL, feeds)
    assert has == (given is not None)
    np.testing.assert_array_equal(y, -A if given is None else given)
    if given is not None:
        assert not np.shares_memory(y, given)


def test_an_optional_input_may_be_left_out() -> None:
    ((has, y),) = assert_accounts_are_true(OPTIONAL, {"a": A})
    assert not has
    np.testing.assert_array_equal(y, -A)


def test_optional_values_made_inside_and_passed_on() -> None:
    text = (
        "g (float[2] a) => (optional(float[2]) o, float[2] y) { n = Neg(a) p = Optional(n)"
        " o = Identity(p) y = OptionalGetElement(o) }"
    )
    ((o, y),) = assert_accounts_are_true(text, {"a": A})
    np.testing.assert_array_equal(o, -A)
    np.testing.assert_array_equal(y, -A)
