"""The operators that onnxruntime's optimiser and quantiser write, against onnxruntime's own kernels."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run_node
from tests.oracles import ort

MS = "com.microsoft"


class Case(NamedTuple):
    """One node: inputs by position (None: absent), names of its outputs ("" : absent), attributes."""

    op: str
    inputs: list[Any]
    outputs: int = 1
    attributes: dict[str, Any] = {}  # noqa: RUF012 - never written to
    domain: str = MS
    rtol: float = 1e-4
    steps: int = 0
    """Steps of a quantised result by which two correct roundings may differ."""


def rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def f(*shape: int, scale: float = 1.0, seed: str = "") -> Any:
    return (rng(f"{shape}{seed}").standard_normal(shape) * scale).astype(np.float32)


def q(*shape: int, dtype: Any = np.uint8, seed: str = "") -> Any:
    info = np.iinfo(dtype)
    return rng(f"{shape}{seed}").integers(info.min, info.max, shape, dtype, endpoint=True)


def s(value: float) -> Any:
    return np.array(value, np.float32)


def z(value: int, dtype: Any = np.uint8) -> Any:
    return np.array(value, dtype)


H, D = 4, 8
W = H * D
MASK2 = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
COS, SIN = np.cos(f(16, D // 2)), np.sin(f(16, D // 2))

I32 = np.arange(16, dtype=np.int32)

ACTIVATIONS = [
    Case("BiasGelu", [f(3, 5, 40), f(40)]),
    Case("BiasGelu", [f(700, 64), f(64)]),
    Case("FastGelu", [f(3, 40), f(40)]),
    Case("FastGelu", [f(3, 7, 11)]),
    Case("Gelu", [f(20001)]),
    Case("QuickGelu", [f(3, 40)], attributes={"alpha": 1.3}),
    Case(
        "SkipLayerNormalization",
        [f(2, 5, W), f(2, 5, W, seed="s"), f(W), f(W), f(W)],
        attributes={"epsilon": 1e-5},
    ),
    Case(
        "SkipLayerNormalization",
        [f(2, 5, W), f(2, 5, W, seed="s"), f(W)],
        attributes={"epsilon": 1e-5},
    ),
    Case(
        "SkipSimplifiedLayerNormalization",
        [f(2, 5, W), f(2, 5, W, seed="s"), f(W), f(W)],
        attributes={"epsilon": 1e-5},
    ),
    Case(
        "SimplifiedLayerNormalization",
        [f(2, 5, W), f(W)],
        domain="",
        attributes={"epsilon": 1e-5, "axis": -1},
    ),
    Case(
        "EmbedLayerNormalization",
        [
            np.array([[1, 2, 3], [4, 0, 2]], np.int32),
            np.array([[0, 1, 1], [0, 0, 1]], np.int32),
            f(6, W),
            f(9, W),
            f(2, W),
            f(W),
            f(W, seed="b"),
            np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        ],
        outputs=2,
        attributes={"epsilon": 1e-5},
    ),
]
PRODUCTS = [
    Case("FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], attributes={"transB": 1, "alpha": 0.5}),
    Case("FusedMatMul", [f(4, 3), f(4, 5)], attributes={"transA": 1}),
    Case("FusedMatMul", [f(3, 2, 4), f(3, 4, 5)], attributes={"transBatchA": 0, "alpha": 2.0}),
    Case("FusedGemm", [f(3, 4), f(4, 5), f(5)], attributes={"activation": "Relu", "alpha": 0.5}),
    Case(
        "FusedGemm",
        [f(3, 4), f(5, 4), f(3, 5)],
        attributes={"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1},
    ),
]
ATTENTION = [
    Case(
        "MultiHeadAttention",
        [f(2, 5, W), f(2, 5, W, seed="k"), f(2, 5, W, seed="v")],
        attributes={"num_heads": H},
    ),
    Case(
        "MultiHeadAttention",
        [f(2, 5, W), f(2, 5, W, seed="k"), f(2, 5, W, seed="v"), f(3 * W)],
        attributes={"num_heads": H, "scale": 0.3},
    ),
    Case(
        "MultiHeadAttention",
        [f(2, 5, W), f(2, 5, W, seed="k"), f(2, 5, W, seed="v"), None, MASK2],
        attributes={"num_heads": H},
    ),
    Case(
        "MultiHeadAttention",
        [f(2, 5, W), f(2, 5, W, seed="k"), f(2, 5, W, seed="v"), None, None, f(1, H, 5, 5)],
        attributes={"num_heads": H, "unidirectional": 1},
    ),
    Case(
        "MultiHeadAttention",
        [
            f(2, 5, W),
            f(2, 5, W, seed="k"),
            f(2, 5, W, seed="v"),
            None,
            None,
            None,
            f(2, H, 3, D),
            f(2, H, 3, D, seed="pv"),
        ],
        outputs=3,
        attributes={"num_heads": H},
    ),
    Case(
        "Attention", [f(2, 5, 16), f(16, 3 * W, scale=0.2), f(3 * W)], attributes={"num_heads": H}
    ),
    Case(
        "Attention",
        [f(2, 5, 16), f(16, 3 * W, scale=0.2), f(3 * W), np.array([4, 2], np.int32)],
        attributes={"num_heads": H},
    ),
    Case(
        "Attention",
        [f(2, 5, 16), f(16, 3 * W, scale=0.2), f(3 * W), MASK2],
        attributes={"num_heads": H, "unidirectional": 1},
    ),
    Case(
        "Attention",
        [f(2, 5, 16), f(16, 3 * W, scale=0.2), f(3 * W), None, f(2, 2, H, 3, D)],
        outputs=2,
        attributes={"num_heads": H, "unidirectional": 1},
    ),
    Case("RotaryEmbedding", [f(2, 5, W), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), COS, SIN]),
    Case(
        "RotaryEmbedding", [f(2, H, 5, D), np.array([2]), COS, SIN], attributes={"interleaved": 1}
    ),
    Case(
        "GroupQueryAttention",
        [
            f(1, 3, 64),
            f(1, 3, 32),
            f(1, 3, 32, seed="v"),
            f(1, 2, 4, 16),
            f(1, 2, 4, 16, seed="p"),
            I32[6:7],
            I32[7:8],
        ],
        outputs=3,
        attributes={"num_heads": 4, "kv_num_heads": 2},
    ),
    Case(
        "GroupQueryAttention",
        [
            f(1, 1, 64),
            f(1, 1, 32),
            f(1, 1, 32, seed="v"),
            f(1, 2, 8, 16),
            f(1, 2, 8, 16, seed="p"),
            I32[5:6],
            I32[6:7],
            f(16, 8),
            f(16, 8, seed="s"),
        ],
        outputs=3,
        attributes={"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 4},
    ),
    Case(
        "GroupQueryAttention",
        [
            f(2, 5, 64),
            f(2, 5, 32),
            f(2, 5, 32, seed="v"),
            None,
            None,
            np.array([4, 2], np.int32),
            I32[5:6],
        ],
        outputs=3,
        attributes={"num_heads": 4, "kv_num_heads": 2, "softcap": 3.0},
    ),
]
QA = (q(2, 3, 5, 5), s(0.02), z(120))
QB = (q(2, 3, 5, 5, seed="b"), s(0.03), z(100))
QY = (s(0.05), z(110))
QUANTISED = [
    Case("QLinearAdd", [*QA, *QB, *QY], steps=1),
    Case("QLinearAdd", [*QA, q(3, 1, 1), s(0.03), z(100), *QY], steps=1),
    Case("QLinearMul", [*QA, *QB, *QY], steps=1),
    Case("QLinearSigmoid", [*QA, s(1 / 256), z(0)], steps=1),
    Case("QLinearLeakyRelu", [*QA, *QY], attributes={"alpha": 0.1}, steps=1),
    Case("QLinearConcat", [*QY, *QA, *QB], attributes={"axis": 1}, steps=1),
    Case(
        "QLinearAveragePool",
        [*QA, *QY],
        attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        steps=1,
    ),
    Case("QLinearGlobalAveragePool", [*QA, *QY], attributes={"channels_last": 0}, steps=1),
    Case(
        "QLinearSoftmax",
        [q(4, 9), s(0.05), z(100), s(1 / 256), z(0)],
        attributes={"axis": 1, "opset": 13},
        steps=1,
    ),
    Case(
        "QLinearConv",
        [
            *QA,
            q(4, 3, 3, 3, dtype=np.int8),
            s(0.01),
            z(0, np.int8),
            s(0.2),
            z(128),
            q(4, dtype=np.int16).astype(np.int32),
        ],
        attributes={"pads": [1, 1, 1, 1]},
        domain="",
        steps=1,
    ),
    Case(
        "MatMulIntegerToFloat",
        [q(3, 40), q(40, 6, dtype=np.int8), s(0.02), f(6, scale=0.1), z(130), None, f(6)],
    ),
    Case(
        "DynamicQuantizeMatMul", [f(3, 40), q(40, 6, dtype=np.int8), s(0.02), z(0, np.int8), f(6)]
    ),
    Case(
        "QGemm",
        [
            q(3, 40),
            s(0.02),
            z(120),
            q(40, 6, dtype=np.int8),
            s(0.01),
            z(0, np.int8),
            None,
            s(0.5),
            z(128),
        ],
        steps=1,
    ),
    Case(
        "QGemm",
        [q(3, 40), s(0.02), z(120), q(40, 6, dtype=np.int8), s(0.01), z(0, np.int8)],
        attributes={"alpha": 1.0},
    ),
    Case("QuantizeLinear", [f(3, 7, scale=2), s(0.03), z(7)]),
    Case("DequantizeLinear", [q(3, 7), s(0.03), z(7)]),
    Case(
        "MatMulNBits",
        [f(3, 64), q(5, 2, 16), np.abs(f(5 * 2, scale=0.1))],
        attributes={"K": 64, "N": 5, "bits": 4, "block_size": 32},
    ),
    Case(
        "MatMulNBits",
        [f(3, 70), q(5, 3, 16), np.abs(f(5 * 3, scale=0.1)), q(5 * 2)],
        attributes={"K": 70, "N": 5, "bits": 4, "block_size": 32},
    ),
    Case(
        "MatMulNBits",
        [f(3, 64), q(5, 2, 32), np.abs(f(5 * 2, scale=0.1))],
        attributes={"K": 64, "N": 5, "bits": 8, "block_size": 32},
    ),
]


def by_onnxruntime(case: Case) -> list[Any]:
    given = {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None}
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in given.items()
    ]
    node = node_of(case)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output
    ]
    for output in outputs:
        output.ClearField("type")
    graph = helper.make_graph([node], "g", declared, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return ort(helper.make_model(graph, opset_imports=opsets, ir_version=9), given)


def node_of(case: Case) -> Any:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    return helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)


@pytest.mark.parametrize(
    "case",
    [*ACTIVATIONS, *PRODUCTS, *ATTENTION, *QUANTISED],
    ids=lambda case: f"{case.op}-{len(case.inputs)}-{zlib.crc32(repr(case).encode()) % 1000}",
)
def test_as_onnxruntime(case: Case) -> None:
    expected = by_onnxruntime(case)
    actual = run_node(node_of(case), case.inputs, 1 if case.domain else 17)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if case.steps:
            apart = np.abs(one.astype(np.int64) - other.astype(np.int64))
            assert apart.max() <= case.steps
            assert (apart > 0).mean() < 0.05
        elif other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=case.rtol, atol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)
