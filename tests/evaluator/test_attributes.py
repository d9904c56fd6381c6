"""Node attributes as plain values, with the defaults that the operator schemas state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, parser

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.evaluator.attributes import attribute_value, node_spec


def test_values_of_every_common_kind() -> None:
    graph = helper.make_graph([], "body", [], [])
    tensor = helper.make_tensor("t", TensorProto.INT32, [2], [5, -6])
    node = helper.make_node(
        "Op",
        ["x"],
        ["y"],
        domain="somewhere",
        number=3,
        real=0.5,
        text="wörd",
        numbers=[1, 2],
        reals=[0.25],
        texts=["a", "b"],
        tensor=tensor,
        tensors=[tensor],
        body=graph,
    )
    found = node_spec(node, 1).attributes
    assert found["number"] == 3
    assert found["real"] == 0.5
    assert found["text"] == "wörd"
    assert found["numbers"] == [1, 2]
    assert found["reals"] == [0.25]
    assert found["texts"] == ["a", "b"]
    np.testing.assert_array_equal(found["tensor"], np.array([5, -6], np.int32))
    assert found["tensor"].dtype == np.int32
    np.testing.assert_array_equal(found["tensors"][0], [5, -6])
    assert found["body"].name == "body"


def test_bytes_that_are_no_utf8_survive() -> None:
    node = helper.make_node("Op", [], ["y"], domain="d", text=b"\xff\x00a")
    text = node_spec(node, 1).attributes["text"]
    assert text.encode("utf-8", errors="surrogateescape") == b"\xff\x00a"


@pytest.mark.parametrize(
    ("op_type", "opset", "defaults"),
    [
        ("Gemm", 13, {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
        ("Gelu", 20, {"approximate": "none"}),
        ("Selu", 1, {"alpha": pytest.approx(1.6732), "gamma": pytest.approx(1.0507)}),
        ("Concat", 13, {}),  # axis is required and has no default
        ("Cast", 18, {}),
        ("Cast", 19, {"saturate": 1}),
        ("ReduceSum", 12, {"keepdims": 1}),  # axes: an attribute without default
        ("ReduceSum", 13, {"keepdims": 1, "noop_with_empty_axes": 0}),
    ],
)
def test_defaults_come_from_the_schema_of_the_opset(
    op_type: Any, opset: Any, defaults: Any
) -> None:
    assert dict(node_spec(helper.make_node(op_type, ["x"], ["y"]), opset).attributes) == defaults


def test_a_given_value_wins_over_the_default() -> None:
    assert (
        node_spec(helper.make_node("Gemm", ["a", "b"], ["y"], transB=1), 13).attributes["transB"]
        == 1
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_names_of_the_default_domain(domain: Any) -> None:
    spec = node_spec(helper.make_node("Elu", ["x"], ["y"], domain=domain), 21)
    assert spec.domain == ""
    assert spec.attributes["alpha"] == 1.0


def test_outputs_and_inputs_are_counted_as_the_node_names_them() -> None:
    node = helper.make_node("Op", ["a", "", "b"], ["y", "", "z", ""], domain="d")
    spec = node_spec(node, 1)
    assert spec.wanted == (True, False, True)
    assert spec.input_count == 3


def test_a_reference_to_an_attribute_of_a_function_is_an_error() -> None:
    attribute = AttributeProto(name="axis", ref_attr_name="outer", type=AttributeProto.INT)
    with pytest.raises(ModelError, match="'axis' refers to 'outer'"):
        attribute_value(attribute)


def test_an_attribute_of_no_known_type_is_an_error() -> None:
    with pytest.raises(ModelError, match="unknown type"):
        attribute_value(AttributeProto(name="axis"))


def test_graphs_stay_graphs() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (bool c, float[N] x) => (float[N] y)'
        "{ y = If (c) <then_branch = t () => (a) { a = Identity(x) },"
        " else_branch = e () => (b) { b = Neg(x) }> }"
    )
    found = node_spec(model.graph.node[0], 21).attributes
    assert found["then_branch"].node[0].op_type == "Identity"
