"""BatchNormalization at inference and in training, against a hand count, its formula and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_notebook_profiler import KernelError, ReferenceEvaluator
from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
UNITS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-6}
# few and many places, single items, more than a block
SHAPES = [(2, 3, 4, 5), (300, 500), (1, 3, 90, 900), (40, 70, 3), (6, 3, 7, 7), (1, 4)]


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


def parts(shape: tuple[int, ...], channels: tuple[int, ...], dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(9)
    x = rng.standard_normal(shape) + 0.5
    return [x.astype(dtype), *(rng.uniform(0.5, 2, channels).astype(dtype) for _ in range(4))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16])
@pytest.mark.parametrize("trains", [0, 1])
def test_by_formula(shape: Any, dtype: Any, trains: int) -> None:
    given = parts(shape, shape[1:2], dtype)
    wide = [one.astype(np.float64) for one in given]
    axes = (0, *range(2, len(shape)))
    mean, variance = (wide[0].mean(axis=axes), wide[0].var(axis=axes)) if trains else wide[3:]
    line = (-1, *[1] * (len(shape) - 2))
    expected = (wide[0] - mean.reshape(line)) / np.sqrt(variance.reshape(line) + 1e-5)
    expected = expected * wide[1].reshape(line) + wide[2].reshape(line)
    results = run(
        "BatchNormalization", *given, training_mode=trains, momentum=0.8, opset=15,
        outputs=3 if trains else 1,
    )  # fmt: skip
    unit = UNITS[np.dtype(dtype).name]
    y = results[0] if trains else results
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit, atol=4 * unit)
    if trains:
        for one, before, now in zip(results[1:], wide[3:], (mean, variance), strict=True):
            assert one.dtype == dtype
            running = before * 0.8 + now * 0.2
            np.testing.assert_allclose(one.astype(np.float64), running, rtol=unit, atol=unit)
    node = helper.make_node("BatchNormalization", list("xsbmv"), ["y"], training_mode=trains)
    kernel = make_kernel(node, 15)
    with np.errstate(all="ignore"):
        kernel.compute(given, given[:1])
    np.testing.assert_allclose(given[0].astype(np.float64), y.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("opset", [7, 8])
def test_numbers_for_each_element_as_onnxruntime(opset: int) -> None:
    given = parts((4, 3, 2, 5), (3, 2, 5))
    ours, theirs = by_both("BatchNormalization", *given, spatial=0, opset=opset)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    for old in (1, 6):
        y = run("BatchNormalization", *given, spatial=0, is_test=1, opset=old)
        np.testing.assert_array_equal(y, ours[0])
    y, mean, variance = run("BatchNormalization", *given, spatial=0, opset=opset, outputs=3)
    x = given[0].astype(np.float64)
    expected = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5) * given[1] + given[2]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, given[3] * 0.9 + x.mean(axis=0) * 0.1, rtol=1e-5)
    np.testing.assert_allclose(variance, given[4] * 0.9 + x.var(axis=0) * 0.1, rtol=1e-5)


def test_a_vector_has_one_channel_as_onnxruntime() -> None:
    given = parts((5,), (1,))
    ours, theirs = by_both("BatchNormalization", *given, opset=15)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    ours, theirs = by_both("BatchNormalization", *given, opset=15, training_mode=1, outputs=3)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 13])
def test_training_before_opset_14(opset: int) -> None:
    """Who names more outputs than Y trains; the variance is the population's, as onnxruntime has it."""
    given = parts((3, 4, 6), (4,))
    results = run("BatchNormalization", *given, momentum=0.7, opset=opset, outputs=5)
    x = given[0].astype(np.float64)
    mean, variance = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    expected = (given[3] * 0.7 + mean * 0.3, given[4] * 0.7 + variance * 0.3, mean, variance)
    for one, other in zip(results[1:], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if opset >= 7:
        _, theirs = by_both("BatchNormalization", *given, momentum=0.7, opset=opset, outputs=5)
        for one, other in zip(results[:4], theirs[:4], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    else:
        tested = run("BatchNormalization", *given, is_test=1, opset=opset, outputs=2)[0]
        np.testing.assert_array_equal(tested, run("BatchNormalization", *given, opset=9))


def test_channels_far_from_zero_in_training() -> None:
    given = parts((8, 3, 50, 50), (3,))
    given[0] += np.float32(1000)
    x = given[0].astype(np.float64)
    _, _, variance = run("BatchNormalization", *given, training_mode=1, momentum=0.0, outputs=3)
    np.testing.assert_allclose(variance, x.var(axis=(0, 2, 3)), rtol=1e-4)
