"""The plan says what is a view of what; numpy says which values share bytes. Both must agree, in every graph."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.evaluator.frame import Frame
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.model import generate_feed, graph_inputs, load_model
from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.graph_plan import ABSENT
from tests.models import memory_demo_model, mul_add_model, packaged_model

Finished = list[tuple[GraphPlan, list[Any]]]


@pytest.fixture
def finished(monkeypatch: Any) -> Finished:
    """Plan and values of each graph, main or body, at the moment when its frame lets go of them."""
    found: Finished = []
    close = Frame.close

    def spy(frame: Frame) -> None:
        found.append((frame.program.plan, list(frame.values)))
        close(frame)

    monkeypatch.setattr(Frame, "close", spy)
    return found


def groups_of(plan: GraphPlan) -> list[int]:
    """For each slot the slot whose bytes it has, by the plan's views alone."""
    groups = list(range(plan.value_count))
    for step in plan.steps:
        for slot, view in zip(step.outputs, step.views, strict=True):
            if ABSENT not in (slot, view):
                groups[slot] = groups[step.inputs[view]]
    return groups


def assert_plan_is_what_numpy_did(plan: GraphPlan, values: Sequence[Any]) -> int:
    """Every pair of values that a node of *plan* touches; the number of pairs that share bytes."""
    groups, shared = groups_of(plan), 0
    outer = set(plan.inputs) | set(plan.captures)  # these may share bytes with each other
    borrowed = {plan.slots[name] for name in outer}
    for step in plan.steps:
        for slot in step.outputs:
            value = values[slot] if slot != ABSENT else None
            if not isinstance(value, np.ndarray) or value.size == 0:
                continue
            assert value.flags.c_contiguous
            assert value.flags.aligned
            for other in (*step.inputs, *step.outputs):
                source = values[other]
                if other in (ABSENT, slot) or not isinstance(source, np.ndarray):
                    continue
                expected = groups[slot] == groups[other]
                if not expected and {groups[slot], groups[other]} <= borrowed:
                    continue
                assert np.shares_memory(value, source) == expected, (step.index, step.node.op_type)
                shared += expected
    return shared + assert_bytes_of_groups_are_apart(plan, values, groups, borrowed)


def assert_bytes_of_groups_are_apart(
    plan: GraphPlan, values: Sequence[Any], groups: Sequence[int], borrowed: set[int]
) -> int:
    """No two groups overlap anywhere in memory; nothing is to be counted here."""
    spans = []
    for slot in range(plan.value_count):
        value = values[slot]
        if isinstance(value, np.ndarray) and value.size and groups[slot] not in borrowed:
            start = value.ctypes.data
            spans.append((start, start + value.nbytes, groups[slot]))
    spans.sort()
    for (_, end, group), (start, _, other) in itertools.pairwise(spans):
        assert group == other or start >= end
    return 0


def run_all(model: Any, feeds: Mapping[str, Any], finished: Finished) -> int:
    """Run with nothing released; the pairs that share bytes in all graphs."""
    finished.clear()
    ReferenceEvaluator(model, release_intermediates=False).run(None, feeds)
    return sum(assert_plan_is_what_numpy_did(plan, values) for plan, values in finished)


X = np.arange(12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize(
    ("line", "shared"),
    [
        ("b = Reshape(a, s)", 1),
        ("b = Squeeze(u)", 1),
        ("b = Unsqueeze(a, z)", 1),
        ("b = Flatten(a)", 1),
        ("b = Identity(a)", 1),
        ("b = Dropout(a)", 1),
        ("b, m = Dropout(a)", 1),
        ("b = Transpose(a)", 0),
        ("b = Transpose <perm = [0, 1]> (a)", 0),
        ("b = Slice(a, z, o)", 0),
        ("b = Expand(a, t)", 0),
        ("b, c = Split <axis = 0, num_outputs = 2> (a)", 0),
        ("b = Cast <to = 1> (a)", 0),
        ("b = Concat <axis = 0> (a)", 0),
        ("b = Gather(a, z)", 0),
        ("b = Sum(a)", 0),
        ("b = Tile(a, o2)", 0),
        ("b = Where(m0, a, a)", 0),
        ("b = Clip(a)", 0),
        ("b = Trilu(a)", 0),
        ("b = DepthToSpace <blocksize = 1> (v)", 0),
        ('b = Einsum <equation = "ij->ji"> (a)', 0),
        ("b = Reciprocal(a)", 0),
        ("b = ScatterND(a, i0, a0)", 0),
    ],
)
@pytest.mark.parametrize("use", ["y = Neg(b)", "y = Identity(b)", "y = Neg(x) q = Neg(b)"])
def test_operators(line: Any, shared: Any, use: Any, finished: Any) -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 18]>'
        "g (float[2, 6] x) => (float y) <int64[2] s = {3, 4}, int64[1] z = {0}, int64[1] o = {9},"
        " int64[2] t = {2, 6}, int64[2] o2 = {1, 1}, bool[1] m0 = {1}, int64[4] four = {1, 1, 2, 6},"
        " int64[1, 1] i0 = {0}, float[1, 6] a0 = {1, 2, 3, 4, 5, 6}>"
        f"{{ a = Abs(x) n = Neg(x) u = Unsqueeze(n, z) n2 = Exp(x) v = Reshape(n2, four) {line} {use} }}"
    )
    found = run_all(text, {"x": X}, finished)
    # u and v are views too; a last Identity is one more, and a pair is seen from the view's node
    assert found == 2 + shared + ("Identity" in use)


@pytest.mark.parametrize("source", ["x", "w"])
@pytest.mark.parametrize("line", ["y = Reshape(b, s)", "r = Reshape(b, s) y = Identity(r)"])
def test_outputs_rooted_in_borrowed_bytes(source: Any, line: Any, finished: Any) -> None:
    text = (
        "g (float[2, 6] x) => (float y) <int64[2] s = {3, 4}, float[12] w = {0,1,2,3,4,5,6,7,8,9,10,11}>"
        f"{{ b = Identity({source}) {line} }}"
    )
    assert run_all(text, {"x": X}, finished) == (2 if "r =" in line else 1)


def test_bodies(finished: Any) -> None:
    text = (
        "g (int64 n, bool go, float[2, 6] x) => (float y, float s) <int64[2] t = {3, 4}> { o = Abs(x)"
        " y, s = Loop(n, go, x) <body = b (int64 i, bool c, float[2, 6] v)"
        " => (bool d, float[2, 6] u, float[3, 4] e) {"
        "   d = Identity(c) r = Reshape(o, t) k = Neg(v) e = Reshape(k, t)"
        "   u = If (c) <then_branch = t1 () => (float p) { p = Identity(k) },"
        "               else_branch = e1 () => (float q) { q1 = Neg(k) q = Identity(q1) }> }> }"
    )
    assert run_all(text, {"n": np.array(2), "go": np.array(True), "x": X}, finished) >= 4
    assert len(finished) == 1 + 2 + 2


@pytest.mark.parametrize("model", [mul_add_model(), memory_demo_model()])
def test_seeds(model: Any, finished: Any) -> None:
    name = model.graph.input[0].name
    run_all(model, {name: np.ones((3, 4)[: 1 + (name == "X")], np.float32)}, finished)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("minilm", dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (2, 16))),
        ("magika", {"bytes": (2, 2048)}),
        ("silero", {"input": (1, 512), "state": (2, 1, 128), "sr": ()}),
        ("silero_sequence", {"input": (2, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    ],
)
def test_real_models(name: Any, shapes: Any, finished: Any) -> None:
    path = packaged_model(name)
    inputs = graph_inputs(load_model(path).proto.graph)
    feeds = {value.name: generate_feed(value, shapes[value.name]) for value in inputs}
    if "sr" in feeds:
        feeds["sr"] = np.array(16000)
    assert run_all(path, feeds, finished) >= 5
