"""Traps that real files hold: odd names of dimensions, doubled imports, baked sizes, untyped outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import KernelError, ProfilerError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
DIMS: list[Any] = [
    "?",
    "unk__1",
    "batch-size",
    "batch size",
    " ",
    "N+1",
    "2*seq",
    "größe",
    "p2o.DynamicDimension.0",
    "a" * 10_000,
    "__import__('os')",
    "1e3",
    "None",
]


def doubled(dim: Any, *, domain: str = "") -> onnx.ModelProto:
    """y = x + x for x [dim, 3]."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"], domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [dim, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [dim, 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def works(model: onnx.ModelProto, feeds: Any, expected: Any) -> None:
    """It runs, is profiled, and is priced."""
    np.testing.assert_array_equal(onp.ReferenceEvaluator(model).run(None, feeds)[0], expected)
    prof = onp.profile(model, feeds)
    assert prof.error == ""
    assert prof.peak_bytes >= expected.nbytes
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    assert prof.to_html()


@pytest.mark.parametrize("dim", DIMS, ids=lambda dim: repr(dim[:12]))
def test_names_of_dimensions(dim: str) -> None:
    works(doubled(dim), {"x": X}, X + X)


def test_a_dimension_of_minus_one_is_one_that_is_not_known() -> None:
    works(doubled(-1), {"x": X}, X + X)


def with_imports(*versions: int) -> onnx.ModelProto:
    model = doubled("n")
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid("", version) for version in versions)
    return model


def test_a_domain_that_is_imported_twice() -> None:
    works(with_imports(18, 18), {"x": X}, X + X)


def test_the_long_name_of_the_default_domain() -> None:
    model = doubled("n", domain="ai.onnx")
    model.opset_import[0].domain = "ai.onnx"
    works(model, {"x": X}, X + X)


def test_sizes_that_are_baked_into_a_reshape() -> None:
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Neg", ["r"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("s", TensorProto.INT64, [2], [3, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    works(model, {"x": X}, -X.reshape(3, 2))
    with pytest.raises(KernelError) as raised:
        onp.ReferenceEvaluator(model).run(None, {"x": np.ones((4, 3), np.float32)})
    text = str(raised.value)
    assert "node 0 Reshape" in text
    assert "float32[4, 3]" in text
    assert "cannot take the shape [3, 2]" in text


def test_initializers_that_are_inputs_too() -> None:
    model = doubled("n")
    model.graph.node[0].input[1] = "w"
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3]))
    works(model, {"x": X}, X + np.array([1, 2, 3], np.float32))
    w = np.ones(3, np.float32)
    np.testing.assert_array_equal(
        onp.ReferenceEvaluator(model).run(None, {"x": X, "w": w})[0], X + 1
    )


def test_outputs_without_a_type() -> None:
    model = doubled("n")
    model.graph.output[0].ClearField("type")
    works(model, {"x": X}, X + X)


def test_outputs_whose_declared_shape_is_wrong() -> None:
    model = doubled("n")
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7
    np.testing.assert_array_equal(onp.ReferenceEvaluator(model).run(None, {"x": X})[0], X + X)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g.node[0].input.__setitem__(1, "nowhere"), "nowhere"),
        (lambda g: g.node[0].input.__setitem__(1, "y"), "y"),
        (lambda g: g.node.append(g.node[0]), "y"),
        (lambda g: g.node[0].ClearField("op_type"), "op"),
        (lambda g: g.output[0].__setattr__("name", "elsewhere"), "elsewhere"),
    ],
    ids=["missing", "cycle", "made twice", "no operator", "output that nothing makes"],
)
def test_graphs_that_are_not_well_formed(change: Any, words: str) -> None:
    model = doubled("n")
    change(model.graph)
    with pytest.raises(ProfilerError, match=words):
        onp.ReferenceEvaluator(model)


def test_wrong_types_for_an_operator() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }'
    )
    with pytest.raises(KernelError, match=r"node 0 Add.*x: float32\[2\], i: int64\[2\].*one type"):
        onp.ReferenceEvaluator(model).run(None, {"x": X[0, :2], "i": np.ones(2, np.int64)})


def test_a_negative_dimension_at_run_time() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (int64[1] s) => (float[n] y) { y = ConstantOfShape(s) }'
    )
    with pytest.raises(KernelError, match=r"node 0 ConstantOfShape.*-3"):
        onp.ReferenceEvaluator(model).run(None, {"s": np.array([-3])})
