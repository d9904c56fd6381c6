"""What the runtime knows of values before it runs, and what it is not known to do."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan.ort_types import RuntimeType, element_bits, runtime_types
from onnx_notebook_profiler.plan.ort_unplanned import find_unplanned
from tests.models import text_model

_HEAD = '<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'


def types(text: str) -> dict[str, RuntimeType]:
    model = text_model(_HEAD.format(opset=18) + f" agraph {text}")
    return dict(runtime_types(load_model(model)))


def test_symbols_of_the_model_stay_and_invented_ones_go() -> None:
    found = types(
        "(float[N,8] x) => (float[M] y) { a = Exp(x) b = Concat<axis = 0>(a, x) y = NonZero(b) }".replace(
            "float[M] y", "int64[2,M] y"
        )
    )
    assert found["a"] == RuntimeType(TensorProto.FLOAT, ("N", 8))
    assert found["b"] == RuntimeType(TensorProto.FLOAT, (None, 8))
    assert found["y"] == RuntimeType(TensorProto.INT64, (2, "M"))


def test_what_shapes_hold_is_not_followed() -> None:
    # A Reshape whose shape is computed from another value's has no known dimensions.
    found = types(
        "(float[N,8] x) => (float[K,L] y) { s = Shape(x) b = Exp(x) a = Reshape(b, s) y = Neg(a) }"
    )
    assert found["a"].shape == (None, None)


def test_constants_and_weights_have_their_own_shapes() -> None:
    found = types(
        "(float[N] x) => (float[N] y) <float w = {2.0}>"
        " { c = Constant<value_floats = [1.0]>() i = Constant<value_int = 3>() a = Mul(x, w) y = Mul(a, c) }"
    )
    assert found["w"] == RuntimeType(TensorProto.FLOAT, ())
    assert found["c"] == RuntimeType(TensorProto.FLOAT, (1,))
    assert found["i"] == RuntimeType(TensorProto.INT64, ())


def test_the_data_of_large_weights_is_not_needed() -> None:
    tensor = numpy_helper.from_array(np.zeros((40, 40), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [tensor],
    )
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert runtime_types(model)["y"].shape == ("N", 40)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((TensorProto.FLOAT, ("N", 8)), (TensorProto.INT32, ("N", 8)), True),
        ((TensorProto.FLOAT, ("N", 8)), (TensorProto.INT64, ("N", 8)), False),
        ((TensorProto.FLOAT, ("N", 8)), (TensorProto.FLOAT, (8, "N")), False),
        ((TensorProto.FLOAT, ("N",)), (TensorProto.FLOAT, ("M",)), False),
        ((TensorProto.FLOAT, (None,)), (TensorProto.FLOAT, (None,)), False),
        ((TensorProto.FLOAT, None), (TensorProto.FLOAT, None), False),
        ((TensorProto.FLOAT, ()), (TensorProto.FLOAT, ()), True),
        ((TensorProto.STRING, (2,)), (TensorProto.STRING, (2,)), False),
    ],
)
def test_values_of_one_size(
    left: tuple[int, object], right: tuple[int, object], same: bool
) -> None:
    one, other = RuntimeType(*left), RuntimeType(*right)  # type: ignore[arg-type]
    assert (one.size_class is not None and one.size_class == other.size_class) is same


@pytest.mark.parametrize(
    ("name", "bits"),
    [("FLOAT", 32), ("DOUBLE", 64), ("BOOL", 8), ("FLOAT16", 16), ("INT4", 4), ("STRING", 0)],
)
def test_bits_of_an_element(name: str, bits: int) -> None:
    assert element_bits(getattr(TensorProto, name)) == bits


# what is not known


def reasons(text: str, opset: int = 18, is_saved: bool = False) -> list[tuple[int, str]]:
    model = load_model(text_model(_HEAD.format(opset=opset) + f" agraph {text}"))
    found = find_unplanned(model, runtime_types(model), is_saved=is_saved)
    return [(one.node, one.reason) for one in found]


def test_everyday_graphs_are_planned() -> None:
    assert (
        reasons(
            "(float[N,8] x) => (float[N,8] y) { a = Elu(x) b = Softmax(a) y = LayerNormalization(b, x) }".replace(
                "LayerNormalization(b, x)", "Clip(b)"
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[N] x) => (float[N] y) { a = Exp(x) y = HardSwish(a) }", "of its function"),
        ("(double[N] x) => (double[N] y) { a = Exp(x) y = Elu(a) }", "of its function"),
        ("(float16[N] x) => (float16[N] y) { a = Identity(x) y = Exp(a) }", "in 16 bits"),
        (
            "(float[N] x) => (double[N] y) { a = Cast<to = 6>(x) y = Cast<to = 11>(a) }",
            "follows a Cast",
        ),
    ],
)
def test_nodes_that_may_be_replaced(text: str, reason: str) -> None:
    assert any(reason in found for _, found in reasons(text))
    assert reasons(text, is_saved=True) == []


def test_a_value_that_is_dequantized_for_several_nodes() -> None:
    text = """(uint8[N] x) => (float[N] y) <float s = {0.5}>
        { a = DequantizeLinear(x, s) b = Exp(a) y = Add(a, b) }"""
    assert [node for node, _ in reasons(text)] == [0]


def test_bodies_and_sequences_are_not_planned() -> None:
    branch = "<then_branch = t () => (float[N] u) { u = Neg(x) }, else_branch = e () => (float[N] v) { v = Exp(x) }>"
    found = reasons(f"(float[N] x, bool p) => (float[N] y) {{ y = If (p) {branch} }}")
    assert "runs bodies" in found[0][1]
    text = "(float[N] x) => (int64 n) { s = SequenceConstruct(x) n = SequenceLength(s) }"
    assert [node for node, _ in reasons(text)] == [0, 1]


def test_shapes_that_only_the_runtime_infers_make_what_follows_unclear() -> None:
    text = """(float[N,8] x) => (float[N,8] y) {
        a = com.microsoft.QuickGelu(x) b = Exp(a) c = Exp(x) y = Add(b, c) }"""
    found = reasons(text)
    assert [node for node, _ in found] == [0, 1]
    assert "infers by rules of its own" in found[0][1]


def test_operators_of_onnx_without_inference_have_shapes_that_nobody_knows() -> None:
    # onnx has no shape inference for it, and the runtime's is onnx's: it knows no more.
    text = "(float[N,2] x) => (float[N,2] y) { a = ai.onnx.ml.Normalizer(x) y = Exp(a) }"
    assert reasons(text) == []
