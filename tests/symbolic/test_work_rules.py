"""MACs and FLOPs of one node of each family that works on elements, windows or matrices, counted by hand.

The weights that the counts use: exp, log, tanh and their like 8, sigmoid 11 (-x, exp, +1, divide), softmax 12 (max,
subtract, exp, sum, divide), quantise 5, dequantise 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.symbolic.work_models import Case, assert_counts

MS: dict[str, Any] = {"domain": "com.microsoft"}
NCHWC: dict[str, Any] = {"domain": "com.microsoft.nchwc"}
NHWC: dict[str, Any] = {"domain": "com.ms.internal.nhwc"}
F23 = "float[2,3]"

ELEMENTWISE: list[Case] = [
    # 2 × 3 output elements each; the second operand broadcasts
    ("Add", [F23, "float[3]"], [F23], {}, 0, 6),
    ("Div", [F23, "float[1,1]"], [F23], {}, 0, 6),
    ("Greater", [F23, F23], ["bool[2,3]"], {}, 0, 6),
    ("Relu", [F23], [F23], {}, 0, 6),
    ("Sqrt", [F23], [F23], {}, 0, 6),
    ("Where", ["bool[2,1]", F23, F23], [F23], {}, 0, 6),
    ("Clip", [F23], [F23], {}, 0, 12),
    ("Erf", [F23], [F23], {}, 0, 48),
    ("Sigmoid", [F23], [F23], {}, 0, 66),
    ("HardSwish", [F23], [F23], {}, 0, 30),
    # 8 (log) + 1 + 8 (exp); a fixed square is one product
    ("Pow", [F23, F23], [F23], {}, 0, 102),
    ("Pow", [F23, np.array(2, np.float32)], [F23], {}, 0, 6),
    # x/√2, erf, +1, 0.5x, product = 12; by tanh: 2 (x³), d·, +, c·, tanh, +1, 0.5x, product = 16
    ("Gelu", [F23], [F23], {}, 0, 72),
    ("Gelu", [F23], [F23], {"approximate": "tanh"}, 0, 96),
    # three inputs take two sums; a mean a division more
    ("Sum", [F23, F23, F23], [F23], {}, 0, 12),
    ("Mean", [F23, F23, F23], [F23], {}, 0, 18),
    ("BiasGelu", [F23, "float[3]"], [F23], MS, 0, 6 * 13),
    ("FastGelu", [F23], [F23], MS, 0, 6 * 16),
    ("ComplexMul", ["float[5,2]", "float[5,2]"], ["float[5,2]"], MS, 0, 5 * 6),
    ("Dropout", [F23], [F23], {}, 0, 0),
    # u·, +, compare, multiply
    ("Dropout", [F23, None, np.array(True)], [F23], {}, 0, 24),
]

REDUCTIONS: list[Case] = [
    ("ReduceSum", [F23, np.array([1])], ["float[2,1]"], {}, 0, 6),
    # 6 sums, 2 divisions
    ("ReduceMean", [F23, np.array([1])], ["float[2,1]"], {}, 0, 8),
    # 6 squares, 6 sums, 2 roots
    ("ReduceL2", [F23, np.array([1])], ["float[2,1]"], {}, 0, 14),
    # 6 × (max, subtract, exp, sum) + 2 × (log, add)
    ("ReduceLogSumExp", [F23, np.array([1])], ["float[2,1]"], {}, 0, 66 + 18),
    ("ArgMax", [F23], ["int64[1,3]"], {"axis": 0}, 0, 6),
    ("CumSum", [F23, np.array(0)], [F23], {}, 0, 6),
    ("NonZero", [F23], ["int64[2,k]"], {}, 0, 6),
]

PRODUCTS: list[Case] = [
    ("MatMul", [F23, "float[3,4]"], ["float[2,4]"], {}, 24, 48),
    ("MatMul", ["float[3]", "float[3]"], ["float[]"], {}, 3, 6),
    ("MatMul", ["float[5,1,2,3]", "float[7,3,4]"], ["float[5,7,2,4]"], {}, 840, 1680),
    # A' is [2, 3]; 8 outputs, each plus C
    ("Gemm", ["float[3,2]", "float[3,4]", "float[4]"], ["float[2,4]"], {"transA": 1}, 24, 56),
    # alpha on 8 outputs, beta on the 4 numbers of C, C on 8 outputs
    ("Gemm", [F23, "float[3,4]", "float[4]"], ["float[2,4]"], {"alpha": 2.0, "beta": 3.0}, 24, 68),
    ("FusedGemm", [F23, "float[3,4]"], ["float[2,4]"], {**MS, "activation": "Relu"}, 24, 56),
    ("FusedMatMul", ["float[3,2]", "float[3,4]"], ["float[2,4]"], {**MS, "transA": 1}, 24, 48),
    # A [K=3, batch=5, M=2]: with both turns the first axis is summed over
    (
        "FusedMatMul",
        ["float[3,5,2]", "float[5,3,4]"],
        ["float[5,2,4]"],
        {**MS, "transA": 1, "transBatchA": 1, "alpha": 0.5},
        120,
        280,
    ),
    # two products of 24, zero points of A (6) and B (12)
    (
        "MatMulInteger",
        ["uint8[2,3]", "int8[3,4]", "uint8[]", "int8[]"],
        ["int32[2,4]"],
        {},
        24,
        48 + 18,
    ),
    # zero points 6 + 12, 8 outputs quantised at 5
    (
        "QLinearMatMul",
        [
            "uint8[2,3]",
            "float[]",
            "uint8[]",
            "uint8[3,4]",
            "float[]",
            "uint8[]",
            "float[]",
            "uint8[]",
        ],
        ["uint8[2,4]"],
        {},
        24,
        48 + 18 + 40,
    ),
    # K = 32, N = 4, two rows: 256; 128 weights dequantised at 2
    (
        "MatMulNBits",
        ["float[2,32]", "uint8[4,1,16]", "float[4]"],
        ["float[2,4]"],
        {**MS, "K": 32, "N": 4, "bits": 4, "block_size": 32},
        256,
        512 + 256,
    ),
    # A: min, max, 5 to quantise, 1 zero point for each of 6; 8 outputs scaled
    (
        "DynamicQuantizeMatMul",
        [F23, "int8[3,4]", "float[]"],
        ["float[2,4]"],
        MS,
        24,
        48 + 48 + 8,
    ),
    # one matrix of size 3: 27 // 3; its inverse: 27
    ("Det", ["float[3,3]"], ["float[]"], {}, 9, 18),
    ("Inverse", ["float[2,3,3]"], ["float[2,3,3]"], MS, 54, 108),
    # 8 pairs of 3: differences, squares and sums; 8 roots
    (
        "CDist",
        [F23, "float[4,3]"],
        ["float[2,4]"],
        {**MS, "metric": "euclidean"},
        24,
        72 + 8,
    ),
    ("AffineGrid", ["float[2,2,3]", np.array([2, 1, 4, 5])], ["float[2,4,5,2]"], {}, 240, 480),
]

_X = "float[1,4,5,5]"
CONVOLUTIONS: list[Case] = [
    # 6 × 3 × 3 outputs of 4 × 9 taps, bias
    ("Conv", [_X, "float[6,4,3,3]", "float[6]"], ["float[1,6,3,3]"], {}, 1944, 3888 + 54),
    # groups of 2: half the taps; dilated: 1 × 1 positions
    (
        "Conv",
        [_X, "float[6,2,3,3]"],
        ["float[1,6,1,1]"],
        {"group": 2, "dilations": [2, 2]},
        108,
        216,
    ),
    # 100 inputs, each into 3 × 4 taps
    ("ConvTranspose", [_X, "float[4,3,2,2]", "float[3]"], ["float[1,3,6,6]"], {}, 1200, 2400 + 108),
    ("FusedConv", [_X, "float[6,4,3,3]", None, "float[1,6,3,3]"], ["float[1,6,3,3]"],
     {**MS, "activation": "Relu"}, 1944, 3888 + 108),
    ("NhwcConv", ["float[1,5,5,4]", "float[6,4,3,3]"], ["float[1,3,3,6]"], MS, 1944, 3888),
    ("Conv", ["float[1,16,5,5]", "float[16,16,3,3]"], ["float[1,16,3,3]"], NCHWC, 20736, 41472),
    ("Conv", ["float[1,5,5,4]", "float[6,4,3,3]"], ["float[1,3,3,6]"], NHWC, 1944, 3888),
    # the zero point of X: 100
    (
        "ConvInteger",
        ["uint8[1,4,5,5]", "uint8[6,4,3,3]", "uint8[]"],
        ["int32[1,6,3,3]"],
        {},
        1944,
        3888 + 100,
    ),
    # zero points 100 + 216, 54 outputs quantised at 5 and with a bias
    (
        "QLinearConv",
        ["uint8[1,4,5,5]", "float[]", "uint8[]", "uint8[6,4,3,3]", "float[]", "uint8[]",
         "float[]", "uint8[]", "int32[6]"],
        ["uint8[1,6,3,3]"],
        {},
        1944,
        3888 + 316 + 324,
    ),
    # 2 × 3 × 4 outputs of 2 taps, bias
    (
        "CausalConvWithState",
        ["float[2,3,4]", "float[3,1,2]", "float[3]"],
        ["float[2,3,4]"],
        {"opset": 27},
        48,
        96 + 24,
    ),
]  # fmt: skip

POOLS: list[Case] = [
    # 4 × 2 × 2 windows of 4
    ("MaxPool", [_X], ["float[1,4,2,2]"], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 64),
    ("AveragePool", [_X], ["float[1,4,2,2]"], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 80),
    # squares and sums, 16 roots
    ("LpPool", [_X], ["float[1,4,2,2]"], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 144),
    ("GlobalAveragePool", [_X], ["float[1,4,1,1]"], {}, 0, 104),
    ("GlobalMaxPool", [_X], ["float[1,4,1,1]"], {}, 0, 100),
    # 4 samples of 4 corners: 32 FLOPs, 4 to fold, 1 division; 8 outputs
    (
        "RoiAlign",
        ["float[1,2,9,9]", "float[1,4]", "int64[1]"],
        ["float[1,2,2,2]"],
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        0,
        8 * 37,
    ),
    (
        "RoiAlign",
        ["float[1,2,9,9]", "float[1,4]", "int64[1]"],
        ["float[1,2,2,2]"],
        {"output_height": 2, "output_width": 2},
        None,
        None,
    ),
]

CASES = [*ELEMENTWISE, *REDUCTIONS, *PRODUCTS, *CONVOLUTIONS, *POOLS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_node_is_counted_as_by_hand(case: Case) -> None:
    assert_counts(case)
