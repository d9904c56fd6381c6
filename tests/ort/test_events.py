"""Event streams counted by hand, with the figures of onnxruntime's own runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from onnx import TensorProto

from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import INITIALIZER_NODE, NO_NODE
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.events import (
    PlannedEvent,
    Scratch,
    place_events,
    request_bytes,
    reserved_events,
    run_events,
    runs_events,
)
from onnx_notebook_profiler.ort.pattern import pattern_key
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan, plan_allocation
from tests.models import text_model

ALLOCATE, FREE = RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE


def planned(text: str) -> AllocationPlan:
    return plan_allocation(
        load_model(text_model(f'<ir_version: 10, opset_import: ["" : 18]> agraph {text}'))
    )


def chain() -> AllocationPlan:
    return planned(
        "(float[N,M] x) => (float[N,M] y) { a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c) }"
    )


def chain_sizes(n: int, m: int) -> dict[str, int]:
    return dict.fromkeys(("a", "b", "y"), 4 * n * m)


def rows(events: tuple[PlannedEvent, ...]) -> list[tuple[str, str, int, str, int]]:
    return [(one.action.label, one.value, one.node, one.rule, one.nbytes) for one in events]


def held_at_once(events: tuple[PlannedEvent, ...]) -> int:
    held = most = 0
    for event in events:
        held += event.nbytes if event.action is ALLOCATE else -event.nbytes
        most = max(most, held)
    assert held == 0
    return most


def test_first_run_of_a_chain() -> None:
    # c takes a's buffer; at [16, 64] each value has 4,096 bytes.
    run = run_events(chain(), chain_sizes(16, 64))
    assert rows(run.events) == [
        ("allocate", "a", 0, "own", 4096),
        ("allocate", "b", 1, "own", 4096),
        ("free", "b", 2, "own", 4096),
        ("allocate", "y", 3, "output", 4096),
        ("free", "a", 3, "own", 4096),
        ("free", "y", NO_NODE, "output", 4096),
    ]


def test_later_runs_take_one_block() -> None:
    first, second, third = runs_events(chain(), [(80, chain_sizes(16, 64))] * 3)
    assert first.pattern.peak == 0
    assert rows(second.events) == [
        ("allocate", "", NO_NODE, "pattern", 8192),
        ("allocate", "y", 3, "output", 4096),
        ("free", "", NO_NODE, "pattern", 8192),
        ("free", "y", NO_NODE, "output", 4096),
    ]
    assert third.events == second.events


def test_without_patterns_all_runs_are_as_the_first() -> None:
    first, second = runs_events(chain(), [(80, chain_sizes(16, 64))] * 2, use_patterns=False)
    assert first.events == second.events


def test_a_foreign_pattern_holds_its_block_beside_the_values() -> None:
    # Square inputs share key 0: under [32, 32]'s pattern an [8, 8] input holds 8,192 bytes for nothing.
    sizes = [(32, 32), (8, 8)]
    assert [pattern_key([shape]) for shape in sizes] == [0, 0]
    _, second = runs_events(chain(), [(0, chain_sizes(*shape)) for shape in sizes])
    assert held_at_once(second.events) == 8192 + 2 * 256
    assert held_at_once(run_events(chain(), chain_sizes(8, 8)).events) == 512


def test_values_nobody_reads_go_at_the_end_the_last_first() -> None:
    plan = planned(
        "(float[8] x) => (float[8] y) { a = Exp(x) b = Transpose(a) c = Shape(a) y = Sqrt(a) }"
    )
    # The output's chain runs first; then c and b, which stay.
    events = run_events(plan, {"a": 32, "b": 32, "c": 8, "y": 32}).events
    assert [(one.action.label, one.value) for one in events] == [
        ("allocate", "a"),
        ("allocate", "y"),
        ("allocate", "c"),
        ("allocate", "b"),
        ("free", "a"),
        ("free", "c"),
        ("free", "b"),
        ("free", "y"),
    ]


def test_nobody_is_asked_for_nothing() -> None:
    assert run_events(chain(), chain_sizes(0, 64)).events == ()


def test_scratch_comes_and_goes_within_its_node() -> None:
    scratch = {1: [Scratch(100), Scratch(7, before_outputs=True)]}
    events = run_events(chain(), chain_sizes(1, 1), scratch=scratch).events
    found = [(one.action.label, one.rule, one.nbytes) for one in events if one.node == 1]
    assert found == [
        ("allocate", "scratch", 7),
        ("allocate", "own", 4),
        ("allocate", "scratch", 100),
        ("free", "scratch", 100),
        ("free", "scratch", 7),
    ]


@pytest.mark.parametrize(
    ("data_type", "shape", "nbytes"),
    [
        (TensorProto.FLOAT, (3, 5), 60),
        (TensorProto.FLOAT, (), 4),
        (TensorProto.DOUBLE, (0, 5), 0),
        (TensorProto.INT4, (3,), 2),
        (TensorProto.STRING, (157,), 5024),
    ],
)
def test_bytes_of_a_request(data_type: int, shape: tuple[int, ...], nbytes: int) -> None:
    assert request_bytes(data_type, shape) == nbytes


def test_strings_are_smaller_elsewhere() -> None:
    # 39 identifiers of the vectorizer: 157 strings of 24 bytes on macOS.
    assert request_bytes(TensorProto.STRING, (157,), string_bytes=24) == 3768


@dataclasses.dataclass
class Chunk:
    size: int


class Arena:
    """Hands out chunks of whole 256 bytes, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def allocate(self, nbytes: int, owner: str = "") -> Chunk:
        self.calls.append(("allocate", nbytes))
        return Chunk(-(-nbytes // 256) * 256)

    def free(self, handle: Chunk) -> None:
        self.calls.append(("free", handle.size))

    def reserve(self, nbytes: int, owner: str = "") -> Chunk:
        self.calls.append(("reserve", nbytes))
        return Chunk(nbytes)


def test_an_arena_fills_in_chunk_and_padding() -> None:
    arena = Arena()
    events = (*reserved_events({"w": 40}), *run_events(chain(), chain_sizes(3, 25)).events)
    placed = list(place_events(events, arena))
    assert placed[0].padding == 0
    assert placed[0].node == INITIALIZER_NODE
    assert {one.padding for one in placed[1:]} == {512 - 300}
    assert arena.calls == [
        ("reserve", 40),
        ("allocate", 300),
        ("allocate", 300),
        ("free", 512),
        ("allocate", 300),
        ("free", 512),
        ("free", 512),
    ]
    by_number: Mapping[int, Chunk] = {one.number: one.chunk for one in placed[1:]}
    assert all(one.chunk is by_number[one.number] for one in placed[1:])
