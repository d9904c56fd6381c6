"""Branches, loops, functions, sequences: what they give, and what their bodies hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan import GraphPlan, build_plan
from onnx_notebook_profiler.symbolic.shapes import Inferred, UnknownSize, ValueType
from tests.symbolic.checking import inferred, verdict
from tests.symbolic.rows import computed, graph


def shape(found: Inferred, name: str) -> list[str] | None:
    kind = found.types[name]
    return [str(size) for size in kind.shape] if isinstance(kind, ValueType) else None


def reason(found: Inferred, name: str) -> str:
    kind = found.types[name]
    assert isinstance(kind, UnknownSize)
    return kind.reason


BRANCHES = (
    "g (bool c, float[N,4] X) => (Y) {{ Y = If (c) <"
    " then_branch = t () => (a) {{ a = Neg(X) }}, else_branch = e () => (b) {{ {} }}> }}"
)


def test_branches_that_agree() -> None:
    found = inferred(graph(BRANCHES.format("d = Abs(X) b = Exp(d)")))
    assert shape(found, "Y") == ["N", "4"]
    assert shape(found.bodies[0, "else_branch"], "d") == ["N", "4"]
    assert set(found.bodies) == {(0, "then_branch"), (0, "else_branch")}


def test_branches_that_differ() -> None:
    found = inferred(graph(BRANCHES.format("b = Concat<axis=0>(X, X)")))
    assert "the branches of an If give different shapes: [N, 4] or [2*N, 4]" in reason(found, "Y")
    found = inferred(graph(BRANCHES.format("b = Flatten<axis=0>(X)")))
    assert shape(found, "Y") is None
    found = inferred(graph(BRANCHES.format("b = Size(X)")))
    assert shape(found, "Y") is None


def test_a_known_condition_chooses() -> None:
    text = (
        "g (float[N,4] X) => (Y) <int64 four = {4}, int64[1] last = {1}> {"
        " s = Shape(X) n = Gather(s, last) one = Squeeze(n) c = Equal(one, four) Y = If (c) <"
        " then_branch = t () => (a) { a = Concat<axis=1>(X, X) },"
        " else_branch = e () => (b) { b = Neg(X) }> }"
    )
    assert shape(inferred(graph(text)), "Y") == ["N", "8"]


LOOP = (
    "g (int64 m, bool go, float[N,3] X) => (Y, S) {{ Y, S = Loop (m, go, X) <body = b"
    " (int64 i, bool c, float[K,L] s) => (d, t, u) {{ d = Identity(c) {} }}> }}"
)


def run(model: ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    names = [output.name for output in model.graph.output]
    return dict(zip(names, onp.ReferenceEvaluator(model).run(names, feeds), strict=True))


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_state_that_keeps_its_shape(trips: int) -> None:
    model = graph(LOOP.format("t = Neg(s) u = Concat<axis=1>(t, s)"))
    found = inferred(model)
    feeds = {"m": np.array(trips), "go": np.array(True), "X": np.ones((2, 3), np.float32)}
    results = run(model, feeds)
    assert verdict(found, "Y", results["Y"], {"N": 2}) == "right"
    assert shape(found, "S") == ["S.0", "N", "6"]
    assert found.data_dims["S.0"].op == "Loop"
    if trips:  # a loop without iterations stacks nothing that has a shape
        assert verdict(found, "S", results["S"], {"N": 2}) == "data"
    body = found.bodies[0, "body"]
    assert shape(body, "s") == ["N", "3"]
    assert shape(body, "u") == ["N", "6"]
    assert shape(body, "i") == []


def test_state_that_grows() -> None:
    found = inferred(graph(LOOP.format("t = Concat<axis=0>(s, X) u = Neg(t)")))
    assert "each iteration changes it" in reason(found, "Y")
    assert shape(found, "S") is None
    body = found.bodies[0, "body"]
    assert shape(body, "s") is None


def test_state_that_changes_its_rank() -> None:
    found = inferred(graph(LOOP.format("t = Flatten<axis=0>(s) u = ReduceSum<keepdims=0>(t)")))
    assert shape(found, "Y") is None
    found = inferred(graph(LOOP.format("t = ReduceSum<keepdims=0>(s) u = Neg(t)")))
    assert reason(found, "Y") == "each iteration changes its shape"


def test_trips_that_are_known() -> None:
    text = (
        "g (float[N,3] X) => (S) <bool go = {1}, int64[1] first = {0}> {"
        " s = Shape(X) n = Gather(s, first) m = Squeeze(n) S = Loop (m, go) <body = b"
        " (int64 i, bool c) => (c, u) { u = Gather(X, i) }> }"
    )
    model = graph(text)
    found = inferred(model)
    assert shape(found, "S") == ["N", "3"]
    results = run(model, {"X": np.ones((4, 3), np.float32)})
    assert verdict(found, "S", results["S"], {"N": 4}) == "right"


def test_what_data_decides_in_an_iteration_is_not_passed_on() -> None:
    found = inferred(graph(LOOP.format("t = Neg(s) z = NonZero(s) u = Cast<to=1>(z)")))
    assert shape(found, "S") is None
    assert shape(found, "Y") == ["N", "3"]
    assert len(found.bodies[0, "body"].data_dims) == 1


def test_scan() -> None:
    text = (
        "g (float[N] I, float[T,N,2] X) => (F, S) { F, S = Scan (I, X) <num_scan_inputs = 1,"
        " scan_input_axes = [0], scan_output_axes = [1], body = b (float[K] s, float[K,2] x) => (t, u)"
        " { r = ReduceSum<keepdims=0>(x) t = Add(s, r) u = Unsqueeze(t, z) } > }"
    ).replace("float[T,N,2] X) =>", "float[T,N,2] X, int64[1] z) =>")
    found = inferred(graph(text))
    assert shape(found, "F") == ["N"]
    assert shape(found.bodies[0, "body"], "x") == ["N", "2"]


FUNCTION = (
    '<ir_version: 10, opset_import: ["" : 18, "f" : 1]>\n'
    "g (float[N,4] X) => (Y, Z) { Y = f.twice <axis = 0> (X) Z = f.twice <axis = 1> (X) }\n"
    '<domain: "f", opset_import: ["" : 18]> twice <axis> (x) => (y)'
    " { a = Neg(x) y = Concat <axis: int = @axis> (a, x) }"
)


def test_calls_are_gone_through_one_by_one() -> None:
    found = inferred(FUNCTION)
    assert shape(found, "Y") == ["2*N", "4"]
    assert shape(found, "Z") == ["N", "8"]
    assert set(found.bodies) == {(0, "twice"), (1, "twice")}
    for body in found.bodies.values():
        assert shape(body, "a") == ["N", "4"]


def test_what_data_decides_in_a_function() -> None:
    text = FUNCTION.replace("a = Neg(x) y = Concat <axis: int = @axis> (a, x)", "y = NonZero(x)")
    found = inferred(text)
    shapes = [shape(found, name) for name in "YZ"]
    assert shapes[0] != shapes[1]
    assert {dim.value for dim in found.data_dims.values()} == {"Y", "Z"}


def bodies_of(plan: GraphPlan) -> Iterator[tuple[tuple[Any, ...], set[str]]]:
    for step in plan.steps:
        for body in step.bodies:
            yield ((step.index, body.name),), {n for s in body.plan.steps for n in s.node.output}
            for path, names in bodies_of(body.plan):
                yield ((step.index, body.name), *path), names


@pytest.mark.parametrize(
    "model",
    [graph(LOOP.format("t = Neg(s) u = Exp(t)")), graph(BRANCHES.format("b = Exp(X)")), FUNCTION],
)
def test_bodies_are_those_of_the_plan(model: Any) -> None:
    loaded = load_model(model)
    found = inferred(model)
    paths = dict(bodies_of(build_plan(loaded)))
    assert paths
    for path, names in paths.items():
        body = found
        for step in path:
            body = body.bodies[step]
        assert names <= body.types.keys() | {""}


def test_sequences() -> None:
    text = (
        "g (float[N,2] A, float[M,2] B) => (S, C, D) <int64 one = {1}> {"
        " q = SequenceConstruct(A, B) r = SequenceInsert(q, A) S = SequenceAt(r, one)"
        " C = ConcatFromSequence<axis=0>(r) e = SequenceErase(r, one)"
        " D = ConcatFromSequence<axis=0, new_axis=1>(e) }"
    )
    model = graph(text)
    found = inferred(model)
    assert shape(found, "S") == ["M", "2"]
    assert shape(found, "D") == ["2", "N", "2"]
    sizes = {"N": 3, "M": 5}
    feeds = {name: np.ones((sizes[dim], 2), np.float32) for name, dim in (("A", "N"), ("B", "M"))}
    for name, value in run(model, feeds).items():
        assert verdict(found, name, value, sizes) == "right"


# names that strangers chose


@pytest.mark.parametrize("name", ["__import__('os')", "a b;c", "1/0", "N", "é" * 200, "x.y", "?0"])
def test_names_of_what_data_decides(name: str) -> None:
    node = helper.make_node("NonZero", ["X"], [name])
    again = helper.make_node("NonZero", [name], ["Z"])
    model = helper.make_model(
        helper.make_graph(
            [node, again],
            "g",
            [helper.make_tensor_value_info("X", 1, ["N", f"{name}.1"])],
            [helper.make_empty_tensor_value_info("Z")],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    found = inferred(model)
    names = list(found.data_dims)
    assert len(names) == 2
    for one in names:
        assert one.replace(".", "_").isidentifier()
        assert one.isascii()
        assert one not in computed(model).dims
    assert shape(found, name) == ["2", names[0]]


def test_sizes_that_data_decides_stay_unknown_in_the_account() -> None:
    context = computed(graph("g (float[N] X) => (Y) { I = NonZero(X) Y = Cast<to=1>(I) }"))
    assert [(one.value, one.reason) for one in context.unknown] == [
        ("I", "its size is decided by data: I.1"),
        ("Y", "its size is decided by data: I.1"),
    ]
    assert context.dims == ("N",)
