"""If and Loop: results as onnxruntime's, and events that carry real memory and say where they happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import KernelError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from tests.memory_truth import assert_accounts_are_true
from tests.oracles import assert_same, onnx_reference, ort

TWO = np.array([1, -2], np.float32)
GO, STOP = np.array(True), np.array(False)


def model_of(text: str, opset: int = 18) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def events_of(text: str, feeds: Any, **options: Any) -> list[RuntimeEvent]:
    session = ReferenceEvaluator(
        text, events_enabled=True, allocator=SimpleRawBufferAllocator(100), **options
    )
    session.run(None, feeds)
    return session.events()


def story(events: Any) -> list[str]:
    """`branch@2/+name 16+8`: where, what, bytes of both accounts."""
    words = {RuntimeEventAction.ADD: "+{0.name}", RuntimeEventAction.REMOVE: "-{0.name}"}
    return [
        "".join(f"{name}@{index}/" for index, name in e.subgraph_path)
        + words.get(e.action, "{0.op_type}").format(e)
        + f" {e.allocated_bytes}+{e.io_allocated_bytes}"
        for e in events
    ]


IF = (
    "g (bool c, float[2] x) => (float[2] y) { a = Abs(x) y = If (c) <"
    " then_branch = t () => (float[2] p) <float[2] w = {1, 2}> { q = Add(a, w) p = Neg(q) },"
    " else_branch = e () => (float[2] r) { r = Identity(a) }> }"
)


def test_events_inside_a_branch_carry_real_memory() -> None:
    assert story(events_of(IF, {"c": GO, "x": TWO})) == [
        "+c 1+0",  # a rank-0 feed is copied
        "+x 1+0",
        "+a 9+0",
        "Abs 9+0",
        "then_branch@1/+w 17+0",
        "then_branch@1/+q 25+0",
        "then_branch@1/Add 25+0",
        "then_branch@1/+p 25+8",  # it becomes y, so it is the caller's from birth
        "then_branch@1/Neg 25+8",
        "then_branch@1/-q 17+8",
        "+y 9+8",
        "If 9+8",
        "-a 1+8",
    ]
    assert story(events_of(IF, {"c": STOP, "x": TWO}))[4:] == [
        "else_branch@1/+r 9+8",
        "else_branch@1/Identity 9+8",
        "+y 9+8",
        "If 9+8",
        "-a 1+8",
    ]


def test_events_inside_a_branch_say_where_they_are() -> None:
    events = events_of(IF, {"c": GO, "x": TWO})
    inside = [e for e in events if e.subgraph_path]
    assert {(e.subgraph_node_index, e.subgraph_attr_name) for e in inside} == {(1, "then_branch")}
    assert {e.subgraph_path for e in inside} == {((1, "then_branch"),)}
    assert [e.node_index for e in inside] == [-2, 0, 0, 1, 1, -1]
    outside = [e for e in events if not e.subgraph_path]
    assert {(e.subgraph_node_index, e.subgraph_attr_name) for e in outside} == {(-1, "")}


@pytest.mark.parametrize("condition", [GO, STOP])
def test_results_of_bodies_are_outputs_of_the_node_in_the_parent(condition: Any) -> None:
    events = events_of(IF, {"c": condition, "x": TWO})
    (y,) = [e for e in events if e.name == "y"]
    assert (y.action.label, y.kind, y.node_index, y.nbytes) == ("add", "output", 1, 8)
    assert {e.kind for e in events if e.name in ("a", "p", "q", "r")} == {"intermediate", "unknown"}


@pytest.mark.parametrize("condition", [True, False])
def test_if_gives_what_others_give(condition: Any) -> None:
    feeds = {"c": np.array(condition), "x": TWO}
    (y,) = ReferenceEvaluator(IF).run(None, feeds)
    assert_same([y], ort(model_of(IF), feeds))
    assert_same([y], onnx_reference(model_of(IF), feeds))


def test_a_condition_of_several_elements_is_an_error() -> None:
    text = IF.replace("bool c", "bool[n] c")
    (y,) = ReferenceEvaluator(text).run(None, {"c": np.array([True]), "x": TWO})
    np.testing.assert_array_equal(y, [-2, -4])
    for wrong in (np.array([True, False]), np.zeros(0, bool)):
        with pytest.raises(KernelError, match="condition must be one bool"):
            ReferenceEvaluator(text).run(None, {"c": wrong, "x": TWO})


LOOP = (
    "g (int64 n, bool go, float[2] x) => (float[2] y, float[k, 2] s) { a = Neg(x)"
    " y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v)"
    " => (bool d, float[2] u, float[2] t) {"
    "   limit = Constant <value_int = 3> () d = Less(i, limit)"
    "   t = Mul(v, v) u = Sub(t, a) }> }"
)


@pytest.mark.parametrize(
    ("trips", "go", "iterations"),
    [(2, True, 2), (0, True, 0), (5, False, 0), (100, True, 4), (-3, True, 0)],
)
def test_loops_with_scanned_outputs_early_stop_and_outer_values(
    trips: Any, go: Any, iterations: Any
) -> None:
    feeds = {"n": np.array(trips), "go": np.array(go), "x": TWO}
    y, s = ReferenceEvaluator(LOOP).run(None, feeds)
    assert s.shape == (iterations, 2)
    assert_same([y, s], ort(model_of(LOOP), feeds))
    # by hand: v -> v*v + x
    v = TWO
    for row in s:
        np.testing.assert_array_equal(row, v * v)
        v = v * v + TWO
    np.testing.assert_array_equal(y, v)


def test_events_of_a_loop_iteration_by_iteration() -> None:
    text = (
        "g (int64 n, bool go, float[2] x) => (float[2] y, float[k, 2] s) {"
        " y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v)"
        " => (bool d, float[2] u, float[2] t) { d = Identity(c) t = Abs(v) u = Add(v, t) }> }"
    )
    events = events_of(text, {"n": np.array(2), "go": GO, "x": TWO})
    # n and go are copied: 9 bytes. Each iteration holds its own counter and condition: 9 more.
    one = "body@0/"
    assert story(events) == [
        "+n 8+0",
        "+go 9+0",
        "+x 9+0",
        f"{one}+i 18+0",
        f"{one}+c 18+0",
        f"{one}+v 18+0",
        f"{one}+d 19+0",
        f"{one}Identity 19+0",
        f"{one}+t 27+0",
        f"{one}Abs 27+0",
        f"{one}+u 27+8",
        f"{one}Add 27+8",
        # t waits for its place in s, u is the next v
        f"{one}+i 26+8",
        f"{one}+c 26+8",
        f"{one}+v 26+8",
        f"{one}+d 27+8",
        f"{one}Identity 27+8",
        f"{one}+t 35+8",
        f"{one}Abs 35+8",
        f"{one}+u 35+16",
        f"{one}Add 35+16",
        "+y 9+24",  # y 8, s 16
        "+s 9+24",
        "Loop 9+24",
    ]
    assert [e.values for e in events if e.name == "i"] == [(0.0,), (1.0,)]
    assert [e.values for e in events if e.name == "c"] == [(1.0,), (1.0,)]


@pytest.mark.parametrize(
    "call", ["(n, , x)", "(, go, x)", "(n, go, x)"], ids=["for", "while", "both"]
)
def test_loops_without_count_or_condition(call: Any) -> None:
    text = (
        "g (int64 n, bool go, float[2] x) => (float[2] y) {"
        f" y = Loop{call} <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {{"
        "   four = Constant <value_int = 4> () d = Less(i, four) u = Add(v, v) }> }"
    )
    feeds = {"n": np.array(3), "go": GO, "x": TWO}
    outputs = ReferenceEvaluator(text).run(None, feeds)
    assert_same(outputs, ort(model_of(text), feeds))
    np.testing.assert_array_equal(outputs[0], TWO * (2**5 if call == "(, go, x)" else 2**3))


def test_a_loop_may_change_the_shape_of_its_state() -> None:
    text = (
        "g (int64 n, bool go, float[k] x) => (float[m] y) {"
        " y = Loop(n, go, x) <body = b (int64 i, bool c, float[p] v) => (bool c2, float[q] u) {"
        "   c2 = Identity(c) u = Concat <axis = 0> (v, v) }> }"
    )
    feeds = {"n": np.array(3), "go": GO, "x": TWO}
    outputs = ReferenceEvaluator(text).run(None, feeds)
    np.testing.assert_array_equal(outputs[0], np.tile(TWO, 8))
    assert_same(outputs, ort(model_of(text), feeds))


def test_scanned_outputs_must_agree_in_shape_and_lose_nothing() -> None:
    text = (
        "g (int64 n, bool go, float[k] x) => (float[m] y, float[r] s, float[a, b] t) {"
        " y, s, t = Loop(n, go, x) <body = b (int64 i, bool c, float[p] v)"
        " => (bool c2, float[q] u, float[1] e, float[w] f) {"
        "   c2 = Identity(c) u = Concat <axis = 0> (v, v)"
        "   e = Constant <value = float[1] {1}> () f = Neg(v) }> }"
    )
    allocator, io = SimpleRawBufferAllocator(100), SimpleRawBufferAllocator(100)
    session = ReferenceEvaluator(text, allocator=allocator, io_allocator=io)
    with pytest.raises(
        KernelError, match=r"scan output 'f'.*\[2\].*\[4\]|scan output 'f'.*\[4\].*\[2\]"
    ):
        session.run(None, {"n": np.array(2), "go": GO, "x": TWO})
    assert (allocator.allocated_count, io.allocated_count) == (0, 0)


def test_a_condition_of_several_elements_inside_loses_nothing() -> None:
    text = (
        "g (int64 n, bool go, float[2] x) => (float[2] y, float[r, 2] s) {"
        " y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v)"
        " => (bool[2] c2, float[2] u, float[2] e) {"
        "   zero = Constant <value = float {0}> () c2 = Less(v, zero) u = Neg(v) e = Abs(v) }> }"
    )
    allocator, io = SimpleRawBufferAllocator(100), SimpleRawBufferAllocator(100)
    session = ReferenceEvaluator(text, allocator=allocator, io_allocator=io)
    with pytest.raises(KernelError, match="condition must be one bool, not 2 elements"):
        session.run(None, {"n": np.array(2), "go": GO, "x": TWO})
    assert (allocator.allocated_count, io.allocated_count) == (0, 0)


THREE = (
    "g (int64 n, bool go, float[2] x) => (float[2] y, float[a, 2] s, float[c, 2] t) {"
    " y, s, t = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v)"
    " => (bool c2, float[2] u, float[2] e, float[2] f) {"
    "   c2 = Identity(c) u = Add(v, v) e = Abs(v) f = Neg(v) }> }"
)


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_results_that_the_node_leaves_out_are_given_back(left_out: Any) -> None:
    feeds = {"n": np.array(3), "go": GO, "x": TWO}
    model = model_of(THREE)
    expected = ort(model, feeds)  # which ends the process where a state is left out
    del expected[left_out]
    model.graph.node[0].output[left_out] = ""
    del model.graph.output[left_out]
    allocator, io = SimpleRawBufferAllocator(100), SimpleRawBufferAllocator(100)
    session = ReferenceEvaluator(model, allocator=allocator, io_allocator=io)
    assert_same(session.run(None, feeds), expected)
    assert allocator.allocated_count == 0
    assert io.allocated_count == 2
    assert_accounts_are_true(model, feeds)


NESTED = (
    "g (int64 n, bool go, float[2] x) => (float[2] y) { a = Abs(x)"
    " y = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {"
    "   d = Identity(c) one = Constant <value_int = 1> () first = Less(i, one)"
    "   u = If (first) <"
    "     then_branch = t () => (float[2] p) { q = Mul(v, a) p = Neg(q) },"
    "     else_branch = e () => (float[2] r) {"
    "       r = Loop(i, c, v) <body = w (int64 j, bool f, float[2] h) => (bool k, float[2] l) {"
    "         k = Identity(f) l = Add(h, a) }> }> }> }"
)


def test_bodies_within_bodies() -> None:
    feeds = {"n": np.array(3), "go": GO, "x": TWO}
    outputs = ReferenceEvaluator(NESTED).run(None, feeds)
    # by hand: -(x*|x|), then once and twice |x| on top
    np.testing.assert_array_equal(outputs[0], -(TWO * abs(TWO)) + 3 * abs(TWO))
    assert_same(outputs, ort(model_of(NESTED), feeds))
    events = events_of(NESTED, feeds)
    paths = list(dict.fromkeys(e.subgraph_path for e in events))
    loop, branch = (1, "body"), (3, "else_branch")
    assert paths == [
        (),
        (loop,),
        (loop, (3, "then_branch")),
        (loop, branch, (0, "body")),
        (loop, branch),
    ]
    innermost = [e for e in events if len(e.subgraph_path) == 3]
    assert {(e.subgraph_node_index, e.subgraph_attr_name) for e in innermost} == {(0, "body")}
    assert sum(e.op_type == "Add" for e in innermost) == 1 + 2
    # everything that was made inside is gone; what is left are the copies of n and go
    assert events[-1].allocated_bytes == 9
    assert_accounts_are_true(NESTED, feeds, feeds)


def test_names_inside_may_hide_those_outside() -> None:
    text = (
        "g (bool c, float[2] x) => (float[2] y, float[2] a) { a = Abs(x) y = If (c) <"
        " then_branch = t () => (float[2] p) { a = Neg(x) p = Add(a, a) },"
        " else_branch = e () => (float[2] r) { r = Add(a, a) }> }"
    )
    y, a = ReferenceEvaluator(text).run(None, {"c": GO, "x": TWO})
    np.testing.assert_array_equal(y, -2 * TWO)
    np.testing.assert_array_equal(a, abs(TWO))


@pytest.mark.parametrize("passed", ["v", "a"])
def test_bodies_that_pass_borrowed_values_on_give_copies(passed: Any) -> None:
    text = (
        "g (int64 n, bool go, float[2] x) => (float[2] y, float[k, 2] s) { a = Abs(x)"
        " y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v)"
        f" => (bool d, float[2] u, float[2] t) {{ d = Identity(c) u = Identity({passed}) t = Identity(u) }}> }}"
    )
    x = TWO.copy()
    feeds = {"n": np.array(2), "go": GO, "x": x}
    first, second = assert_accounts_are_true(text, feeds, feeds)
    assert_same(first, ort(model_of(text), feeds))
    for value in (*first, *second):
        value[:] = 77
    np.testing.assert_array_equal(x, TWO)
    assert not np.shares_memory(first[0], first[1])


def test_a_body_output_given_twice_is_two_buffers() -> None:
    text = (
        "g (bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If (c) <"
        " then_branch = t () => (float[2] p, float[2] p2) { p = Neg(x) p2 = Identity(p) },"
        " else_branch = e () => (float[2] q, float[2] q2) { q = Abs(x) q2 = Neg(x) }> }"
    )
    feeds = {"c": GO, "x": TWO}
    ((y, z),) = assert_accounts_are_true(text, feeds)
    np.testing.assert_array_equal(y, z)
    assert not np.shares_memory(y, z)
