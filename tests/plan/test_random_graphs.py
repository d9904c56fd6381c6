"""Random small graphs: what the plan decides against brute force, what the evaluator does against onnx.reference."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from tests.memory_truth import TruthRun
from tests.oracles import assert_same, onnx_reference

SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1)]
VIEWS = ("Reshape", "Identity")


@dataclasses.dataclass
class Drawn:
    """A graph and what the brute force needs to know of it."""

    model: ModelProto
    nodes: list[tuple[str, list[str], str]]  # operator, inputs that hold data, output
    outputs: list[str]
    shapes: dict[str, tuple[int, ...]]
    borrowed: list[str]


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 3), "y": (6,), "w": (2, 3)}
    nodes: list[tuple[str, list[str], str]] = []
    protos, constants = (
        [],
        [numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w")],
    )
    for number in range(draw(st.integers(1, 12))):
        name = f"v{number}"
        op_type = draw(st.sampled_from(["Add", "Abs", "Reshape", "Identity", "Concat"]))
        first = draw(st.sampled_from(list(shapes)))
        inputs, shape, extra = [first], shapes[first], list[str]()
        if op_type == "Add":
            inputs.append(draw(st.sampled_from([n for n in shapes if shapes[n] == shape])))
        elif op_type == "Concat":
            same = [n for n in shapes if shapes[n][1:] == shape[1:] and math.prod(shapes[n]) < 50]
            inputs = (
                draw(st.lists(st.sampled_from(same), min_size=1, max_size=3)) if same else inputs
            )
            shape = (sum(shapes[n][0] for n in inputs), *shapes[inputs[0]][1:])
        elif op_type == "Reshape":
            size = math.prod(shape)
            shape = draw(st.sampled_from([(size,), (1, size), (size // 2, 2), (size // 3, 3)]))
            constants.append(numpy_helper.from_array(np.array(shape, np.int64), f"s{number}"))
            extra = [f"s{number}"]
        protos.append(helper.make_node(op_type, [*inputs, *extra], [name]))
        if op_type == "Concat":
            protos[-1].attribute.append(helper.make_attribute("axis", 0))
        nodes.append((op_type, inputs, name))
        shapes[name] = shape
    names = [name for name in shapes if name != "y"]
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    graph = helper.make_graph(
        protos,
        "random",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in ("x", "y")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in outputs],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    borrowed = ["x", "y", *(tensor.name for tensor in constants)]
    return Drawn(model, nodes, outputs, shapes, borrowed)


FEEDS = {
    "x": np.array([[-1, 2, -3], [4, -5, 6]], np.float32),
    "y": np.array([7, -8, 9, -10, 11, -12], np.float32),
}


def expected_bytes(drawn: Drawn) -> list[tuple[int, int]]:
    """Execution and io bytes at each node, weights apart, straight from the rules of the accounts.

    A view shares its base, unless it is an output whose base is borrowed. Whatever shares bytes with an output lives
    from birth to the end, in the io account; all else from birth to its last reader, or to its own node without one.
    """
    base = {name: name for name in drawn.borrowed}
    for op_type, inputs, output in drawn.nodes:
        shares = op_type in VIEWS and not (
            base[inputs[0]] in drawn.borrowed and output in drawn.outputs
        )
        base[output] = base[inputs[0]] if shares else output
    born = {output: index for index, (_, _, output) in enumerate(drawn.nodes)}
    last = dict(born)
    for index, (_, inputs, _) in enumerate(drawn.nodes):
        last.update((name, index) for name in inputs if name in born)
    totals = []
    for index in range(len(drawn.nodes)):
        execution = io = 0
        for owner, start in born.items():
            members = [name for name in born if base[name] == owner]
            if base[owner] != owner or start > index:
                continue
            size = 4 * math.prod(drawn.shapes[owner])
            if any(name in drawn.outputs for name in members):
                io += size
            elif max(last[name] for name in members) >= index:
                execution += size
        totals.append((execution, io))
    return totals


def assert_nothing_released_is_read(events: list[RuntimeEvent], drawn: Drawn) -> None:
    gone: list[str] = []
    for event in events:
        if event.action == RuntimeEventAction.REMOVE:
            gone.append(event.name)
        elif event.action == RuntimeEventAction.RUN_NODE:
            assert not set(event.inputs) & set(gone)
    inside = [output for _, _, output in drawn.nodes if output not in drawn.outputs]
    assert sorted(gone) == sorted(inside)  # each once, none forgotten


def assert_outputs_are_the_callers(truth: TruthRun, drawn: Drawn, expected: list[Any]) -> None:
    """Spoil what came out: neither feeds nor weights nor the next run may notice."""
    outputs = truth.run(FEEDS)
    assert_same(outputs, expected)
    for value in outputs:
        value[...] = 99
    assert_same(truth.run(FEEDS), expected)
    assert FEEDS["x"][1, 2] == 6
    assert FEEDS["y"][5] == -12


@given(graphs())
@settings(max_examples=150)
def test_a_random_graph(drawn: Drawn) -> None:
    truth = TruthRun(drawn.model)
    seen: list[RuntimeEvent] = []
    truth.evaluator.log.subscribe(seen.append)
    expected = onnx_reference(drawn.model, FEEDS)
    assert_same(truth.run(FEEDS), expected)
    assert all(event.allocated_bytes >= 0 and event.io_allocated_bytes >= 0 for event in seen)
    weights = sum(numpy_helper.to_array(one).nbytes for one in drawn.model.graph.initializer)
    nodes = [event for event in seen if event.action == RuntimeEventAction.RUN_NODE]
    assert [(e.allocated_bytes - weights, e.io_allocated_bytes) for e in nodes] == expected_bytes(
        drawn
    )
    assert truth.execution.total_allocated_size == weights
    assert truth.execution.allocated_count == len(drawn.model.graph.initializer)
    assert_nothing_released_is_read(seen, drawn)
    assert_outputs_are_the_callers(truth, drawn, expected)
    assert not truth.differences, "\n".join(map(str, truth.differences))


@given(graphs())
@settings(max_examples=40)
def test_every_value_can_be_asked_for(drawn: Drawn) -> None:
    names = [output for _, _, output in drawn.nodes]
    everything = ModelProto()
    everything.CopyFrom(drawn.model)
    del everything.graph.output[:]
    for name in names:
        everything.graph.output.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, drawn.shapes[name])
        )
    truth = TruthRun(drawn.model)
    assert_same(truth.run(FEEDS, names), onnx_reference(everything, FEEDS))
    assert not truth.differences, "\n".join(map(str, truth.differences))
    assert not [
        e for e in truth.evaluator.events() if e.action == RuntimeEventAction.REMOVE
    ] or set(names) <= set(drawn.outputs)
