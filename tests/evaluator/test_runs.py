"""The log of whole runs, line by line: the seed's, its variants, order, releases, a second run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import OutputError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator, default_allocator
from onnx_notebook_profiler.events import EventLog, RuntimeEventAction
from tests.models import add_chain_model, memory_demo_model, mul_add_model
from tests.oracles import assert_same, onnx_reference, ort

X = np.arange(1024, dtype=np.float32)


def lines(session: ReferenceEvaluator) -> list[str]:
    """The summaries, with T for durations and E/N for executors."""
    return [
        re.sub(r"executor#\d+/\d+", "executor#E/N", re.sub(r"took \d+ns", "took Tns", e.summary()))
        for e in session.events()
    ]


def names(session: ReferenceEvaluator, action: RuntimeEventAction) -> list[str]:
    return [event.name for event in session.events() if event.action == action]


def story(session: ReferenceEvaluator) -> list[str]:
    """Short words for the events: +name, -name, Op."""
    words = {RuntimeEventAction.ADD: "+{0.name}", RuntimeEventAction.REMOVE: "-{0.name}"}
    return [words.get(e.action, "{0.op_type}").format(e) for e in session.events()]


def test_fact_1_the_seed_line_by_line() -> None:
    allocator = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, release_intermediates=True, allocator=allocator
    )
    (w,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(w[:4], [0, 3, 6, 9])
    assert lines(session) == [
        "[add/input] 'x' mem=0B peak=0B",
        "[add/initializer] 'two' mem=4B peak=4B",
        "[add/intermediate] 'z' node#0 mem=4100B peak=4100B",
        "[run_node/unknown] ai.onnx::Mul(x, two) node#0 took Tns executor#E/N mem=4100B peak=4100B",
        "[add/intermediate] 'w' node#1 mem=4100B peak=4100B",
        "[run_node/unknown] ai.onnx::Add(z, x) node#1 took Tns executor#E/N mem=4100B peak=4100B",
        "[remove/unknown] 'z' mem=4B peak=4100B",
    ]
    assert allocator.peak_allocated_size == 4100


def test_fact_1_the_io_account_beside_it() -> None:
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=SimpleRawBufferAllocator(64)
    )
    session.run(None, {"x": X})
    events = session.events()
    assert [e.io_allocated_bytes for e in events] == [0, 0, 0, 0, 4096, 4096, 4096]
    assert [e.io_peak_bytes for e in events] == [0, 0, 0, 0, 4096, 4096, 4096]
    assert [e.live_bytes for e in events] == [0, 4, 4100, 4100, 8196, 8196, 4100]


def test_the_events_of_the_seed_field_by_field() -> None:
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=SimpleRawBufferAllocator(64)
    )
    session.run(None, {"x": X})
    x, two, z, mul, w, add, gone = [event.as_dict() for event in session.events()]
    assert (x["node_index"], two["node_index"], z["node_index"], w["node_index"]) == (-1, -2, 0, 1)
    assert (two["data_type"], two["shape"], two["values"], two["value_count"]) == (1, [], [2.0], 1)
    assert (z["data_type"], z["shape"], z["value_count"]) == (-1, [], 8)
    assert z["values"] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert (mul["op_domain"], mul["op_type"], mul["inputs"]) == ("ai.onnx", "Mul", ["x", "two"])
    assert (mul["name"], mul["data_type"], mul["shape"], mul["values"]) == ("", 0, [], [])
    assert mul["cpu_executor_instance_id"] >= 1
    assert mul["cpu_executor_instance_id"] == add["cpu_executor_instance_id"]
    assert mul["cpu_effective_threads"] == 1
    assert (x["duration_ns"], x["cpu_executor_instance_id"], x["op_domain"]) == (0, 0, "")
    assert (gone["kind"], gone["node_index"], gone["data_type"]) == ("unknown", -1, 0)
    assert [e.nbytes for e in session.events()] == [0, 4, 4096, 0, 4096, 0, 0]


def test_fact_2_one_allocator_for_both_accounts() -> None:
    both = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=both, io_allocator=both
    )
    session.run(None, {"x": X})
    events = session.events()
    assert [e.allocated_bytes for e in events] == [0, 4, 4100, 4100, 8196, 8196, 4100]
    assert both.peak_allocated_size == 8196
    # the sum must not count twice
    assert [e.live_bytes for e in events] == [0, 4, 4100, 4100, 8196, 8196, 4100]


def test_second_run_starts_at_zero_with_the_old_peak() -> None:
    allocator = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True, allocator=allocator)
    session.run(None, {"x": X})
    assert (allocator.total_allocated_size, allocator.allocated_count) == (4, 1)
    session.run(None, {"x": X})
    events = session.events()
    assert events[0].summary() == "[add/input] 'x' mem=0B peak=4100B"
    assert [e.allocated_bytes for e in events] == [0, 4, 4100, 4100, 4100, 4100, 4]
    assert [e.io_allocated_bytes for e in events] == [0, 0, 0, 0, 4096, 4096, 4096]
    allocator.reset_peak()
    session.run(None, {"x": np.ones(1, np.float32)})
    assert [e.peak_bytes for e in session.events()] == [4, 4, 8, 8, 8, 8, 8]


def test_io_bytes_belong_to_the_caller_until_the_next_run() -> None:
    io = SimpleRawBufferAllocator(8)
    session = ReferenceEvaluator(
        mul_add_model(), allocator=SimpleRawBufferAllocator(8), io_allocator=io
    )
    for _ in range(3):
        session.run(None, {"x": X})
        assert (io.total_allocated_size, io.allocated_count) == (4096, 1)
    assert io.peak_allocated_size == 4096


def test_fact_27_node_indices() -> None:
    session = ReferenceEvaluator(
        "g (float[2] x) => (float[2] y) { t = Abs(x) y = Add(t, x) }", events_enabled=True
    )
    session.run(None, {"x": np.array([-1, 2], np.float32)})
    nodes = [e for e in session.events() if e.node_index >= 0]
    assert [(e.action.label, e.name, e.node_index) for e in nodes] == [
        ("add", "t", 0),
        ("run_node", "", 0),
        ("add", "y", 1),
        ("run_node", "", 1),
    ]


@pytest.mark.parametrize("release", [True, False])
def test_fact_30_without_allocators_every_line_says_zero(release: Any) -> None:
    session = ReferenceEvaluator(
        memory_demo_model(), events_enabled=True, release_intermediates=release
    )
    session.run(None, {"X": np.ones((2, 4), np.float32)})
    assert len(session.events()) >= 12
    assert all(line.endswith(" mem=0B peak=0B") for line in lines(session))
    assert all(e.io_allocated_bytes == e.io_peak_bytes == 0 for e in session.events())


def test_fact_31_two_values_die_at_the_last_node() -> None:
    session = ReferenceEvaluator(
        "g (float[4] x) => (float[4] y) { t0 = Add(x, x) t1 = Mul(t0, t0) y = Sub(t1, t0) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(8),
    )
    session.run(None, {"x": np.ones(4, np.float32)})
    assert story(session) == ["+x", "+t0", "Add", "+t1", "Mul", "+y", "Sub", "-t1", "-t0"]
    assert [e.allocated_bytes for e in session.events()] == [0, 16, 16, 32, 32, 32, 32, 16, 0]


def test_order_of_a_run_feeds_as_given_initializers_as_declared() -> None:
    text = (
        "g (float[1] a, float[1] b, float[1] c) => (float[1] y)"
        "<float[1] w2 = {1}, float[1] w1 = {2}, float[1] c = {3}>"
        "{ y = Sum(a, b, c, w1, w2) }"
    )
    session = ReferenceEvaluator(text, events_enabled=True)
    one = np.ones(1, np.float32)
    (y,) = session.run(None, {"b": one, "a": one})
    assert (story(session), y) == (["+b", "+a", "+w2", "+w1", "+c", "+y", "Sum"], 8)
    kinds = [e.kind for e in session.events()]
    assert kinds == ["input"] * 2 + ["initializer"] * 3 + ["intermediate", "unknown"]
    # what is fed wins over the initializer of the same name
    (y,) = session.run(None, {"c": one * 10, "b": one, "a": one})
    assert (story(session), y) == (["+c", "+b", "+a", "+w2", "+w1", "+y", "Sum"], 15)
    (y,) = session.run(None, {"b": one, "a": one})
    assert y == 8


def test_releases_follow_the_node_in_the_order_of_its_inputs() -> None:
    session = ReferenceEvaluator(
        "g (float[2] x) => (float[8] y) { a = Abs(x) b = Neg(x)"
        " y = Concat <axis = 0> (b, a, b, x) }",
        events_enabled=True,
    )
    session.run(None, {"x": np.ones(2, np.float32)})
    assert story(session) == ["+x", "+a", "Abs", "+b", "Neg", "+y", "Concat", "-b", "-a"]


def test_dead_outputs_are_released_at_once() -> None:
    session = ReferenceEvaluator(
        "g (float[4] x) => (float[2] y) { a = Abs(x)"
        " p, q = Split <axis = 0, num_outputs = 2> (a) y = Neg(p) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(8),
    )
    session.run(None, {"x": np.ones(4, np.float32)})
    assert story(session) == ["+x", "+a", "Abs", "+p", "+q", "Split", "-a", "-q", "+y", "Neg", "-p"]
    assert [e.allocated_bytes for e in session.events()][3:] == [32, 32, 32, 16, 8, 8, 8, 0]


def test_a_name_may_go_before_its_bytes() -> None:
    session = ReferenceEvaluator(
        "g (float[2, 2] x, int64[1] s) => (float[4] y)"
        "{ a = Abs(x) r = Reshape(a, s) y = Add(r, r) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(8),
    )
    session.run(None, {"x": np.ones((2, 2), np.float32), "s": np.array([-1])})
    assert story(session) == ["+x", "+s", "+a", "Abs", "+r", "Reshape", "-a", "+y", "Add", "-r"]
    assert [e.allocated_bytes for e in session.events()] == [0, 0, 16, 16, 16, 16, 16, 16, 16, 0]
    assert next(e.nbytes for e in session.events() if e.name == "r") == 0  # a view owns no bytes


def test_asking_for_an_intermediate_turns_releases_off_for_that_run() -> None:
    allocator = SimpleRawBufferAllocator(8)
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True, allocator=allocator)
    z, w = session.run(["z", "w"], {"x": X})
    np.testing.assert_array_equal(z, 2 * X)
    np.testing.assert_array_equal(w, 3 * X)
    assert names(session, RuntimeEventAction.REMOVE) == []
    assert allocator.total_allocated_size == 4  # kept for the run, not beyond it
    session.run(["w"], {"x": X})
    assert names(session, RuntimeEventAction.REMOVE) == ["z"]


def test_without_releases_everything_stays_until_the_run_ends() -> None:
    allocator = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(
        add_chain_model(10), events_enabled=True, release_intermediates=False, allocator=allocator
    )
    session.run(None, {"x": np.ones(4, np.float32)})
    assert names(session, RuntimeEventAction.REMOVE) == []
    assert allocator.peak_allocated_size == 9 * 16
    assert allocator.total_allocated_size == 0
    session.run(None, {"x": np.ones(4, np.float32)})
    assert allocator.peak_allocated_size == 9 * 16


def test_inputs_initializers_and_outputs_may_be_asked_for_in_any_order() -> None:
    session = ReferenceEvaluator(mul_add_model())
    w, two, x, again = session.run(["w", "two", "x", "w"], {"x": X})
    assert two == 2
    np.testing.assert_array_equal(x, X)
    assert again is w
    x[:] = two[...] = -1
    assert X[5] == 5
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 3 * X)


def test_an_unknown_output_is_an_error_and_the_log_stays() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    session.run(None, {"x": X})
    before = session.events()
    with pytest.raises(OutputError, match=r"no value 'v'.*'w'") as caught:
        session.run(["v"], {"x": X})
    assert isinstance(caught.value, RuntimeError)
    assert session.events() == before


def test_seed_001_runs_as_elsewhere() -> None:
    model, feeds = memory_demo_model(), {"X": np.arange(-8, 8, dtype=np.float32).reshape(4, 4)}
    session = ReferenceEvaluator(model, events_enabled=True, allocator=SimpleRawBufferAllocator(64))
    outputs = session.run(None, feeds)
    assert_same(outputs, onnx_reference(model, feeds))
    assert_same(outputs, ort(model, feeds))
    # N = 4: M 64, C and A 128 and S 16 bytes; Z is a view of A, which is the caller's from birth
    nodes = [e for e in session.events() if e.action == RuntimeEventAction.RUN_NODE]
    assert [e.allocated_bytes for e in nodes] == [
        64 + 64,
        64 + 64 + 128,
        64 + 128 + 16,
        64 + 128 + 16,
        64 + 16,
    ]
    assert [e.io_allocated_bytes for e in nodes] == [0, 0, 0, 128, 128]


def test_rank_zero_feeds_are_copied_and_counted() -> None:
    session = ReferenceEvaluator(
        "g (float s, float[2] x) => (float[2] y) { y = Mul(x, s) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(8),
    )
    for s in (np.array(2, np.float32), np.float32(2), 2, 2.0):
        (y,) = session.run(None, {"s": s, "x": np.ones(2, np.float32)})
        np.testing.assert_array_equal(y, [2, 2])
        assert [e.allocated_bytes for e in session.events()] == [4, 4, 4, 4]


def test_strided_feeds_are_copied_and_counted() -> None:
    session = ReferenceEvaluator(
        "g (float[N] x) => (float[N] y) { y = Abs(x) }",
        events_enabled=True,
        allocator=SimpleRawBufferAllocator(8),
    )
    session.run(None, {"x": X[::2]})
    assert [e.allocated_bytes for e in session.events()] == [2048, 2048, 2048]


def test_allocators_with_a_log_report_beside_the_run() -> None:
    log = EventLog()
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=SimpleRawBufferAllocator(64, log=log)
    )
    session.run(None, {"x": X})
    session.run(None, {"x": X})
    acts = [(e.action.label, e.owner, e.nbytes) for e in log]
    once = [("reserve", "two", 4), ("allocate", "z", 4096), ("free", "z", 4096)]
    assert acts == [*once, ("free", "two", 4), *once]
    assert len(session.events()) == 7


def test_names_and_opsets() -> None:
    session = ReferenceEvaluator(mul_add_model())
    assert (session.input_names, session.output_names) == (["x"], ["w"])
    assert session.opsets == {"": 18}
    assert repr(session) == "ReferenceEvaluator('agraph': x -> w, 2 nodes)"


def test_the_default_allocator_has_the_size_that_onnx_light_gives() -> None:
    small = ReferenceEvaluator(mul_add_model())
    assert default_allocator(small.plan).capacity == 4096
    large = ReferenceEvaluator(add_chain_model(5000))
    assert default_allocator(large.plan).capacity == 1 + 1 + 0 + 5000 + 4


@pytest.mark.parametrize("verbose", [1, 3])
def test_verbose_prints_a_line_for_each_node(capsys: Any, verbose: Any) -> None:
    ReferenceEvaluator(mul_add_model(), verbose=verbose).run(None, {"x": X})
    out, err = capsys.readouterr()
    assert err == ""
    first, second = out.splitlines()
    assert "Mul(x, two) -> z" in first
    assert "Add(z, x) -> w" in second


def test_verbose_names_the_body(capsys: Any) -> None:
    text = (
        "g (bool c, float[2] x) => (float[2] y) { y = If (c) <"
        "then_branch = t () => (float[2] p) { p = Abs(x) },"
        "else_branch = e () => (float[2] q) { q = Neg(x) }> }"
    )
    ReferenceEvaluator(text, verbose=1).run(None, {"c": True, "x": np.ones(2, np.float32)})
    inner, outer = capsys.readouterr().out.splitlines()
    assert inner.startswith("then_branch@0/")
    assert "Abs(x) -> p" in inner
    assert "If(c) -> y" in outer


def test_silence_is_the_default(capsys: Any) -> None:
    ReferenceEvaluator(mul_add_model()).run(None, {"x": X})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("verbose", "error"), [(-1, ValueError), (1.0, TypeError), ("1", TypeError), (True, TypeError)]
)
def test_verbose_must_be_an_integer_of_zero_or_more(verbose: Any, error: Any) -> None:
    with pytest.raises(error, match="verbose"):
        ReferenceEvaluator(mul_add_model(), verbose=verbose)


def test_feeds_of_another_type_are_inferred_anew() -> None:
    session = ReferenceEvaluator(
        '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>'
        "g (float[N] x) => (float[N] y) { y = local.Twice(x) }\n"
        '<domain: "local", opset_import: ["" : 18]> Twice (a) => (b) { b = Add(a, a) }'
    )
    (y,) = session.run(None, {"x": np.ones(3, np.float32)})
    assert y.dtype == np.float32
    node = ReferenceEvaluator(session.model.proto.functions[0])
    for dtype in (np.float32, np.int64, np.float64, np.float32):
        (b,) = node.run(None, {"a": np.ones(3, dtype)})
        assert b.dtype == dtype
