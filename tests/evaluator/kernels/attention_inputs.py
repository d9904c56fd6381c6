"""Numbers for the tests of attention, and the comparison with onnxruntime's kernels."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run_node
from tests.evaluator.kernels.one_node import one_node_model
from tests.oracles import assert_same, ort

MS = "com.microsoft"


def f(*shape: int, seed: str = "", dtype: Any = np.float32, scale: float = 1.0) -> Any:
    """Normally distributed numbers, the same for the same arguments."""
    numbers = np.random.default_rng(zlib.crc32(f"{shape}{seed}".encode()))
    return (numbers.standard_normal(shape) * scale).astype(dtype)


def i32(*values: Any) -> Any:
    """An int32 array."""
    return np.array(values, np.int32)


def _node(op_type: str, inputs: Sequence[Any], outputs: int, options: dict[str, Any]) -> Any:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    return helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], domain=MS, **options)


def ours(op_type: str, *inputs: Any, outputs: int = 1, **options: Any) -> list[Any]:
    """The outputs of our kernel (None: an absent input)."""
    return run_node(_node(op_type, inputs, outputs, options), inputs, 1)


def theirs(op_type: str, *inputs: Any, outputs: int = 1, **options: Any) -> list[Any]:
    """The outputs of onnxruntime's kernel; the fourth one is float32."""
    node = _node(op_type, inputs, outputs, options)
    model = one_node_model(node, inputs, {"": 17, MS: 1})
    for declared in model.graph.output[3:]:
        declared.type.tensor_type.elem_type = TensorProto.FLOAT
    given = {name: x for name, x in zip(node.input, inputs, strict=True) if name}
    return ort(model, given)


def check(
    op_type: str, *inputs: Any, outputs: int = 1, tolerance: float = 2e-5, **options: Any
) -> None:
    """Our kernel's outputs are onnxruntime's."""
    expected = theirs(op_type, *inputs, outputs=outputs, **options)
    actual = ours(op_type, *inputs, outputs=outputs, **options)
    assert_same(actual, expected, rtol=tolerance * 10, atol=tolerance)
