"""pretty_onnx: the published printouts to the letter, and every other part of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import onnx_notebook_profiler as onp
from tests.models import memory_demo_model, mul_add_model

HEADER = '<ir_version: 10, opset_import: ["" : 18, "my.dom" : 3]>\n'


def text(body: str, **options: Any) -> list[str]:
    return onp.pretty_onnx(parser.parse_model(HEADER + body), **options).splitlines()


def test_published_runtime_example() -> None:
    assert onp.pretty_onnx(mul_add_model()) == (
        "opset: domain='' version=18\n"
        "graph: name='agraph'\n"
        "input: float[N] x\n"
        "init: float[] two\n"
        "0: Mul(x, two) -> z\n"
        "1: Add(z, x) -> w\n"
        "output: float[N] w"
    )


def test_published_memory_example() -> None:
    assert onp.pretty_onnx(memory_demo_model()) == (
        "opset: domain='' version=18\n"
        "graph: name='compute_context_memory_demo'\n"
        "input: float[N,4] X\n"
        "init: float[4,4] W\n"
        "0: MatMul(X, W) -> M\n"
        "1: Concat(M, X) -> C\n"
        "2: Shape(C) -> S\n"
        "3: Abs(C) -> A\n"
        "4: Reshape(A, S) -> Z\n"
        "output: float[] Z"
    )


def test_domains_and_empty_names() -> None:
    lines = text("g (float[N] x, float hi) => (float[N] y) { a = Clip(x, , hi) y = my.dom.Op(a) }")
    assert lines[:2] == ["opset: domain='' version=18", "opset: domain='my.dom' version=3"]
    assert lines[5:] == [
        "0: Clip(x, , hi) -> a",
        "1: my.dom.Op(a) -> y",
        "output: float[N] y",
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TensorProto.FLOAT, "float"),
        (TensorProto.DOUBLE, "double"),
        (TensorProto.INT64, "int64"),
        (TensorProto.BOOL, "bool"),
        (TensorProto.STRING, "string"),
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.BFLOAT16, "bfloat16"),
        (TensorProto.UINT4, "uint4"),
        (TensorProto.FLOAT8E4M3FN, "float8e4m3fn"),
    ],
)
def test_element_types_and_dimensions(kind: int, name: str) -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", kind, ["a b", 0, None, 7])],
            [helper.make_tensor_value_info("y", kind, [])],
        )
    )
    lines = onp.pretty_onnx(model).splitlines()
    assert f"input: {name}[a b,0,?,7] x" in lines
    assert f"output: {name}[] y" in lines


def test_sequences_optionals_and_maps() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])
    kinds = {
        "s": helper.make_sequence_type_proto(tensor),
        "o": helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
        "m": helper.make_map_type_proto(TensorProto.STRING, tensor),
    }
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Identity", ["s"], ["y"])],
            "g",
            [helper.make_value_info(name, kind) for name, kind in kinds.items()],
            [helper.make_value_info("y", kinds["s"])],
        )
    )
    lines = onp.pretty_onnx(model).splitlines()
    assert lines[2:5] == [
        "input: seq(float[N]) s",
        "input: optional(seq(float[N])) o",
        "input: map(string, float[N]) m",
    ]


def test_functions_follow_a_blank_line() -> None:
    lines = text(
        "g (float[N] x) => (float[N] y) { y = my.dom.F(x) }\n"
        '<domain: "my.dom", opset_import: ["" : 17]> F (u) => (v) { w = Abs(u) v = Neg(w) }'
    )
    assert lines[lines.index("") :] == [
        "",
        "function: F[my.dom]",
        "opset: domain='' version=17",
        "input: u",
        "0: Abs(u) -> w",
        "1: Neg(w) -> v",
        "output: v",
    ]


def test_attributes_on_request() -> None:
    body = (
        "g (float[N] x, bool c) => (float[M] y) { a = Concat<axis = 0>(x, x) "
        't = Constant<value = float[2] {1, 2}>() b = my.dom.Op<mode = "fast", k = [1, 2]>(a) '
        "y = If(c) <then_branch = p () => (float[M] u) { u = Abs(b) }, "
        "else_branch = q () => (float[M] v) { v = Neg(b) }> }"
    )
    assert not any("---" in line for line in text(body))
    lines = [line for line in text(body, with_attributes=True) if "---" in line]
    assert lines == [
        "0: Concat(x, x) -> a --- axis=0",
        "1: Constant() -> t --- value=float[2]",
        "2: my.dom.Op(a) -> b --- mode=fast, k=[1, 2]",
        "3: If(c) -> y --- then_branch=<graph>, else_branch=<graph>",
    ]


def test_attributes_that_a_function_passes_on() -> None:
    lines = text(
        "g (float[N] x) => (float[M] y) { y = my.dom.F<how = 1>(x) }\n"
        '<domain: "my.dom", opset_import: ["" : 18]> F <how>(u) => (v) '
        "{ v = Concat<axis: int = @how>(u, u) }",
        with_attributes=True,
    )
    assert "0: Concat(u, u) -> v --- axis=@how" in lines


def test_sparse_initializers_are_listed() -> None:
    model = mul_add_model()
    values = numpy_helper.from_array(np.ones(2, np.float32), "sparse")
    indices = numpy_helper.from_array(np.array([0, 3]), "sparse_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [5]))
    assert "init: float[5] sparse" in onp.pretty_onnx(model).splitlines()


def test_sources_and_errors(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(mul_add_model().SerializeToString())
    expected = onp.pretty_onnx(mul_add_model())
    assert onp.pretty_onnx(path) == onp.pretty_onnx(path.read_bytes()) == expected
    with pytest.raises(onp.ModelError):
        onp.pretty_onnx(ModelProto())
