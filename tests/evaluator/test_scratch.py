"""Scratch: what a kernel holds beyond its inputs and outputs, counted by numpy's own hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.evaluator import registry, scratch
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Kernel, TensorSpec
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.scratch import scratch_bytes
from onnx_notebook_profiler.symbolic.shapes import ValueType


def measured(model: Any, feeds: Any, **options: Any) -> dict[str, int | None]:
    session = onp.ReferenceEvaluator(model, events_enabled=True, measure_scratch=True, **options)
    session.run(None, feeds)
    return {
        event.op_type: event.scratch_bytes
        for event in session.events()
        if event.action == onp.RuntimeEventAction.RUN_NODE
    }


class Filling(Kernel):
    """Holds 1,000 and 500 bytes, then 2,000, and leaves nothing."""

    def infer(self, inputs: Any) -> Any:
        return (TensorSpec(inputs[0].shape, inputs[0].dtype),)

    def compute(self, inputs: Any, outputs: Any) -> None:
        first = np.empty(1000, np.uint8)
        second = np.empty(500, np.uint8)
        del first, second
        third = np.empty(2000, np.uint8)
        outputs[0][...] = inputs[0]
        del third


class Adopted(AdoptingKernel):
    """Holds 300 bytes beside its result of 80."""

    def call(self, inputs: Any) -> Any:
        extra = np.empty(300, np.uint8)
        result = np.empty(10)
        del extra
        return [result]


@pytest.fixture(autouse=True)
def own_operators() -> Iterator[None]:
    """Two operators of known scratch, for this file alone."""
    for name, kernel in (("Filling", Filling), ("Adopted", Adopted)):
        registry.register(name, since_version=1, domain="test.scratch")(kernel)
    yield
    for name in ("Filling", "Adopted"):
        del registry._table["test.scratch", name]


OPSETS = '<ir_version: 9, opset_import: ["" : 17, "test.scratch" : 1]>'


def test_to_the_byte() -> None:
    model = (
        OPSETS
        + "g (float[4] x) => (float[4] y, double[10] z) {"
        + "a = test.scratch.Filling(x) y = Neg(a) z = test.scratch.Adopted(x) }"
    )
    assert measured(model, {"x": np.ones(4, np.float32)}) == {
        "Filling": 2000,
        "Neg": 0,
        "Adopted": 300,
    }


def test_a_body_has_the_most_of_its_nodes() -> None:
    model = (
        OPSETS
        + """g (float[4] x, bool c) => (float[4] y) {
      y = If(c) <then_branch = t () => (float[4] p) { a = test.scratch.Filling(x) p = Neg(a) },
                 else_branch = e () => (float[4] q) { q = Neg(x) }>
    }"""
    )
    feeds = {"x": np.ones(4, np.float32)}
    assert measured(model, {**feeds, "c": np.array(True)})["If"] == 2000
    assert measured(model, {**feeds, "c": np.array(False)})["If"] == 0


def test_unknown_for_other_runtimes_and_where_nobody_asked() -> None:
    model = "g (float[4] x) => (float[4] y) { a = Exp(x) y = Identity(a) }"
    feeds = {"x": np.ones(4, np.float32)}
    assert measured(model, feeds, kernels="onnxruntime") == {"Exp": None, "Identity": 0}
    session = onp.ReferenceEvaluator(model, events_enabled=True)
    session.run(None, feeds)
    assert all(event.scratch_bytes is None for event in session.events())


def test_a_body_with_an_unknown_node_is_unknown() -> None:
    model = """<ir_version: 9, opset_import: ["" : 17]> g (float[4] x, bool c) => (float[4] y) {
      y = If(c) <then_branch = t () => (float[4] p) { a = Exp(x) p = Identity(a) },
                 else_branch = e () => (float[4] q) { q = Identity(x) }>
    }"""
    feeds = {"x": np.ones(4, np.float32)}
    assert measured(model, {**feeds, "c": np.array(True)}, kernels="onnxruntime")["If"] is None
    assert measured(model, {**feeds, "c": np.array(False)}, kernels="onnxruntime")["If"] == 0


def test_tracemalloc_stands_in(monkeypatch: Any) -> None:
    """Where numpy has no hooks: Python's own objects count too, so it is some kB off."""

    def missing() -> Any:
        raise ImportError

    monkeypatch.setattr(scratch, "numpy_memory", missing)
    model = OPSETS + "g (float[4] x) => (float[4] y) { y = test.scratch.Filling(x) }"
    found = measured(model, {"x": np.ones(4, np.float32)})["Filling"]
    assert found is not None
    assert 2000 <= found <= 2000 + 8192


@pytest.mark.parametrize(("queries", "keys"), [(16, 16), (64, 128)])
def test_the_formula_for_attention_is_an_upper_bound_close_to_the_truth(
    queries: int, keys: int
) -> None:
    """B * H * S * T floats, by hand; on top come the weighted values and some numbers for each row."""
    shape = {"Q": (1, 4, queries, 8), "K": (1, 4, keys, 8), "V": (1, 4, keys, 8)}
    feeds = {name: np.ones(dims, np.float32) for name, dims in shape.items()}
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"])
    inputs = [helper.make_tensor_value_info(name, 1, dims) for name, dims in shape.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("Y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    scores = 4 * queries * keys * 4
    types = {name: ValueType(4, tuple(map(Expr.constant, dims))) for name, dims in shape.items()}
    assert scratch_bytes(node, types) == scores
    found = measured(model, feeds)["Attention"]
    assert found is not None
    values = 4 * queries * 8 * 4
    assert scores <= found <= scores + 3 * values
