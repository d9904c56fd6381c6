"""Which operators hand an input's buffer on, and which run as other nodes: asked of the real onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation
from tests.ort.traced_runtime import Traced, library, trace

pytestmark = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")

# Each makes b of a, which is float[3,4] and which nothing else reads.
SHARING = """
    Cast<to=6>(a); Cast<to=1>(a); Celu(a); Clip(a); Elu(a); Flatten(a); HardSigmoid(a); Identity(a); LeakyRelu(a)
    LogSoftmax(a); Relu(a); Reshape(a, shape); Selu(a); Shrink(a); Sigmoid(a); Softmax(a); Softplus(a); Softsign(a)
    Squeeze(a); Tanh(a); ThresholdedRelu(a); Trilu(a); Unsqueeze(a, axis); ScatterElements(a, index, one)
    ai.onnx.ml.Scaler<offset=[1.0], scale=[2.0]>(a)
"""
APART = """
    Abs(a); Acos(a); Add(a, half); Asin(a); Atan(a); BatchNormalization(a, four, four, four, four); Cast<to=7>(a)
    Cast<to=11>(a); Cast<to=9>(a); Ceil(a); Concat<axis=1>(a); Cos(a); CumSum(a, zero); Div(a, half); Dropout(a)
    Equal(a, half); Erf(a); Exp(a); Expand(a, shape); Floor(a); Gather(a, axis); Gelu(a); LayerNormalization(a, four)
    Log(a); MatMul(a, square); Max(a, half); Mod<fmod=1>(a, half); Mul(a, half); Neg(a); PRelu(a, half); Pow(a, half)
    ReduceSum(a); Round(a); ScatterND(a, place, row); Sign(a); Sin(a); Slice(a, axis, three); Sqrt(a); Sub(a, half)
    Sum(a, half); Tan(a); Tile(a, ones); Transpose(a); Where(yes, a, half); ai.onnx.ml.Binarizer(a)
    ai.onnx.ml.Imputer<imputed_value_floats=[1.0]>(a)
"""
REPLACED = "CastLike(a, a); HardSwish(a); Mish(a)"
_CONSTANTS = """int64[2] shape = {3, 4}, int64[1] axis = {0}, int64 zero = {0}, int64[1] three = {3},
    int64[1, 2] index = {0, 1},
    float[1, 2] one = {1.0, 2.0}, int64[1, 1] place = {1}, float[1, 4] row = {1.0, 1.0, 1.0, 1.0}, float half = {0.5},
    float[4] four = {1.0, 1.0, 1.0, 1.0}, int64[2] ones = {1, 1}, bool[1] yes = {1}, float[4, 4] square =
    {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}"""


def calls(text: str) -> list[str]:
    lines = text.replace("\n", ";").split(";")
    return [line.strip() for line in lines if line.strip()]


def _declared(call: str) -> str:
    """Scaler has no shape inference: that the sizes are equal, the runtime knows from the model alone."""
    return "float[3,4] b, " if "Scaler" in call else ""


def model(call: str) -> ModelProto:
    """The call between nodes that share nothing."""
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]> agraph (float[3,4] x) => (int64[R] y) '
        f"<{_declared(call)}{_CONSTANTS}> {{ a = Concat<axis = 0>(x) b = {call} y = Shape(b) }}"
    )
    made.graph.node[1].name = "asked"
    return made


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Traced]:
    """What the runtime did with each call."""
    asked = calls(SHARING) + calls(APART) + calls(REPLACED)
    feeds = {"x": np.ones((3, 4), np.float32)}
    models = [(model(call).SerializeToString(), [feeds] * 2) for call in asked]
    runs = trace(tmp_path_factory.mktemp("operators"), models)
    assert [one.error for one in runs if one.error] == []
    return dict(zip(asked, runs, strict=True))


@pytest.mark.parametrize("call", calls(SHARING))
def test_b_shares_the_buffer_of_a(call: str, found: dict[str, Traced]) -> None:
    assert found[call].runs[1][0][2] == 256  # the pattern's block: one buffer
    plan = plan_allocation(load_model(model(call)))
    assert plan.placements["b"].root == "a"
    assert not plan.unplanned


@pytest.mark.parametrize("call", calls(APART))
def test_b_has_a_buffer_of_its_own(call: str, found: dict[str, Traced]) -> None:
    held = 0
    most = 0
    for kind, _, size in found[call].runs[0]:
        held += -(-size // 256) * (1 if kind == "alloc" else -1)
        most = max(most, held)
    assert most >= 2  # a and b at once
    plan = plan_allocation(load_model(model(call)))
    assert plan.placements["b"].rule == "own"
    assert not plan.unplanned


@pytest.mark.parametrize("call", calls(REPLACED))
def test_other_nodes_run_in_its_place(call: str, found: dict[str, Traced]) -> None:
    assert "asked" not in found[call].order
    assert [one.node for one in plan_allocation(load_model(model(call))).unplanned] == [1]
