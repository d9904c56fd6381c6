"""Small models with the figures that the real onnxruntime 1.32.0 was seen to give, one thread, on Linux."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
from onnx import ModelProto, numpy_helper

Array = np.ndarray[Any, Any]

_HEAD = '<ir_version: 10, opset_import: ["" : 18]>'
_TEXTS = {
    "matmul": """agraph (float[N,64] x) => (float[N,128] y) {
        a = MatMul(x, w) c = Add(a, b) y = Relu(c) }""",
    "gemm": """agraph (float[N,64] x) => (float[N,32] y) {
        a = Gemm(x, w1, b1) c = Relu(a) d = Gemm(c, w2, b2) y = Softmax(d) }""",
    "conv": """agraph (float[N,3,32,32] x) => (float[N,8,1,1] y) {
        a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w1, b1)  b = Relu(a)
        c = Conv<kernel_shape = [5, 5], pads = [2, 2, 2, 2], strides = [2, 2]>(b, w2, b2)
        y = GlobalAveragePool(c) }""",
    "concat": """agraph (float[N,100] x) => (float[N,1] y) {
        a = Exp(x) b = Sin(x) c = Concat<axis = 1>(a, b) d = Abs(c) y = ReduceSum<keepdims = 1>(d, ax) }""",
}
_WEIGHTS: dict[str, dict[str, tuple[int, ...]]] = {
    "matmul": {"w": (64, 128), "b": (128,)},
    "gemm": {"w1": (64, 256), "b1": (256,), "w2": (256, 32), "b2": (32,)},
    "conv": {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (8, 16, 5, 5), "b2": (8,)},
    "concat": {},
}
FEEDS: dict[str, dict[str, Array]] = {
    "matmul": {"x": np.ones((3, 64), np.float32)},
    "gemm": {"x": np.ones((3, 64), np.float32)},
    "conv": {"x": np.ones((2, 3, 32, 32), np.float32)},
    "concat": {"x": np.ones((5, 100), np.float32)},
}
RESERVED = {
    ("matmul", "none"): 32768,
    ("matmul", "all"): 32768,
    ("gemm", "none"): 98304,
    ("gemm", "all"): 98304,
    ("conv", "none"): 96,
    ("conv", "all"): 128,
    ("concat", "none"): 8,
    ("concat", "all"): 8,
}
"""Bytes of packed and of small weights; model and optimization."""

BLOCKS = {
    ("matmul", "none"): 3072,
    ("matmul", "all"): 0,
    ("gemm", "none"): 3584,
    ("gemm", "all"): 3584,
    ("conv", "none"): 147456,
    ("conv", "all"): 163840,
    ("concat", "none"): 8192,
    ("concat", "all"): 8192,
}
"""Bytes of the memory pattern's block, which later runs take."""


def section_model(name: str) -> ModelProto:
    model = onnx.parser.parse_model(_HEAD + _TEXTS[name])
    numbers = np.random.default_rng(0)
    for weight, shape in _WEIGHTS[name].items():
        data = (numbers.standard_normal(shape) * 0.1).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, weight))
    if name == "concat":
        model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "ax"))
    return model
