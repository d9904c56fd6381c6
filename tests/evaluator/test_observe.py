"""Watching every run from outside: sessions keep their settings, failed runs are reported as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import FeedError, KernelError
from onnx_notebook_profiler.evaluator.observe import RunRecord, current_observers, observing
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import RuntimeEventAction
from tests.models import add_chain_model, mul_add_model

X = np.arange(1024, dtype=np.float32)


def test_a_plain_session_gets_events_and_allocators_for_the_run() -> None:
    session = ReferenceEvaluator(mul_add_model())
    records: list[RunRecord] = []
    with observing(records.append):
        (w,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(w, 3 * X)
    (record,) = records
    assert record.evaluator is session
    assert list(record.feeds) == ["x"]
    assert record.error is None
    assert record.baseline_bytes == 0
    assert record.duration_ns >= sum(e.duration_ns for e in record.events)
    assert [e.allocated_bytes for e in record.events] == [0, 4, 4100, 4100, 4100, 4100, 4]
    assert [e.io_allocated_bytes for e in record.events] == [0, 0, 0, 0, 4096, 4096, 4096]
    acts = [(e.action.label, e.owner) for e in record.allocator_events]
    assert acts[:4] == [("reserve", "two"), ("allocate", "z"), ("allocate", "w"), ("free", "z")]
    assert {action for action, _ in acts[4:]} <= {"free"}  # its allocators end with the run
    # and is as before afterwards
    assert session.events() == []
    assert session.allocator is None
    session.run(None, {"x": X})
    assert session.events() == []
    assert len(records) == 1


def test_a_session_with_its_own_allocators_uses_these() -> None:
    execution, io = SimpleRawBufferAllocator(9), SimpleRawBufferAllocator(9)
    session = ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=execution, io_allocator=io
    )
    records: list[RunRecord] = []
    with observing(records.append):
        session.run(None, {"x": X})
        held = execution.allocate(100)  # somebody else's
        session.run(None, {"x": X})
    assert [len(record.events) for record in records] == [7, 7]
    assert list(records[1].events) == session.events()
    assert [record.baseline_bytes for record in records] == [0, 100]
    assert [e.allocated_bytes for e in records[1].events][:2] == [100, 104]
    assert records[0].allocator_events == ()
    held.give_back()
    assert (execution.total_allocated_size, io.total_allocated_size) == (4, 4096)


@pytest.mark.parametrize("own", [True, False])
def test_a_failed_run_is_reported_with_its_events_and_its_error(own: Any) -> None:
    allocator = SimpleRawBufferAllocator(9) if own else None
    session = ReferenceEvaluator(
        "g (float[N] x, int64[k] s) => (float[M] y) { a = Abs(x) y = Reshape(a, s) }",
        allocator=allocator,
    )
    records: list[RunRecord] = []
    with observing(records.append), pytest.raises(KernelError) as caught:
        session.run(None, {"x": X, "s": np.array([7])})
    (record,) = records
    assert record.error is caught.value
    assert record.events[-1].action == RuntimeEventAction.FAIL_NODE
    assert current_observers() == ()


def test_bad_feeds_are_no_run() -> None:
    records: list[RunRecord] = []
    with observing(records.append), pytest.raises(FeedError):
        ReferenceEvaluator(mul_add_model()).run(None, {})
    assert records == []


def test_progress_counts_the_nodes_of_the_main_graph() -> None:
    seen: list[tuple[int, int]] = []
    text = (
        "g (bool c, float[2] x) => (float[2] y) { a = Abs(x) y = If (c) <"
        "then_branch = t () => (float[2] p) { b = Neg(a) p = Abs(b) },"
        "else_branch = e () => (float[2] q) { q = Neg(x) }> }"
    )
    with observing(lambda record: None, lambda done, total: seen.append((done, total))):
        ReferenceEvaluator(text).run(None, {"c": True, "x": np.ones(2, np.float32)})
        ReferenceEvaluator(add_chain_model(3)).run(None, {"x": np.ones(4, np.float32)})
    assert seen == [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]


def test_everybody_who_watches_gets_the_run() -> None:
    outer: list[RunRecord] = []
    inner: list[RunRecord] = []
    session = ReferenceEvaluator(mul_add_model())
    with observing(outer.append):
        with observing(inner.append):
            session.run(None, {"x": X})
        session.run(None, {"x": X})
    assert (len(inner), len(outer)) == (1, 2)
    assert outer[0].events == inner[0].events
    assert current_observers() == ()
