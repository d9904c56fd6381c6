"""Every case of onnx's own node tests whose only node is one of these operators.

The expected outputs ship with onnx; the tolerances are those of its backend runner.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test import loader

from onnx_notebook_profiler.evaluator.kernels import (
    activations,
    arithmetic,
    cast,
    comparison,
    convolution,
    generators,
    indexing,
    layout,
    matmul,
    pad,
    pooling,
    reduction,
    scan,
    selection,
    unary,
    views,
)
from onnx_notebook_profiler.evaluator.registry import find_kernel
from tests.evaluator.kernels.harness import run_node

_MODULES = frozenset(
    module.__name__
    for module in (
        activations,
        arithmetic,
        cast,
        comparison,
        convolution,
        generators,
        indexing,
        layout,
        matmul,
        pad,
        pooling,
        reduction,
        scan,
        selection,
        unary,
        views,
    )
)
# Training draws random numbers; sequences and optional values are no tensors.
_LEFT_TO_OTHERS = ("training_", "identity_sequence", "identity_opt")
_COUNT = 700  # fewer would mean that the cases were not found, not that they pass


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@cache
def _cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = loader.load_model_tests(kind="node")
    found = {}
    for case in loaded:
        model = case.model or onnx.load(str(Path(str(case.model_dir)) / "model.onnx"))
        if len(model.graph.node) != 1 or any(part in case.name for part in _LEFT_TO_OTHERS):
            continue
        node = model.graph.node[0]
        opset = next(e.version for e in model.opset_import if e.domain == node.domain)
        kernel = find_kernel(node.domain, node.op_type, opset)
        if kernel is not None and kernel.__module__ in _MODULES:
            found[case.name] = (case, model, node, opset)
    return found


def test_the_cases_are_found() -> None:
    assert len(_cases()) >= _COUNT


@pytest.mark.parametrize("name", _cases())
def test_case(name: Any) -> None:
    case, model, node, opset = _cases()[name]
    for given, expected in case.data_sets:
        feeds = dict(zip((i.name for i in model.graph.input), map(_array, given), strict=True))
        inputs = [np.asarray(feeds[i]) if i else None for i in node.input]
        results = dict(zip(list(node.output), run_node(node, inputs, opset), strict=False))
        for declared, value in zip(model.graph.output, map(_array, expected), strict=True):
            _assert_same(results[declared.name], np.asarray(value), case)


def _assert_same(actual: Any, expected: Any, case: Any) -> None:
    assert actual.shape == expected.shape
    if expected.dtype.kind in "OUS":
        assert actual.dtype == object
        assert actual.tolist() == [
            x.decode() if isinstance(x, bytes) else x for x in expected.tolist()
        ]
        return
    assert actual.dtype == expected.dtype
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
    elif expected.dtype.kind == "V":
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
    else:
        np.testing.assert_allclose(actual, expected, rtol=case.rtol, atol=case.atol)
