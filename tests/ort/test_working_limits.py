"""Which limits work: figures measured on the real runtime, and every limit tried one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import NO_NODE
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.events import (
    PlannedEvent,
    Scratch,
    request_bytes,
    reserved_events,
    run_events,
)
from onnx_notebook_profiler.ort.replay import Session, replay, session_of
from onnx_notebook_profiler.ort.working_limits import (
    LimitRange,
    WorkingLimits,
    scan_limits,
    scan_runs,
)
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
# Graph, reserved bytes, and the least max_mem that was measured with onnxruntime 1.32.0 on Linux: pattern off, then
# with the pattern after one and after three runs; both strategies.
CHAIN = "g (float[16,64] x) => (float[16,64] y) { a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c) }"
MATMUL = """g (float[3,64] x, float[64,128] w, float[128] b) => (float[3,128] y)
    { a = MatMul(x, w) c = Add(a, b) y = Relu(c) }"""
GEMM = """g (float[3,64] x, float[64,256] w, float[256] b, float[256,32] v, float[32] d) => (float[3,32] y)
    { a = Gemm(x, w, b) c = Relu(a) e = Gemm(c, v, d) y = Softmax(e) }"""
CONCAT = """g (float[5,100] x) => (float[5,1] y)
    { a = Exp(x) b = Neg(x) c = Concat<axis = 1>(a, b) d = Abs(c) y = ReduceSum(d) }"""
CASES: dict[str, tuple[str, int, dict[str, tuple[int, int, int]]]] = {
    "chain": (CHAIN, 0, {"kNextPowerOfTwo": (8192, 8192, 16384), "kSameAsRequested": (8192, 8192, 8192)}),
    "matmul": (MATMUL, 32768,
               {"kNextPowerOfTwo": (35840, 35840, 38912), "kSameAsRequested": (35840, 35840, 35840)}),
    "gemm": (GEMM, 98304,
             {"kNextPowerOfTwo": (104448, 104448, 105472), "kSameAsRequested": (101888, 101888, 101888)}),
    "concat": (CONCAT, 8,
               {"kNextPowerOfTwo": (8200, 8200, 16392), "kSameAsRequested": (12296, 12296, 12296)}),
}  # fmt: skip


def session_for(text: str, reserved: int, runs: int, *, patterns: bool = True) -> Session:
    model = load_model(HEAD + text)
    plan = plan_allocation(model)
    assert not plan.unplanned
    sizes = {
        name: request_bytes(plan.types[name].data_type, plan.types[name].shape or ())  # type: ignore[arg-type]
        for name, placement in plan.placements.items()
        if placement.is_allocated
    }
    events = run_events(plan, sizes).events
    return session_of(
        reserved_events({"weights": reserved}), [(0, events)] * runs, use_patterns=patterns
    )


def limits_of(session: Session, strategy: str, **options: Any) -> WorkingLimits:
    return scan_limits(session, lambda limit: onp.BFCArena(limit, strategy), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["kNextPowerOfTwo", "kSameAsRequested"])
@pytest.mark.parametrize("case", CASES)
def test_the_least_limits_that_were_measured(case: str, strategy: str) -> None:
    text, reserved, expected = CASES[case]
    off, once, thrice = expected[strategy]
    for runs in (1, 3):
        assert limits_of(session_for(text, reserved, runs, patterns=False), strategy).least == off
    assert limits_of(session_for(text, reserved, 1), strategy).least == once
    assert limits_of(session_for(text, reserved, 3), strategy).least == thrice


@pytest.mark.parametrize("limit", [-1, True, 1.5, "8192"])
def test_what_is_no_limit(limit: Any) -> None:
    with pytest.raises(SizeError, match="max_mem is a number of bytes"):
        WorkingLimits((LimitRange(1, None),)).works(limit)


def test_a_range_in_words() -> None:
    assert str(LimitRange(8192, None)) == "8,192 and more"
    assert str(LimitRange(8192, 8447)) == "8,192 to 8,447"
    assert str(LimitRange(8192, 8192)) == "8,192"


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Some runs of requests that come and go, with values that a pattern holds, scratch and results."""
    most = draw(st.sampled_from([700, 3_000, 12_000]))
    events: list[PlannedEvent] = []
    live: list[PlannedEvent] = []
    for number in range(draw(st.integers(2, 14))):
        rule = draw(st.sampled_from(["own", "own", "own", "output"]))
        event = PlannedEvent(
            RuntimeEventAction.ALLOCATE,
            f"v{number}",
            number,
            rule,  # type: ignore[arg-type]
            draw(st.integers(1, most)),
            number,
            rule == "own",
        )
        events.append(event)
        live.append(event)
        while live:
            if draw(st.booleans()):
                break
            gone = live[draw(st.integers(0, len(live) - 1))]
            if gone.rule == "output":
                break
            live.remove(gone)
            events.append(dataclasses.replace(gone, action=RuntimeEventAction.FREE, node=number))
    ends = sorted(live, key=lambda event: event.rule == "output")
    events += [
        dataclasses.replace(event, action=RuntimeEventAction.FREE, node=NO_NODE) for event in ends
    ]
    reserved = draw(st.sampled_from([0, 8, 5_000]))
    runs = draw(st.integers(1, 3))
    return session_of(reserved_events({"w": reserved}), [(0, tuple(events))] * runs)


@settings(max_examples=60, deadline=None)
@given(
    sessions(),
    st.sampled_from(["kNextPowerOfTwo", "kSameAsRequested"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 255),
)
def test_every_limit_one_by_one(
    session: Session, strategy: str, shrink: bool, keep: bool, offset: int
) -> None:
    options: Mapping[str, Any] = {"shrink": shrink, "keep_results": keep}
    limits = limits_of(session, strategy, **options)
    last = limits.least + 20_000
    for limit in range(1 + offset, last, 256):
        arena = onp.BFCArena(limit, strategy)  # type: ignore[arg-type]
        works = replay(session, arena, **options).works
        assert works == (arena.is_void or limits.works(limit)), limit
    each = scan_runs(session, lambda limit: onp.BFCArena(limit, strategy), **options)  # type: ignore[arg-type]
    for runs, one_of in enumerate(each, 1):
        assert one_of == limits_of(session.first(runs), strategy, **options)
    assert limits.works(limits.least)
    assert limits.least == 1 or not limits.works(limits.least - 1)
    for one in limits.ranges:
        edges = [one.first - 1, one.first, *([one.last, one.last + 1] if one.last else [])]
        for limit in edges:
            if limit > 0:
                arena = onp.BFCArena(limit, strategy)  # type: ignore[arg-type]
                works = replay(session, arena, **options).works
                assert works == (arena.is_void or limits.works(limit))


def test_a_block_that_cannot_be_had_is_done_without() -> None:
    session = session_for(CHAIN, 0, 2)
    arena = onp.BFCArena(8192, "kSameAsRequested")
    outcome = replay(session, arena)
    assert outcome.works
    assert outcome.lost_blocks == (1,)
    # With doubling the block is had, and the result finds nothing left.
    outcome = replay(session, onp.BFCArena(8192))
    assert outcome.refusal is not None
    assert (outcome.refusal.run, outcome.refusal.event.value) == (1, "y")
    assert (
        "Available memory of 0 is smaller than requested bytes of 4096" in outcome.refusal.message
    )


def test_scratch_is_part_of_it() -> None:
    model = load_model(HEAD + CHAIN)
    plan = plan_allocation(model)
    sizes = dict.fromkeys(["a", "b", "c", "y"], 4096)
    events = run_events(plan, sizes, scratch={1: [Scratch(65536)]}).events
    session = session_of((), [(0, events)])
    # b takes what is left of a region of 65,536; a and the scratch need a chunk each.
    assert limits_of(session, "kSameAsRequested").least == 4096 + 4096 + 65536
