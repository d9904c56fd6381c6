"""Models that people's packages carry, and optimized ones, against what the real onnxruntime does with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import LoadedModel, load_model
from onnx_notebook_profiler.ort.events import RunEvents, request_bytes, runs_events
from onnx_notebook_profiler.ort.measured_types import session_types
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan, plan_allocation
from onnx_notebook_profiler.plan.ort_order import measured_order
from tests.models import packaged_model, text_model
from tests.ort.predicted import Array, numbered, numbered_trace, without_scratch
from tests.ort.traced_runtime import Traced, library, trace

pytestmark = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")

FEEDS: dict[str, dict[str, Array]] = {
    "magika": {"bytes": np.full((1, 2048), 7, np.int32)},
    "minilm": {
        name: np.ones((1, 16), np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    },
    "silero_sequence": {},
}


def measured_values(model: LoadedModel, feeds: dict[str, Array]) -> dict[str, Array]:
    """Every value, by a session whose outputs are all of them."""
    exposed = ModelProto()
    exposed.CopyFrom(model.proto)
    known = {value.name for value in exposed.graph.output}
    for node in model.proto.graph.node:
        for name in node.output:
            if name and name not in known:
                exposed.graph.output.add(name=name)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(exposed.SerializeToString(), options)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def both_runs(plan: AllocationPlan, values: dict[str, Array]) -> list[RunEvents]:
    sizes = {
        name: request_bytes(
            onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name, placement in plan.placements.items()
        if placement.is_allocated
    }
    return list(runs_events(plan, [(0, sizes)] * 2))


def assert_equal(plan: AllocationPlan, values: dict[str, Array], real: Traced) -> None:
    """The plan's requests are the runtime's, in their order; what is left of these came and went within a node."""
    assert plan.unplanned == ()
    for run, traced in zip(both_runs(plan, values), real.runs, strict=True):
        assert without_scratch(numbered_trace(traced), numbered(run.events))


@pytest.mark.parametrize("name", ["magika", "minilm", "silero_sequence"])
def test_packaged_models(name: str, tmp_path: Path) -> None:
    path = packaged_model(name)
    model = load_model(path)
    feeds = FEEDS[name] or {
        value.name: np.zeros(
            [dim.dim_value or 4 for dim in value.type.tensor_type.shape.dim], np.float32
        )
        for value in model.proto.graph.input
    }
    (real,) = trace(tmp_path, [(path, [feeds] * 2)])
    assert real.error == ""
    plan = plan_allocation(model)
    nodes = model.proto.graph.node
    assert [nodes[one].name or f"{nodes[one].op_type}_{one}" for one in plan.order.nodes] == list(
        real.order
    )
    assert_equal(plan, measured_values(model, feeds), real)


FUSED = """<ir_version: 10, opset_import: ["" : 18]>
    agraph (float[N,3,H,W] x) => (float[N,L] y) <float[8,3,3,3] w, float[8] b, float[8,4] m, float[4] c> {
        p = Conv<pads = [1, 1, 1, 1]>(x, w, b)  r = Relu(p)  g = GlobalAveragePool(r)  f = Flatten(g)
        d = Gemm(f, m, c)  e = Erf(d)  s = Softmax(e)  y = Concat<axis = 1>(s, d) }"""


@pytest.fixture(scope="module")
def fused() -> ModelProto:
    """A small network whose nodes have names, with weights."""
    model = onnx.parser.parse_model(FUSED)
    numbers = np.random.default_rng(0)
    for value in [one for one in model.graph.value_info if one.name in "wbmc"]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        data = numbers.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, value.name))
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.name = f"the {node.op_type}"
    return model


@pytest.mark.parametrize("level", [1, 99])
def test_an_optimized_session(fused: ModelProto, level: int, tmp_path: Path) -> None:
    feeds: dict[str, Array] = {"x": np.ones((2, 3, 16, 16), np.float32)}
    (real,) = trace(tmp_path, [(fused.SerializeToString(), [feeds] * 2)], level=level)
    assert real.error == ""
    model = load_model(real.saved)
    order = measured_order(model.proto.graph, real.ran)
    plan = plan_allocation(model, order=order, types=session_types(model), is_saved=True)
    assert_equal(plan, measured_values(model, feeds), real)


def test_types_that_only_the_runtime_infers() -> None:
    model = load_model(
        text_model(
            """<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
            agraph (float[N,8] x, int64[K] k) => (float[N,8] y, float[M] z, float v) {
                a = com.microsoft.QuickGelu(x)  y = Exp(a)  b = Reshape(x, k)  c = Relu(b)  z = Reshape(c, k)
                q = ReduceMax<keepdims = 0>(x)  v = Exp(q) }"""
        )
    )
    found = session_types(model)
    assert found["a"].shape == ("N", 8)
    assert found["b"].shape is None
    assert found["q"].shape == ()
    assert found["x"].data_type == TensorProto.FLOAT
    assert plan_allocation(model).unplanned
    assert plan_allocation(model, types=found).unplanned == ()


def test_a_model_that_the_runtime_refuses() -> None:
    text = '<ir_version: 10, opset_import: ["" : 18, "no.such" : 1]> agraph (float[N] x) => (y) { y = no.such.Op(x) }'
    with pytest.raises(ModelError, match="onnxruntime refuses the model"):
        session_types(load_model(text))
