"""When a node fails: the error says where and on what, the log ends with it, and no byte is lost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import AllocationError, FeedError, KernelError, ProfilerError
from onnx_notebook_profiler.evaluator import registry
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import RuntimeEventAction

RESHAPE = (
    "g (float[N] x, int64[k] s) => (float[M] y) <float two = {2}>"
    "{ a = Mul(x, two) b = Reshape(a, s) c = Neg(b) y = Abs(c) }"
)
GOOD = {"x": np.ones(6, np.float32), "s": np.array([2, 3])}
BAD = {**GOOD, "s": np.array([7])}


def text_of(session: ReferenceEvaluator) -> list[str]:
    return [re.sub(r"took \d+ns executor#\d+/\d+", "T", e.summary()) for e in session.events()]


def test_the_log_ends_with_the_node_that_failed() -> None:
    allocator = SimpleRawBufferAllocator(8)
    session = ReferenceEvaluator(RESHAPE, events_enabled=True, allocator=allocator)
    with pytest.raises(KernelError) as caught:
        session.run(None, BAD)
    assert text_of(session) == [
        "[add/input] 'x' mem=0B peak=0B",
        "[add/input] 's' mem=0B peak=0B",
        "[add/initializer] 'two' mem=4B peak=4B",
        "[add/intermediate] 'a' node#0 mem=28B peak=28B",
        "[run_node/unknown] ai.onnx::Mul(x, two) node#0 T mem=28B peak=28B",
        "[fail_node/unknown] ai.onnx::Reshape(a, s) node#1 T mem=28B peak=28B",
    ]
    failed = session.events()[-1]
    assert failed.action == RuntimeEventAction.FAIL_NODE
    assert failed.error.startswith("ValueError: ")
    assert "(7," in failed.error or "[7]" in failed.error
    assert isinstance(caught.value, RuntimeError)
    message = str(caught.value)
    assert "node 1 Reshape" in message
    assert "a: float32[6]" in message
    assert "s: int64[1]" in message
    assert isinstance(caught.value.__cause__, ValueError)


def test_after_a_failure_only_the_weights_are_charged_and_the_session_goes_on() -> None:
    execution, io = SimpleRawBufferAllocator(8), SimpleRawBufferAllocator(8)
    session = ReferenceEvaluator(RESHAPE, events_enabled=True, allocator=execution, io_allocator=io)
    for _ in range(3):
        with pytest.raises(KernelError):
            session.run(None, BAD)
        assert (execution.total_allocated_size, execution.allocated_count) == (4, 1)
        assert io.allocated_count == 0
        (y,) = session.run(None, GOOD)
        np.testing.assert_array_equal(y, np.full((2, 3), 2.0))
        assert session.events()[0].allocated_bytes == 0
        assert (execution.allocated_count, io.total_allocated_size) == (1, 24)


def test_the_log_of_a_failed_run_survives_bad_feeds() -> None:
    session = ReferenceEvaluator(RESHAPE, events_enabled=True)
    with pytest.raises(KernelError):
        session.run(None, BAD)
    log = session.events()
    with pytest.raises(FeedError):
        session.run(None, {})
    assert session.events() == log


IN_BODIES = (
    "g (int64 n, bool go, float[2] x, int64[1] s) => (float[2] y) <float[2] w = {1, 2}> {"
    " y = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {"
    "   d = Identity(c) three = Constant <value_int = 3> () late = Less(i, three)"
    "   u = If(late) <then_branch = t () => (float[2] p) { q = Add(v, w) p = Neg(q) },"
    "                 else_branch = e () => (float[2] r) { k = Add(v, w) r = Reshape(k, s) }> }> }"
)
DEEP = {
    "n": np.array(5),
    "go": np.array(True),
    "x": np.ones(2, np.float32),
    "s": np.array([7]),
}


def test_a_failure_deep_inside_names_every_level_and_keeps_all_events() -> None:
    allocator = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(IN_BODIES, events_enabled=True, allocator=allocator)
    with pytest.raises(
        KernelError, match=r"node 0 Loop: node 3 If: node 1 Reshape failed on \(k: "
    ):
        session.run(None, DEEP)
    events = session.events()
    failed = [e for e in events if e.action == RuntimeEventAction.FAIL_NODE]
    assert [(e.op_type, e.subgraph_path) for e in failed] == [
        ("Reshape", ((0, "body"), (3, "else_branch"))),
        ("If", ((0, "body"),)),
        ("Loop", ()),
    ]
    assert events[-3:] == failed
    finished = [e.op_type for e in events if e.action == RuntimeEventAction.RUN_NODE]
    assert finished == ["Identity", "Constant", "Less", "Add", "Neg", "If"] * 3 + [
        "Identity",
        "Constant",
        "Less",
        "Add",
    ]
    assert (allocator.total_allocated_size, allocator.allocated_count) == (8, 1)


@pytest.mark.parametrize("capacity", range(5))
def test_a_refused_buffer_names_node_and_value(capacity: Any) -> None:
    text = (
        "g (float[4] x) => (float[4] y) <float[1] w = {2}>"
        "{ a = Mul(x, w) b = Neg(x) c = Exp(x) t = Sum(a, b, c) y = Abs(t) }"
    )
    allocator = SimpleRawBufferAllocator(capacity)
    session = ReferenceEvaluator(text, events_enabled=True, allocator=allocator)
    feeds = {"x": np.ones(4, np.float32)}
    label, value = [("", "w"), ("0 Mul", "a"), ("1 Neg", "b"), ("2 Exp", "c"), ("3 Sum", "t")][
        capacity
    ]
    with pytest.raises(AllocationError, match=rf"{label}.*no room for '{value}'") as caught:
        session.run(None, feeds)
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, ProfilerError)
    if capacity:
        assert session.events()[-1].action == RuntimeEventAction.FAIL_NODE
        assert session.events()[-1].op_type == label.split()[1]
    assert allocator.allocated_count == min(capacity, 1)
    allocator.capacity = 5
    session.run(None, feeds)
    assert allocator.total_allocated_size == 4


MODELS_WITH_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "if_in_loop": (IN_BODIES, {**DEEP, "s": np.array([2])}),
    "scan_outputs": (
        (
            "g (int64 n, bool go, float[2] x, float[2] z) => (float[2] y, float[k, 2] p, float[k, 2] q) {"
            " y, o, p, q = Loop(n, go, x, z) <body = b (int64 i, bool c, float[2] v, float[2] w)"
            " => (bool d, float[2] u, float[2] t, float[2] e, float[2] f) {"
            "   d = Identity(c) u = Add(v, w) t = Neg(w) e = Abs(u) f = Neg(e) }> }"
        ),
        {
            "n": np.array(3),
            "go": np.array(True),
            "x": np.ones(2, np.float32),
            "z": np.ones(2, np.float32),
        },
    ),
    "no_iterations": (
        (
            "g (int64 n, bool go, float[2] x) => (float[2] y, float[2] z, float[k, 2] p) {"
            " y, z, p = Loop(n, go, x, x) <body = b (int64 i, bool c, float[2] v, float[2] w)"
            " => (bool d, float[2] u, float[2] t, float[2] e) {"
            "   d = Identity(c) u = Add(v, w) t = Neg(w) e = Abs(u) }> }"
        ),
        {"n": np.array(0), "go": np.array(True), "x": np.ones(2, np.float32)},
    ),
    "scan": (
        (
            "g (float[2] s, float[2, 3] x, float[3, 2] z) => (float[2] y, float[3, 2] p, float[2, 3] q) {"
            " y, p, q = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [0, 1],"
            "  scan_input_directions = [1, 0], body = b (float[2] v, float[2] a, float[2] b)"
            " => (float[2] u, float[2] e, float[2] f) {"
            "   t = Add(v, a) u = Add(t, b) e = Abs(t) f = Neg(t) }> (s, x, z) }"
        ),
        {
            "s": np.ones(2, np.float32),
            "x": np.ones((2, 3), np.float32),
            "z": np.ones((3, 2), np.float32),
        },
    ),
    "function": (
        (
            '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>'
            "g (float[2] x) => (float[2] y) { a = local.F(x) y = local.F(a) }\n"
            '<domain: "local", opset_import: ["" : 18]> F (a) => (c) { b = Neg(a) d = Abs(b) c = Add(b, d) }'
        ),
        {"x": np.ones(2, np.float32)},
    ),
    "sequence_map": (
        (
            "g (seq(float[2]) s, float[2] x) => (seq(float[2]) t, seq(float[2]) u) {"
            " t, u = SequenceMap <body = b (float[2] a, float[2] b) => (float[2] c, float[2] d) {"
            "   c = Add(a, b) e = Abs(c) d = Neg(e) }> (s, x) }"
        ),
        {"s": [np.ones(2, np.float32)] * 3, "x": np.ones(2, np.float32)},
    ),
}


@pytest.mark.parametrize("name", MODELS_WITH_BODIES)
def test_whichever_buffer_is_refused_none_is_lost(name: Any) -> None:
    """Every capacity from none up: the run fails or not, and afterwards nothing but the weights is charged."""
    text, feeds = MODELS_WITH_BODIES[name]
    refused = 0
    for capacity in range(60):
        execution, io = SimpleRawBufferAllocator(capacity), SimpleRawBufferAllocator(100)
        session = ReferenceEvaluator(text, allocator=execution, io_allocator=io)
        try:
            session.run(None, feeds)
        except AllocationError:
            refused += 1
            assert execution.allocated_count <= len(session.plan.initializers)
            assert io.allocated_count == 0
        else:
            assert execution.allocated_count == len(session.plan.initializers)
            break
    assert 1 <= refused < 59
    for capacity in range(10):
        execution, io = SimpleRawBufferAllocator(100), SimpleRawBufferAllocator(capacity)
        session = ReferenceEvaluator(text, allocator=execution, io_allocator=io)
        try:
            session.run(None, feeds)
        except AllocationError:
            assert execution.allocated_count == len(session.plan.initializers)
            assert io.allocated_count == 0
        else:
            break
    assert capacity >= len(session.plan.outputs)


class _Failing(AdoptingKernel):
    error: BaseException = KeyboardInterrupt()

    def call(self, inputs: Any) -> list[Any]:
        raise self.error


@pytest.fixture
def failing(monkeypatch: Any) -> Any:
    """An operator `test.fails::Op` that raises what it is told to."""
    registry.find_kernel("", "Abs", 18)
    entry = registry.Registration("test.fails", "Op", 1, _Failing)
    monkeypatch.setitem(registry._table, ("test.fails", "Op"), [entry])
    return _Failing


NODE = helper.make_node("Op", ["x"], ["y"], name="the\nnode", domain="test.fails")


def test_an_interrupt_passes_through_and_is_logged(failing: Any, monkeypatch: Any) -> None:
    session = ReferenceEvaluator(NODE, events_enabled=True)
    monkeypatch.setattr(failing, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        session.run(None, {"x": np.ones(1, np.float32)})
    assert session.events()[-1].error.startswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("odd shapes"), KernelError),
        (KeyError("axis"), KernelError),
        (ZeroDivisionError(), KernelError),
        (MemoryError("4 GiB"), AllocationError),
        (FeedError("ours"), FeedError),
    ],
)
def test_errors_of_kernels_keep_their_sense(
    failing: Any, monkeypatch: Any, error: Any, expected: Any
) -> None:
    session = ReferenceEvaluator(NODE, events_enabled=True)
    monkeypatch.setattr(failing, "error", error)
    with pytest.raises(expected) as caught:
        session.run(None, {"x": np.ones(1, np.float32)})
    message = str(caught.value)
    assert message.startswith("node 0 test.fails::Op 'the\\nnode'")
    assert (str(error) or type(error).__name__) in message
    assert caught.value.__cause__ is error
    assert session.events()[-1].error == f"{type(error).__name__}: {error}"


def test_too_few_results_are_an_error(failing: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(failing, "call", lambda self, inputs: [])
    with pytest.raises(KernelError, match="0 results came back for 1 outputs"):
        ReferenceEvaluator(NODE).run(None, {"x": np.ones(1, np.float32)})
