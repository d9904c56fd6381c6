"""MACs and FLOPs of one node of each family of whole layers and special fields, counted by hand.

The weights that the counts use: exp, log, tanh and their like 8, sigmoid 11 (-x, exp, +1, divide), softmax 12 (max,
subtract, exp, sum, divide), quantise 5, dequantise 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.symbolic.work_models import Case, assert_counts

MS: dict[str, Any] = {"domain": "com.microsoft"}
ML: dict[str, Any] = {"domain": "ai.onnx.ml"}
TRAINING: dict[str, Any] = {"domain": "ai.onnx.preview.training"}
F23 = "float[2,3]"
_X = "float[1,4,5,5]"

NORMALIZATIONS: list[Case] = [
    ("Softmax", [F23], [F23], {}, 0, 72),
    # and 2 logs of 8
    ("LogSoftmax", [F23], [F23], {}, 0, 72 + 16),
    # before opset 13 axis 1 means one row for each of the first axis
    ("LogSoftmax", ["float[2,3,4]"], ["float[2,3,4]"], {"opset": 11, "axis": 1}, 0, 288 + 16),
    ("Hardmax", [F23], [F23], {}, 0, 6),
    # x a + b; 5 for each of 4 channels
    (
        "BatchNormalization",
        [_X, "float[4]", "float[4]", "float[4]", "float[4]"],
        [_X],
        {},
        0,
        200 + 20,
    ),
    # mean 1, centre 1, square and sum 2, divide 1, scale 1, bias 1 = 7; 5 for each of 2 rows
    ("LayerNormalization", [F23, "float[3]", "float[3]"], [F23], {}, 0, 42 + 10),
    # square and sum 2, divide 1, scale 1 = 4; 4 for each row
    ("RMSNormalization", [F23, "float[3]"], [F23], {}, 0, 24 + 8),
    ("InstanceNormalization", [_X, "float[4]", "float[4]"], [_X], {}, 0, 700 + 20),
    ("GroupNormalization", [_X, "float[4]", "float[4]"], [_X], {"num_groups": 2}, 0, 700 + 10),
    # squares, sums, divisions; 2 roots
    ("LpNormalization", [F23], [F23], {}, 0, 20),
    # square, 3 sums, multiply, add, power 17, divide = 24
    ("LRN", [_X], [_X], {"size": 3}, 0, 2400),
    # one sum with skip, then 6 (no beta); 5 for each row
    ("SkipLayerNormalization", ["float[2,1,3]", "float[2,1,3]", "float[3]"], ["float[2,1,3]"],
     MS, 0, 42 + 10),
    # log-softmax of [2, 3]: 72 + 16; 2 targets: sign and sum
    ("SoftmaxCrossEntropyLoss", [F23, "int64[2]"], ["float[]"], {}, 0, 88 + 4),
    ("NegativeLogLikelihoodLoss", [F23, "int64[2]", "float[3]"], ["float[]"], {}, 0, 8),
]  # fmt: skip

RECURRENT: list[Case] = [
    # 5 steps, batch 2, I = 3, H = 4, one direction: 10 × 4 × 7; 40 cells: one sum, tanh
    ("RNN", ["float[5,2,3]", "float[1,4,3]", "float[1,4,4]"], ["float[5,1,2,4]"],
     {"hidden_size": 4}, 280, 560 + 40 * 9),
    # two directions, 3 gates: 10 × 2 × 12 × 7; 80 cells: 3 sums, 2 sigmoids, tanh, reset 1, mix 4;
    # biases 10 × 2 × 24
    ("GRU", ["float[5,2,3]", "float[2,12,3]", "float[2,12,4]", "float[2,24]"], ["float[5,2,2,4]"],
     {"hidden_size": 4, "direction": "bidirectional"}, 1680, 3360 + 80 * (3 + 22 + 8 + 5) + 480),
    # 4 gates: 10 × 16 × 7; peepholes 10 × 12; 40 cells: 4 sums, 3 sigmoids, 2 tanh, 4
    ("LSTM", ["float[5,2,3]", "float[1,16,3]", "float[1,16,4]", None, None, None, None,
              "float[1,12]"], ["float[5,1,2,4]"],
     {"hidden_size": 4}, 1120 + 120, 2480 + 40 * (4 + 33 + 16 + 4)),
]  # fmt: skip

_MHA = {**MS, "num_heads": 2}
ATTENTION: list[Case] = [
    # B 1, H 2, S 3, T 5, D 4, E 6: 30 scores of 4 and of 6 MACs; scale and softmax: 13
    ("Attention", ["float[1,2,3,4]", "float[1,2,5,4]", "float[1,2,5,6]"], ["float[1,2,3,6]"],
     {}, 300, 600 + 390),
    # the same, heads packed, 1 head of keys for 2 of queries, masked and causal: 15
    ("Attention", ["float[1,3,8]", "float[1,5,4]", "float[1,5,6]", "float[3,5]"],
     ["float[1,3,12]"], {"q_num_heads": 2, "kv_num_heads": 1, "is_causal": 1}, 300, 600 + 450),
    # with 7 keys of the past: 72 scores; softcap: divide, tanh, multiply
    ("Attention", ["float[1,2,3,4]", "float[1,2,5,4]", "float[1,2,5,6]", None,
                   "float[1,2,7,4]", "float[1,2,7,6]"], ["float[1,2,3,6]"],
     {"softcap": 2.0}, 720, 1440 + 72 * 23),
    # 3 × 8 input into 24 columns: 576, bias 72; 2 heads of 4: 18 scores × 8 MACs, 13 each
    ("Attention", ["float[1,3,8]", "float[8,24]", "float[24]"], ["float[1,3,8]"], _MHA,
     576 + 144, 1440 + 72 + 18 * 13),
    # S 3, T 5, two heads of 4, values of 3: 30 × 7; bias on 3 × 8 + 5 × 8 + 5 × 6
    ("MultiHeadAttention", ["float[1,3,8]", "float[1,5,8]", "float[1,5,6]", "float[22]"],
     ["float[1,3,6]"], _MHA, 210, 420 + 390 + 94),
    # past of 7: T = 12
    ("MultiHeadAttention", ["float[1,3,8]", "float[1,5,8]", "float[1,5,8]", None, None, None,
                            "float[1,2,7,4]", "float[1,2,7,4]"],
     ["float[1,3,8]"], _MHA, 576, 1152 + 72 * 13),
    # one step, cache of 7, 2 heads over 1: 2 × 8 scores × 8 MACs; scale, causal, softmax;
    # rotated: 3 heads × 4
    ("GroupQueryAttention",
     ["float[1,1,8]", "float[1,1,4]", "float[1,1,4]", "float[1,1,7,4]", "float[1,1,7,4]",
      "int32[1]", "int32[]", "float[9,2]", "float[9,2]"],
     ["float[1,1,8]", "float[1,1,8,4]", "float[1,1,8,4]"],
     {**_MHA, "kv_num_heads": 1, "do_rotary": 1}, 128, 256 + 16 * 14 + 36),
    # 3 steps, one key head of 4 × 5, two query heads: 3 × (20 + 40); outputs scaled 30
    ("LinearAttention", ["float[1,3,8]", "float[1,3,4]", "float[1,3,5]"], ["float[1,3,10]"],
     {"opset": 27, "q_num_heads": 2, "kv_num_heads": 1, "update_rule": "linear"}, 180, 360 + 30),
    # all of 24 numbers, or 2 of each 4
    ("RotaryEmbedding", ["float[1,2,3,4]", "float[1,3,2]", "float[1,3,2]"], ["float[1,2,3,4]"],
     {}, 0, 72),
    ("RotaryEmbedding", ["float[1,2,3,4]", "float[1,3,1]", "float[1,3,1]"], ["float[1,2,3,4]"],
     {"rotary_embedding_dim": 2}, 0, 36),
]  # fmt: skip

QUANTIZED: list[Case] = [
    ("QuantizeLinear", [F23, "float[]", "uint8[]"], ["uint8[2,3]"], {}, 0, 30),
    ("DequantizeLinear", ["uint8[2,3]", "float[]", "uint8[]"], [F23], {}, 0, 12),
    ("DequantizeLinear", ["int8[2,3]", "float[]"], [F23], {}, 0, 6),
    ("DynamicQuantizeLinear", [F23], ["uint8[2,3]", "float[]", "uint8[]"], {}, 0, 42),
    ("QLinearAdd", ["uint8[2,3]", "float[]", "uint8[]", "uint8[3]", "float[]", "uint8[]",
                    "float[]", "uint8[]"], ["uint8[2,3]"], MS, 0, 9 * 2 + 6 * 6),
]  # fmt: skip

_SMALL = "float[1,1,2,2]"
OTHERS: list[Case] = [
    ("Resize", [_SMALL, None, np.array([1, 1, 2, 2], np.float32)], ["float[1,1,4,4]"], {}, 0, 0),
    # along two axes 2 taps each: (4 + 2) products and sums
    ("Resize", [_SMALL, None, np.array([1, 1, 2, 2], np.float32)], ["float[1,1,4,4]"],
     {"mode": "linear"}, 0, 16 * 12),
    # along one axis
    ("Resize", [_SMALL, None, np.array([1, 1, 1, 2], np.float32)], ["float[1,1,2,4]"],
     {"mode": "linear"}, 0, 8 * 4),
    ("Resize", [_SMALL, None, np.array([1, 1, 2, 2], np.float32)], ["float[1,1,4,4]"],
     {"mode": "cubic"}, 0, 16 * 40),
    # 6 to 2: the triangle is three times as wide, 6 taps
    ("Resize", ["float[1,1,6]", None, np.array([1, 1, 1 / 3], np.float32)], ["float[1,1,2]"],
     {"mode": "linear", "antialias": 1}, 0, 2 * 12),
    # 18 numbers of the grid at 3, 9 samples of 6 products and sums
    ("GridSample", [_SMALL, "float[1,3,3,2]"], ["float[1,1,3,3]"], {}, 0, 54 + 108),
    # k = 5: a heap of 3 levels
    ("TopK", ["float[2,10]", np.array([5])], ["float[2,5]", "int64[2,5]"], {}, 0, 20 * 4),
    ("TopK", ["float[2,10]", np.array([1])], ["float[2,1]", "int64[2,1]"], {}, 0, 20),
    # 10 numbers, 4 levels
    ("Unique", ["float[10]"], ["float[k]"], {}, 0, 40),
    # two transforms of 8: 5 × 8 × 3
    ("DFT", ["float[2,8,2]", None, np.array(1)], ["float[2,8,2]"], {}, 0, 240),
    ("DFT", ["float[2,8,1]", None, np.array(1)], ["float[2,5,2]"], {"onesided": 1}, 0, 120),
    # 3 frames of 8: the window, half a transform
    ("STFT", ["float[1,16,1]", np.array(4), "float[8]"], ["float[1,3,5,2]"], {}, 0, 3 * 68),
    ("Rfft", ["float[2,8]"], ["float[2,5,2]"], {**MS, "signal_ndim": 1}, 0, 120),
    ("HannWindow", [np.array(10)], ["float[10]"], {}, 0, 110),
    ("ScatterND", ["float[4,3]", "int64[2,1]", F23], ["float[4,3]"], {"reduction": "add"}, 0, 6),
    ("ScatterND", ["float[4,3]", "int64[2,1]", F23], ["float[4,3]"], {}, 0, 0),
    ("OneHot", ["int64[2]", np.array(3), "float[2]"], [F23], {}, 0, 6),
    ("Range", [np.array(0), np.array(5), np.array(1)], ["int64[5]"], {}, 0, 10),
    # 2 rows, 2 scores of 3 coefficients, intercepts
    ("LinearRegressor", [F23], ["float[2,2]"],
     {**ML, "coefficients": [1.0] * 6, "intercepts": [1.0, 2.0], "targets": 2}, 12, 24 + 4),
    # and softmax of 3 scores, 3 comparisons
    ("LinearClassifier", [F23], ["int64[2]", "float[2,3]"],
     {**ML, "coefficients": [1.0] * 9, "classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"},
     18, 36 + 72 + 6),
    # 4 vectors of 3 and their coefficients; RBF: 12 differences, 4 × (gamma, exp); rho
    ("SVMRegressor", [F23], ["float[2,1]"],
     {**ML, "coefficients": [1.0] * 4, "support_vectors": [1.0] * 12, "rho": [0.5],
      "kernel_type": "RBF", "n_supports": 4}, 32, 64 + 2 * (12 + 36 + 1)),
    ("TreeEnsembleRegressor", [F23], ["float[2,1]"], ML, 0, None),
    ("Scaler", [F23], [F23], ML, 0, 12),
    ("Normalizer", [F23], [F23], {**ML, "norm": "L2"}, 0, 20),
    # two tensors of 6 and 3; momentum 7 each
    ("Momentum", ["float[]", "int64[]", F23, "float[3]", F23, "float[3]", F23, "float[3]"],
     [F23, "float[3]", F23, "float[3]"], {**TRAINING, "mode": "standard"}, 0, 63),
    ("Adam", ["float[]", "int64[]", F23, F23, F23, F23], [F23, F23, F23], TRAINING, 0, 6 * 14),
    ("Transpose", [F23], ["float[3,2]"], {}, 0, 0),
    ("Cast", [F23], ["double[2,3]"], {"to": 11}, 0, 0),
]  # fmt: skip

CASES = [*NORMALIZATIONS, *RECURRENT, *ATTENTION, *QUANTIZED, *OTHERS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_node_is_counted_as_by_hand(case: Case) -> None:
    assert_counts(case)
