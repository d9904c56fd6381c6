"""What values are for: shapes, axes, data. Every rule of the specification, by small graphs."""

from __future__ import annotations

import itertools

import pytest
from onnx import ModelProto, helper

from onnx_notebook_profiler.symbolic.tags import Tag, merge, tag_values
from tests.models import memory_demo_model
from tests.symbolic.rows import computed, graph

TAGS: tuple[Tag, ...] = ("", "weight", "shape", "axes", "ambiguous")

MERGED = {
    ("", "shape"): "shape",
    ("", "axes"): "axes",
    ("", "weight"): "weight",
    ("", "ambiguous"): "ambiguous",
    ("shape", "axes"): "ambiguous",
    ("shape", "ambiguous"): "ambiguous",
    ("axes", "shape"): "ambiguous",
    ("axes", "ambiguous"): "ambiguous",
    ("weight", "shape"): "shape",
    ("weight", "axes"): "axes",
    ("weight", "ambiguous"): "ambiguous",
}
"""The table of the specification; where it has a dash, the old tag stays."""


@pytest.mark.parametrize(("old", "new"), list(itertools.product(TAGS, TAGS)))
def test_merge(old: Tag, new: Tag) -> None:
    assert merge(old, new) == MERGED.get((old, new), old)


def tags(model: ModelProto) -> dict[str, Tag]:
    return tag_values(model.graph)[0]


def test_published_tags() -> None:
    values, nodes = tag_values(memory_demo_model().graph)
    assert values == {**dict.fromkeys("XWMCAZ", "weight"), "S": "shape"}
    assert nodes == ["weight", "weight", "shape", "weight", "weight"]


def test_shape_and_size_give_shapes() -> None:
    found = tags(graph("g (float[N] X) => (int64 b) { a = Shape(X) b = Size(X) }"))
    assert found == {"X": "weight", "a": "shape", "b": "shape"}


@pytest.mark.parametrize("op", ["Reshape", "Expand"])
def test_targets_of_reshape_and_expand_are_shapes(op: str) -> None:
    found = tags(graph(f"g (float[N] X, int64[1] s) => (Y) {{ Y = {op}(X, s) }}"))
    assert found == {"X": "weight", "s": "shape", "Y": "weight"}


def test_arguments_of_slice() -> None:
    found = tags(
        graph(
            "g (float[N] X, int64[1] a, int64[1] b, int64[1] c, int64[1] d) => (Y) "
            "{ Y = Slice(X, a, b, c, d) }"
        )
    )
    assert [found[name] for name in "abcd"] == ["shape", "shape", "axes", "shape"]


@pytest.mark.parametrize(
    "op", ["Squeeze", "Unsqueeze", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"]
)
def test_axes(op: str) -> None:
    found = tags(graph(f"g (float[N] X, int64[1] a) => (Y) {{ Y = {op}(X, a) }}"))
    assert found == {"X": "weight", "a": "axes", "Y": "weight"}


def test_shape_here_and_axes_there_is_ambiguous() -> None:
    found = tags(graph("g (float[N] X, int64[1] a) => (Z) { Y = Reshape(X, a) Z = Squeeze(Y, a) }"))
    assert found["a"] == "ambiguous"


def test_constants_take_the_tag_of_their_reader() -> None:
    model = graph(
        "g (float[N] X) => (Z) { c = Constant<value = int64[1] {4}>() "
        "w = Constant<value = float[1] {4}>() Y = Reshape(X, c) Z = Mul(Y, w) }"
    )
    values, nodes = tag_values(model.graph)
    assert values["c"] == "shape"
    assert values["w"] == "weight"
    assert nodes == ["shape", "weight", "weight", "weight"]


def test_tags_are_inherited_from_the_first_input() -> None:
    model = graph(
        "g (float[N] X, int64[1] i) => (d) { s = Shape(X) a = Gather(s, i) b = Cast<to=6>(a) "
        "c = Neg(b) d = Add(c, i) }"
    )
    found = tags(model)
    assert [found[name] for name in "sabcd"] == ["shape"] * 5
    assert found["i"] == "weight"


def test_concat() -> None:
    head = "g (float[N] X, int64[1] a) => (Z) { s = Shape(X) "
    weights = tags(graph(head + "Z = Concat<axis=0>(s, a) }"))
    assert weights["Z"] == "weight"
    # Passed back to every input: a shape stays one.
    assert weights["s"] == "shape"
    shapes = tags(graph(head + "t = Shape(a) Z = Concat<axis=0>(s, t) }"))
    assert shapes["Z"] == "shape"
    mixed = tags(graph(head + "Y = Squeeze(X, a) b = Neg(a) Z = Concat<axis=0>(s, b) }"))
    assert mixed["b"] == "axes"
    assert mixed["Z"] == "ambiguous"


@pytest.mark.parametrize(
    "op", ["Identity", "Cast<to=7>", "Squeeze", "Gather", "Slice", "Reshape", "Unsqueeze"]
)
def test_tags_travel_back_to_where_a_shape_comes_from(op: str) -> None:
    more = {"Gather": ", i", "Slice": ", i, i", "Reshape": ", i", "Unsqueeze": ", i"}.get(op, "")
    model = graph(
        f"g (float[N] X, int64[1] s, int64[1] i) => (Y) {{ t = {op}(s{more}) Y = Expand(X, t) }}"
    )
    assert tags(model)["s"] == "shape"


def test_tags_travel_back_through_concat() -> None:
    model = graph(
        "g (float[N] X, int64[1] a, int64[1] b) => (Y) "
        "{ t = Concat<axis=0>(a, b) Y = Expand(X, t) }"
    )
    found = tags(model)
    assert (found["a"], found["b"], found["t"]) == ("shape", "shape", "shape")


def test_arithmetic_passes_back_weights_alone() -> None:
    model = graph(
        "g (float[N] X, int64[1] a, int64[1] b) => (Y) { t = Add(a, b) Y = Expand(X, t) }"
    )
    found = tags(model)
    assert found["t"] == "shape"
    assert (found["a"], found["b"]) == ("weight", "weight")


def test_metadata_of_inputs_initializers_and_other_values() -> None:
    model = graph(
        "g (int64[1] a, int64[1] b) => (int64[1] y) <int64[1] w = {1}, int64[1] m> "
        "{ m = Add(w, a) y = Mul(m, b) }"
    )
    for value, text in (
        (model.graph.input[0], " SHAPE "),
        (model.graph.input[1], "nonsense"),
        (model.graph.initializer[0], "axes"),
        (model.graph.value_info[0], "shape"),
    ):
        helper.set_metadata_props(value, {"onnx_light.value_tag": text, "other": "shape"})
    found = tags(model)
    assert found["a"] == "shape"
    assert found["b"] == "weight"  # an unknown word is ignored
    assert found["w"] == "axes"
    assert found["m"] == "ambiguous"  # declared a shape, made of axes
    assert found["y"] == "ambiguous"


def test_tags_reach_the_buckets() -> None:
    context = computed(
        graph(
            "g (float[N] X, int64[1] a) => (Z) { s = Shape(X) Y = Squeeze(X, a) Z = Expand(Y, s) }"
        )
    )
    assert context.memory[2]["inputs"] == {"axes": 8, "weight": "4*N"}
    assert context.memory[2]["intermediates"]["shape"] == 8
    assert [context.node_tag(i) for i in range(3)] == ["shape", "weight", "weight"]


def test_bodies_are_not_visited_and_long_chains_end() -> None:
    nodes = [helper.make_node("Identity", [f"v{i}"], [f"v{i + 1}"]) for i in range(300)]
    nodes.append(helper.make_node("Reshape", ["X", "v300"], ["Y"]))
    value = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [value("X", 1, ["N"]), value("v0", 7, [1])],
            [value("Y", 1, None)],
        )
    )
    found = tags(model)
    assert {found[f"v{i}"] for i in range(301)} == {"shape"}
