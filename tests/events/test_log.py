"""The log: what an add event keeps of a value, cheap rows, reading, clearing, subscribing."""

from __future__ import annotations

import gc
import math
import time
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import EventLog, RuntimeEvent, RuntimeEventAction
from tests.models import add_chain_model, mul_add_model

DECODED = [
    (np.float32, TensorProto.FLOAT),
    (np.float64, TensorProto.DOUBLE),
    (np.int8, TensorProto.INT8),
    (np.int16, TensorProto.INT16),
    (np.int32, TensorProto.INT32),
    (np.int64, TensorProto.INT64),
    (np.uint8, TensorProto.UINT8),
    (np.uint16, TensorProto.UINT16),
    (np.uint32, TensorProto.UINT32),
    (np.uint64, TensorProto.UINT64),
]
NOT_DECODED = [
    (np.float16, TensorProto.FLOAT16),
    (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
    (ml_dtypes.int4, TensorProto.INT4),
    (np.complex64, TensorProto.COMPLEX64),
]
NAMES = {
    TensorProto.FLOAT: "float",
    TensorProto.DOUBLE: "double",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.FLOAT8E4M3FN: "float8e4m3fn",
    TensorProto.BOOL: "bool",
    TensorProto.STRING: "string",
}


def added(value: Any, code: Any) -> Any:
    """The event with which an input of this value enters a run."""
    kind = NAMES.get(code, TensorProto.DataType.Name(code).lower())
    dims = ",".join(f"d{axis}" for axis in range(np.ndim(value)))
    # an input that no node reads: no operator takes every type
    session = ReferenceEvaluator(
        f"g ({kind}[{dims}] x, float[1] a) => (float[1] y) {{ y = Abs(a) }}", events_enabled=True
    )
    session.run(None, {"x": value, "a": np.zeros(1, np.float32)})
    event = session.events()[0]
    assert (event.action, event.kind, event.name) == (RuntimeEventAction.ADD, "input", "x")
    return event


@pytest.mark.parametrize(("dtype", "code"), DECODED)
def test_numbers_up_to_eight_elements(dtype: Any, code: Any) -> None:
    event = added(np.arange(6).reshape(2, 3).astype(dtype), code)
    assert (event.data_type, event.shape) == (code, (2, 3))
    assert event.value_count == 6
    assert event.values == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert all(type(one) is float for one in event.values)


@pytest.mark.parametrize(("dtype", "code"), DECODED)
def test_beyond_eight_elements_type_and_shape_are_left_out(dtype: Any, code: Any) -> None:
    event = added(np.arange(9).astype(dtype), code)
    assert (event.data_type, event.shape) == (-1, ())
    assert event.value_count == 8
    assert event.values == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)


@pytest.mark.parametrize(("dtype", "code"), NOT_DECODED)
def test_types_that_are_not_decoded_have_no_values(dtype: Any, code: Any) -> None:
    event = added(np.ones(3).astype(dtype), code)
    assert (event.data_type, event.shape, event.value_count) == (code, (3,), 0)
    assert event.values == ()


def test_bools_are_shown_as_numbers() -> None:
    event = added(np.array([True, False]), TensorProto.BOOL)
    assert (event.data_type, event.values) == (TensorProto.BOOL, (1.0, 0.0))


def test_strings() -> None:
    event = added(np.array(["a", "b"], object), TensorProto.STRING)
    assert (event.data_type, event.shape) == (TensorProto.STRING, (2,))
    assert event.string_values == ("a", "b")
    assert (event.values, event.value_count, event.nbytes) == ((), 0, 0)
    many = added(np.array(list("abcdefghi"), object), TensorProto.STRING)
    assert many.data_type == -1
    assert many.string_values == tuple("abcdefgh")


def test_rank_zero_and_empty_tensors() -> None:
    event = added(np.array(2.5, np.float32), TensorProto.FLOAT)
    assert (event.data_type, event.shape, event.values) == (1, (), (2.5,))
    event = added(np.zeros((0, 3), np.float32), TensorProto.FLOAT)
    assert (event.data_type, event.shape, event.values) == (1, (0, 3), ())


def test_special_floats() -> None:
    values = added(np.array([math.inf, -math.inf, math.nan], np.float32), 1).values
    assert values[:2] == (math.inf, -math.inf)
    assert math.isnan(values[2])


def test_strided_feeds_show_their_own_elements() -> None:
    assert added(np.arange(40, dtype=np.float32)[::4], 1).values == tuple(range(0, 32, 4))


def test_the_log_keeps_no_buffer_of_a_run() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    x = np.ones(100_000, np.float32)
    (w,) = session.run(None, {"x": x})
    dies = [weakref.ref(x), weakref.ref(w)]
    del x, w
    gc.collect()
    assert [one() for one in dies] == [None, None]
    assert len(session.events()) == 7


def test_reading_makes_equal_events_and_lists_of_their_own() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    session.run(None, {"x": np.ones(3, np.float32)})
    first, second = session.events(), session.events()
    assert first == second
    assert first is not second
    first.clear()
    assert len(session.events()) == 7
    assert list(session.log) == second
    assert session.log[0] == second[0]
    assert session.log[-1] == second[-1]
    assert len(session.log) == 7
    assert repr(session.log) == "EventLog(7 events)"


def test_without_events_nothing_is_logged() -> None:
    session = ReferenceEvaluator(mul_add_model())
    session.run(None, {"x": np.ones(3, np.float32)})
    assert session.events() == []


def test_before_a_run_the_log_is_empty() -> None:
    assert ReferenceEvaluator(mul_add_model(), events_enabled=True).events() == []


def test_appending_a_row_makes_no_event(monkeypatch: Any) -> None:
    def forbidden(*args: Any) -> None:
        raise AssertionError("an event was made while the model ran")

    session = ReferenceEvaluator(add_chain_model(20), events_enabled=True)
    with monkeypatch.context() as patch:
        patch.setattr("onnx_notebook_profiler.events.log.event_of_row", forbidden)
        session.run(None, {"x": np.ones(4, np.float32)})
    assert len(session.events()) == 1 + 20 * 2 + 19


def test_subscribers_get_each_event_as_it_happens() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    seen: list[RuntimeEvent] = []
    lengths: list[int] = []

    def watch(event: Any) -> None:
        seen.append(event)
        lengths.append(len(session.log))

    stop = session.log.subscribe(watch)
    session.run(None, {"x": np.ones(3, np.float32)})
    assert seen == session.events()
    assert lengths == [1, 2, 3, 4, 5, 6, 7]
    session.run(None, {"x": np.ones(3, np.float32)})
    assert len(seen) == 14  # a new run clears the log, not its subscribers
    stop()
    session.run(None, {"x": np.ones(3, np.float32)})
    assert len(seen) == 14
    assert len(session.events()) == 7


def test_several_subscribers_come_and_go_on_their_own() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    counts = [0, 0]

    def first(event: Any) -> None:
        counts[0] += 1

    def second(event: Any) -> None:
        counts[1] += 1

    stop_first = session.log.subscribe(first)
    stop_second = session.log.subscribe(second)
    session.run(None, {"x": np.ones(3, np.float32)})
    stop_first()
    stop_first()  # harmless
    session.run(None, {"x": np.ones(3, np.float32)})
    stop_second()
    session.run(None, {"x": np.ones(3, np.float32)})
    assert counts == [7, 14]


def test_times_count_from_the_unix_epoch_and_a_node_is_stamped_when_it_starts() -> None:
    session = ReferenceEvaluator(mul_add_model(), events_enabled=True)
    before = time.time_ns()
    session.run(None, {"x": np.ones(100_000, np.float32)})
    after = time.time_ns()
    events = session.events()
    slack = 50_000_000  # the two clocks are read one after the other
    assert all(before - slack <= event.timestamp_ns <= after + slack for event in events)
    for node in (event for event in events if event.action == RuntimeEventAction.RUN_NODE):
        made = next(
            event
            for event in events
            if event.action == RuntimeEventAction.ADD and event.node_index == node.node_index
        )
        assert node.timestamp_ns <= made.timestamp_ns
        assert node.timestamp_ns + node.duration_ns >= made.timestamp_ns - slack
        assert node.duration_ns > 0
    others = [e.timestamp_ns for e in events if e.action != RuntimeEventAction.RUN_NODE]
    assert others == sorted(others)


def test_a_log_of_its_own_starts_empty_and_can_be_cleared() -> None:
    log = EventLog()
    assert (len(log), list(log), log.events()) == (0, [], [])
    with pytest.raises(IndexError):
        log[0]
    log.clear()
    assert len(log) == 0
