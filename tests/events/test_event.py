"""One event: the enumeration, the keys of `as_dict` and every form of `summary`, as the specification prints them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction

A = RuntimeEventAction

# The 21 keys in the order in which onnx-light prints them.
KEYS = [
    "action",
    "kind",
    "timestamp_ns",
    "name",
    "data_type",
    "shape",
    "value_count",
    "op_domain",
    "op_type",
    "inputs",
    "duration_ns",
    "cpu_executor_instance_id",
    "cpu_effective_threads",
    "node_index",
    "device",
    "subgraph_node_index",
    "subgraph_attr_name",
    "allocated_bytes",
    "peak_bytes",
    "values",
    "string_values",
]


def node_event(**fields: Any) -> Any:
    return RuntimeEvent(
        action=A.RUN_NODE,
        op_domain="ai.onnx",
        duration_ns=12,
        allocated_bytes=4100,
        peak_bytes=4100,
        **fields,
    )


@pytest.mark.parametrize(
    ("alias", "member", "number"),
    [
        ("kAdd", A.ADD, 0),
        ("kReplace", A.REPLACE, 1),
        ("kRemove", A.REMOVE, 2),
        ("kRunNode", A.RUN_NODE, 3),
    ],
)
def test_aliases_of_onnx_light_are_the_same_members(alias: Any, member: Any, number: Any) -> None:
    assert getattr(A, alias) is member
    assert member == number


@pytest.mark.parametrize(
    ("member", "label"),
    [
        (A.ADD, "add"),
        (A.REPLACE, "replace"),
        (A.REMOVE, "remove"),
        (A.RUN_NODE, "run_node"),
        (A.FAIL_NODE, "fail_node"),
        (A.ALLOCATE, "allocate"),
        (A.FREE, "free"),
        (A.RESERVE, "reserve"),
    ],
)
def test_labels(member: Any, label: Any) -> None:
    assert member.label == label


def test_our_own_actions_leave_room_for_those_of_onnx_light() -> None:
    assert min(A.FAIL_NODE, A.ALLOCATE, A.FREE, A.RESERVE) > 4  # 4 is its persistent_storage
    assert len({int(member) for member in A}) == len(A)


@pytest.mark.parametrize("action", [A.ADD, A.REPLACE, A.REMOVE, A.RUN_NODE, A.FAIL_NODE])
def test_keys_of_as_dict(action: Any) -> None:
    assert list(RuntimeEvent(action=action).as_dict()) == KEYS


@pytest.mark.parametrize("action", [A.ALLOCATE, A.FREE, A.RESERVE])
def test_allocator_events_append_their_keys(action: Any) -> None:
    row = RuntimeEvent(action=action, nbytes=12, buffer=3, owner="z").as_dict()
    assert list(row) == [*KEYS, "nbytes", "buffer", "owner"]
    assert (row["nbytes"], row["buffer"], row["owner"]) == (12, 3, "z")


def test_as_dict_has_plain_values() -> None:
    event = RuntimeEvent(
        action=A.ADD, kind="input", shape=(2,), inputs=("a",), values=(1.0, 2.0), string_values=()
    )
    row = event.as_dict()
    assert (row["action"], row["kind"]) == ("add", "input")
    assert (row["shape"], row["inputs"], row["values"]) == ([2], ["a"], [1.0, 2.0])
    assert type(row["action"]) is str
    assert json.loads(json.dumps(row)) == row


def test_defaults_are_those_of_the_specification() -> None:
    row = RuntimeEvent(action=A.REMOVE, name="z").as_dict()
    assert row["kind"] == "unknown"
    assert (row["data_type"], row["shape"], row["value_count"]) == (0, [], 0)
    assert (row["node_index"], row["device"], row["subgraph_node_index"]) == (-1, -1, -1)
    assert (row["subgraph_attr_name"], row["duration_ns"]) == ("", 0)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RuntimeEvent(action=A.ADD, kind="input", name="x"), "[add/input] 'x' mem=0B peak=0B"),
        (
            RuntimeEvent(
                action=A.ADD,
                kind="initializer",
                name="two",
                node_index=-2,
                allocated_bytes=4,
                peak_bytes=4,
            ),
            "[add/initializer] 'two' mem=4B peak=4B",
        ),
        (
            RuntimeEvent(
                action=A.ADD,
                kind="intermediate",
                name="z",
                node_index=0,
                allocated_bytes=4100,
                peak_bytes=4100,
            ),
            "[add/intermediate] 'z' node#0 mem=4100B peak=4100B",
        ),
        (
            RuntimeEvent(
                action=A.REPLACE,
                kind="intermediate",
                name="z",
                node_index=3,
                allocated_bytes=8,
                peak_bytes=9,
            ),
            "[replace/intermediate] 'z' node#3 mem=8B peak=9B",
        ),
        (
            node_event(
                op_type="Mul",
                inputs=("x", "two"),
                node_index=0,
                cpu_executor_instance_id=4,
                cpu_effective_threads=2,
            ),
            "[run_node/unknown] ai.onnx::Mul(x, two) node#0 took 12ns executor#4/2 mem=4100B peak=4100B",
        ),
        (
            node_event(
                op_type="Clip",
                inputs=("x", "", "hi"),
                node_index=2,
                cpu_executor_instance_id=4,
                cpu_effective_threads=2,
            ),
            "[run_node/unknown] ai.onnx::Clip(x, , hi) node#2 took 12ns executor#4/2 mem=4100B peak=4100B",
        ),
        (
            dataclasses.replace(
                node_event(op_type="Op", inputs=("x",), node_index=1), op_domain="my.dom"
            ),
            "[run_node/unknown] my.dom::Op(x) node#1 took 12ns mem=4100B peak=4100B",
        ),
        (
            dataclasses.replace(node_event(op_type="Op", node_index=1), op_domain=""),
            "[run_node/unknown] Op() node#1 took 12ns mem=4100B peak=4100B",
        ),
        (
            RuntimeEvent(action=A.ADD, kind="output", name="y", node_index=1, peak_bytes=7),
            "[add/output] 'y' node#1 mem=0B peak=7B",
        ),
        (
            RuntimeEvent(action=A.REMOVE, name="z", allocated_bytes=4, peak_bytes=4100),
            "[remove/unknown] 'z' mem=4B peak=4100B",
        ),
    ],
)
def test_summary(event: Any, line: Any) -> None:
    assert event.summary() == line


def test_the_body_is_not_printed() -> None:
    inside = RuntimeEvent(
        action=A.ADD,
        kind="input",
        name="x",
        subgraph_node_index=3,
        subgraph_attr_name="body",
        subgraph_path=((3, "body"),),
    )
    assert inside.summary() == "[add/input] 'x' mem=0B peak=0B"


def test_live_bytes_are_those_of_both_accounts() -> None:
    assert RuntimeEvent(action=A.ADD, allocated_bytes=5, io_allocated_bytes=7).live_bytes == 12


def test_events_are_values() -> None:
    event = RuntimeEvent(action=A.ADD, name="x")
    assert event == RuntimeEvent(action=A.ADD, name="x")
    assert hash(event) == hash(RuntimeEvent(action=A.ADD, name="x"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "y"  # type: ignore[misc]
