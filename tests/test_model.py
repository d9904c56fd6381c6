"""Reading models from whatever people have, refusing what is not well formed, and generated feeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from onnx_notebook_profiler.errors import FeedError, ModelError
from onnx_notebook_profiler.model import (
    all_nodes,
    body_graphs,
    describe_node,
    generate_feed,
    graph_inputs,
    load_model,
    shorten,
)
from tests.models import mul_add_model

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
GRAPH = "g (float[N] x) => (float[N] y) { y = Abs(x) }"


@pytest.mark.filterwarnings("ignore:The onnxtxt format")
def test_every_source(tmp_path: Any) -> None:
    model = mul_add_model()
    path = tmp_path / "a model.onnx"
    onnx.save(model, path)
    as_text = tmp_path / "model.onnxtxt"
    onnx.save(model, as_text)
    for source, name, folder in (
        (path, "a model", tmp_path),
        (str(path), "a model", tmp_path),
        (as_text, "model", tmp_path),
        (model, "agraph", None),
        (model.SerializeToString(), "agraph", None),
        (model.graph, "agraph", None),
        (HEAD + GRAPH, "g", None),
        (GRAPH, "g", None),
    ):
        loaded = load_model(source)
        assert (loaded.name, loaded.folder) == (name, folder)
        assert loaded.proto.graph.node[0].op_type in ("Mul", "Abs")


def test_nodes_and_functions_become_models_without_types() -> None:
    node = helper.make_node("Clip", ["x", "", "x"], ["y", ""])
    loaded = load_model(node)
    assert [value.name for value in loaded.proto.graph.input] == ["x"]
    assert [value.name for value in loaded.proto.graph.output] == ["y"]
    assert loaded.opsets[""] == onnx.defs.onnx_opset_version()
    function = parser.parse_function(
        '<domain: "d", opset_import: ["" : 13]> F (a) => (b) { b = Abs(a) }'
    )
    loaded = load_model(function)
    assert (loaded.name, loaded.opsets[""]) == ("F", 13)


def test_opsets_are_one_for_each_domain_the_higher_one() -> None:
    model = mul_add_model()
    model.opset_import.add(domain="ai.onnx", version=20)
    model.opset_import.add(domain="d", version=3)
    assert load_model(model).opsets == {"": 20, "d": 3}
    del model.opset_import[:]
    assert load_model(model).opsets == {"": onnx.defs.onnx_opset_version()}
    model.ir_version = 2  # before opsets were invented
    assert load_model(model).opsets == {"": 1}


def test_functions_are_found_by_domain_and_name() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "d" : 1]> g (float[N] x) => (float[N] y) { y = d.F(x) }'
        '\n<domain: "d", opset_import: ["" : 18]> F (a) => (b) { b = Abs(a) }'
    )
    assert list(load_model(model).functions) == [("d", "F")]


def test_a_model_is_not_changed_by_loading() -> None:
    model = mul_add_model()
    before = model.SerializeToString(deterministic=True)
    load_model(model)
    load_model(model.graph)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no/such/file.onnx", "no model file at 'no/such/file.onnx'"),
        (b"garbage", "7 bytes are no serialized ONNX model"),
        (b"", "no graph"),
        ("g (float x) => { nonsense", "no ONNX model or graph"),
        (HEAD + "g ({", "no ONNX model or graph"),
        (onnx.ModelProto(), "no graph"),
        (42, "found int"),
        (None, "found NoneType"),
    ],
)
def test_sources_that_are_no_model(source: Any, words: Any) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_model(source)
    assert isinstance(caught.value, ValueError)


def test_files_that_are_no_model(tmp_path: Any) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"garbage")
    with pytest.raises(ModelError, match="can be read"):
        load_model(path)
    with pytest.raises(ModelError, match="no model file"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "g (float x) => (float y) { y = Abs(z) }",
            r"node 0 Abs in the main graph reads 'z', made by no node",
        ),
        (
            "g (float x) => (float y) { y = Abs(t) t = Neg(x) }",
            r"reads 't', made only by node 1 Neg.*sorted",
        ),
        ("g (float x) => (float y) { y = Abs(y) }", "cycles"),
        (
            "g (float x) => (float y) { y = Abs(x) y = Neg(x) }",
            r"node 1 Neg.*'y', which node 0 Abs",
        ),
        ("g (float x) => (float y) { x = Abs(x) y = Neg(x) }", "an input or initializer"),
        ("g (float x, float x) => (float y) { y = Abs(x) }", "2 inputs named 'x'"),
        ("g (float x) => (float y, float z) { y = Abs(x) }", r"output 'z', which no node"),
        (
            (
                "g (bool c, float x) => (float y) { y = If (c) <then_branch = t () => (float p) { p = Abs(q) },"
                " else_branch = e () => (float p) { p = Neg(x) }> }"
            ),
            r"node 0 Abs in then_branch of node 0 If.*reads 'q'",
        ),
        (
            (
                "g (bool c, float x) => (float y) { y = If (c) <then_branch = t () => (float p) { p = Abs(z) },"
                " else_branch = e () => (float p) { p = Neg(x) }> z = Abs(x) }"
            ),
            r"reads 'z', made by no node",
        ),
        (
            (
                "g (bool c, float x) => (float y) { y = If (c) <then_branch = t () => (float p) { q = Abs(x) },"
                " else_branch = e () => (float p) { p = Neg(x) }> }"
            ),
            r"then_branch of node 0 If declares output 'p'",
        ),
    ],
)
def test_models_that_are_not_well_formed(text: Any, words: Any) -> None:
    with pytest.raises(ModelError, match=words):
        load_model(text)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("b = Abs(c)", r"function 'F' reads 'c'"),
        ("c = Abs(a)", r"function 'F' declares output 'b'"),
    ],
)
def test_functions_that_are_not_well_formed(body: Any, words: Any) -> None:
    with pytest.raises(ModelError, match=words):
        load_model(
            '<ir_version: 10, opset_import: ["" : 18, "d" : 1]> g (float[N] x) => (float[N] y)'
            f'{{ y = d.F(x) }}\n<domain: "d", opset_import: ["" : 18]> F (a) => (b) {{ {body} }}'
        )


def test_bodies_may_use_what_was_made_before_them_and_outer_inputs() -> None:
    load_model(
        "g (bool c, float x) => (float y) { z = Abs(x) y = If (c) <"
        "then_branch = t () => (float z) { }, else_branch = e () => (float p) { p = Add(x, z) }> }"
    )


def test_inputs_with_an_initializer_need_no_feed() -> None:
    model = load_model(
        "g (float[1] x, float[1] w) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }"
    )
    assert [value.name for value in graph_inputs(model.proto.graph)] == ["x"]


NESTED = (
    "g (bool c, float x) => (float y) { a = Abs(x) y = If (c) <"
    "then_branch = t () => (float p) { p = If (c) <then_branch = tt () => (float q) { q = Exp(a) },"
    " else_branch = ee () => (float r) { r = Log(a) }> }, else_branch = e () => (float s) { s = Neg(x) }> }"
)


def test_nodes_of_bodies_come_after_their_owner() -> None:
    graph = load_model(NESTED).proto.graph
    assert [node.op_type for node in all_nodes(graph.node)] == [
        "Abs",
        "If",
        "If",
        "Exp",
        "Log",
        "Neg",
    ]
    assert list(body_graphs(graph.node[1])) == ["then_branch", "else_branch"]
    listed = helper.make_node("Op", [], ["y"], domain="d", bodies=[graph, graph])
    assert list(body_graphs(listed)) == ["bodies[0]", "bodies[1]"]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (helper.make_node("Conv", ["x"], ["y"]), "node 3 Conv"),
        (helper.make_node("Conv", ["x"], ["y"], domain="ai.onnx"), "node 3 Conv"),
        (helper.make_node("Conv", ["x"], ["y"], name="features.0"), "node 3 Conv 'features.0'"),
        (
            helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"),
            "node 3 com.microsoft::Gelu",
        ),
    ],
)
def test_how_messages_name_a_node(node: Any, text: Any) -> None:
    assert describe_node(3, node) == text


def test_names_in_messages_are_short_and_harmless() -> None:
    assert shorten("conv") == "'conv'"
    assert shorten("a\nb\x1b") == r"'a\nb\x1b'"
    long = shorten("start" + "x" * 1000 + "end")
    assert len(long) <= 63
    assert long.startswith("'start")
    assert long.endswith("end'")


def feed(text: str, shape: Any, **options: Any) -> Any:
    return generate_feed(
        load_model(f"g ({text} x) => (float y) {{ y = d.Op(x) }}").proto.graph.input[0],
        shape,
        **options,
    )


def test_generated_floats_are_deterministic_and_in_the_unit_interval() -> None:
    first = feed("float[N, 3]", (2, 3))
    assert (first.dtype, first.shape) == (np.float32, (2, 3))
    assert 0 <= first.min() < first.max() < 1
    np.testing.assert_array_equal(first, feed("float[N, 3]", (2, 3)))
    assert not np.array_equal(first, feed("float[N, 3]", (2, 3), seed=1))
    other = load_model("g (float[N] other) => (float y) { y = d.Op(other) }").proto.graph.input[0]
    assert not np.array_equal(feed("float[N]", (6,)), generate_feed(other, (6,)))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("int64", "int64"), ("int32", "int32"), ("uint8", "uint8"), ("bool", "bool")],
)
def test_generated_integers_are_ones(kind: Any, dtype: Any) -> None:
    value = feed(f"{kind}[N]", (4,))
    assert value.dtype == dtype
    assert value.tolist() == [1] * 4


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "double", "complex64", "float8e4m3fn"])
def test_generated_values_of_other_types(kind: Any) -> None:
    value = feed(f"{kind}[N]", (5,))
    code = TensorProto.DataType.Value(kind.upper())
    assert value.dtype == helper.tensor_dtype_to_np_dtype(code)
    assert value.shape == (5,)


def test_generated_strings_sequences_and_optional_values() -> None:
    assert feed("string[N]", (2,)).tolist() == ["a", "a"]
    sequence = feed("seq(float[N])", (2,))
    assert [one.shape for one in sequence] == [(2,)] * 3
    assert feed("optional(float[N])", (2,)).shape == (2,)
    assert feed("float", ()).shape == ()


def test_no_value_for_a_map_or_an_unknown_type() -> None:
    with pytest.raises(FeedError, match=r"'x'.*map_type"):
        feed("map(int64, float)", ())
    node = load_model(helper.make_node("Abs", ["x"], ["y"]))
    with pytest.raises(FeedError, match="'x' of type unknown"):
        generate_feed(node.proto.graph.input[0], ())
