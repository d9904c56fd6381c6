"""Everything that onnx.reference's evaluator accepts runs here too, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from onnx_notebook_profiler.errors import ModelError, UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from tests.models import add_chain_model, memory_demo_model, mul_add_model, packaged_model
from tests.oracles import assert_same, onnx_reference, ort

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2

FUNCTION = parser.parse_function(
    '<domain: "local", opset_import: ["" : 18]> F (a, b) => (c, d){ c = Add(a, b) d = Neg(c) }'
)
GRAPH_TEXT = "g (float[2, 3] a, float[2, 3] b) => (float[2, 3] c) { t = Add(a, b) c = Abs(t) }"


@pytest.mark.parametrize(
    ("model", "feeds"),
    [
        (mul_add_model(), {"x": np.arange(5, dtype=np.float32)}),
        (memory_demo_model(), {"X": np.arange(-6, 6, dtype=np.float32).reshape(3, 4)}),
        (add_chain_model(30), {"x": np.arange(4, dtype=np.float32)}),
        (memory_demo_model(), {"X": np.zeros((0, 4), np.float32)}),
    ],
)
def test_models_give_what_others_give(model: Any, feeds: Any) -> None:
    outputs = ReferenceEvaluator(model).run(None, feeds)
    assert_same(outputs, onnx_reference(model, feeds))
    assert_same(outputs, ort(model, feeds))


def test_bytes_and_paths(tmp_path: Any) -> None:
    model, feeds = mul_add_model(), {"x": np.arange(5, dtype=np.float32)}
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for source in (model.SerializeToString(), str(path), path):
        session = ReferenceEvaluator(source)
        np.testing.assert_array_equal(session.run(None, feeds)[0], 3 * feeds["x"])
    assert ReferenceEvaluator(path).model.name == "model"


def test_onnx_text_of_a_graph_and_of_a_model() -> None:
    for text in (GRAPH_TEXT, f'<ir_version: 10, opset_import: ["" : 18]>\n{GRAPH_TEXT}'):
        (c,) = ReferenceEvaluator(text).run(None, {"a": X, "b": X})
        np.testing.assert_array_equal(c, np.abs(2 * X))


def test_graphs() -> None:
    graph = parser.parse_graph(GRAPH_TEXT)
    (c,) = ReferenceEvaluator(graph).run(None, {"a": X, "b": X})
    np.testing.assert_array_equal(c, np.abs(2 * X))


def test_functions() -> None:
    session = ReferenceEvaluator(FUNCTION)
    assert (session.input_names, session.output_names) == (["a", "b"], ["c", "d"])
    assert_same(
        session.run(None, {"a": X, "b": X}),
        onnx.reference.ReferenceEvaluator(FUNCTION).run(None, {"a": X, "b": X}, attributes={}),
    )


def test_a_function_with_attributes_needs_a_caller() -> None:
    function = parser.parse_function(
        '<domain: "local", opset_import: ["" : 18]> F <k> (a) => (b) { b = Elu <alpha: float = @k> (a) }'
    )
    with pytest.raises(ModelError, match=r"\['k'\]"):
        ReferenceEvaluator(function)


@pytest.mark.parametrize(
    ("node", "feeds"),
    [
        (helper.make_node("Add", ["a", "b"], ["c"]), {"a": X, "b": X}),
        (helper.make_node("Add", ["a", "a"], ["c"]), {"a": X}),
        (helper.make_node("Clip", ["a", "", "hi"], ["c"]), {"a": X, "hi": np.float32(1)}),
        (
            helper.make_node("TopK", ["a", "k"], ["v", "i"], axis=1),
            {"a": X, "k": np.array([2])},
        ),
        (helper.make_node("Normalizer", ["a"], ["c"], domain="ai.onnx.ml", norm="L2"), {"a": X}),
        (helper.make_node("SequenceLength", ["s"], ["n"]), {"s": [X, X, X]}),
        (helper.make_node("SequenceConstruct", ["a", "b"], ["s"]), {"a": X, "b": X}),
    ],
)
def test_nodes(node: Any, feeds: Any) -> None:
    expected = onnx.reference.ReferenceEvaluator(node).run(None, feeds)
    assert_same(ReferenceEvaluator(node).run(None, feeds), expected)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("op_type", ["Abs", "HannWindow"])  # a kernel of ours, a class of onnx's
def test_both_names_of_the_default_domain(domain: Any, op_type: Any) -> None:
    node = helper.make_node(op_type, ["a"], ["c"], domain=domain)
    a = np.array(5, np.int32)
    session = ReferenceEvaluator(node, events_enabled=True)
    expected = onnx.reference.ReferenceEvaluator(helper.make_node(op_type, ["a"], ["c"])).run(
        None, {"a": a}
    )
    assert_same(session.run(None, {"a": a}), expected)
    assert session.events()[-1].op_domain == "ai.onnx"


def test_an_operator_nobody_has_is_named_before_anything_runs() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 18, "far.away" : 1]>'
        "g (float[N] x) => (float[N] y) { t = Abs(x) y = far.away.Op(t) }"
    )
    with pytest.raises(
        UnsupportedOperatorError, match=r"node 1 far\.away::Op.*no kernel"
    ) as caught:
        ReferenceEvaluator(text)
    assert isinstance(caught.value, NotImplementedError)


def test_a_real_model_gives_what_onnxruntime_gives() -> None:
    path = packaged_model("magika")
    feeds = {"bytes": np.random.default_rng(0).integers(0, 257, (2, 2048), dtype=np.int32)}
    outputs = ReferenceEvaluator(path).run(None, feeds)
    assert_same(outputs, ort(onnx.load(path), feeds), rtol=1e-4, atol=1e-6)
