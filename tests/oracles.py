"""What other people's runtimes make of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator as OnnxReferenceEvaluator


def onnx_reference(model: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs by onnx's own reference implementation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(OnnxReferenceEvaluator(model).run(None, dict(feeds)))


def ort(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs by onnxruntime, unoptimised."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))


def assert_same(actual: Any, expected: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    """Equal types, shapes and values; floats within the tolerances, everything else exactly."""
    if expected is None or isinstance(expected, dict):
        assert actual == expected
    elif isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, rtol, atol)
    else:
        _assert_same_array(np.asarray(actual), np.asarray(expected), rtol, atol)


def _assert_same_array(
    actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float, atol: float
) -> None:
    assert actual.shape == expected.shape
    if expected.dtype.kind in "OUS":
        assert actual.astype(str).tolist() == expected.astype(str).tolist()
        return
    assert actual.dtype == expected.dtype
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    if expected.dtype.kind == "V":  # types of ml_dtypes
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
