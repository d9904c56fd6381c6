"""BatchNormalization at inference, against a hand count and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_notebook_profiler import KernelError, ReferenceEvaluator


def model(opset: int, **attributes: Any) -> bytes:
    names = ["x", "scale", "b", "mean", "var"]
    graph = helper.make_graph(
        [helper.make_node("BatchNormalization", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3, None, None])]
        + [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in names[1:]],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    parts = {
        name: rng.uniform(0.5, 2, 3).astype(np.float32) for name in ("scale", "b", "mean", "var")
    }
    return {"x": x, **parts}


@pytest.mark.parametrize("opset", [7, 8, 9, 11, 13, 14, 15, 18])
def test_as_onnxruntime_does_it(opset: int) -> None:
    given = feeds()
    ours = ReferenceEvaluator(model(opset, epsilon=1e-3)).run(None, given)[0]
    session = onnxruntime.InferenceSession(
        model(opset, epsilon=1e-3), providers=["CPUExecutionProvider"]
    )
    theirs = session.run(None, given)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [9, 13, 15])
def test_momentum_changes_nothing_at_inference(opset: int) -> None:
    ones = np.ones(3, np.float32)
    x = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
    given = {"x": x, "scale": 2 * ones, "b": ones, "mean": 3 * ones, "var": 4 * ones}
    (y,) = ReferenceEvaluator(model(opset, momentum=0.9, epsilon=0.0)).run(None, given)
    # less 3, by the deviation 2, by the scale 2, plus 1
    np.testing.assert_array_equal(y, x - 2)


def test_wrong_channels_are_named() -> None:
    given = feeds()
    given["x"] = given["x"][:, :1]
    with pytest.raises(KernelError, match="one number for each of the 1 channels"):
        ReferenceEvaluator(untyped(model(15))).run(None, given)


def untyped(text: bytes) -> bytes:
    """The model without fixed dimensions, so that the kernel sees what does not fit."""
    loaded = onnx.load_model_from_string(text)
    for value in loaded.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return bytes(loaded.SerializeToString())
