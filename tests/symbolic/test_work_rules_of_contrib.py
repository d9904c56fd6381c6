"""MACs and FLOPs, counted by hand, of com.microsoft's operators and of rarer forms of others.

The weights that the counts use: tanh and its like 8, sigmoid 11, Gelu 12 (by tanh 16), softmax 12, quantise 5,
dequantise 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.symbolic.work_models import Case, assert_counts

MS: dict[str, Any] = {"domain": "com.microsoft"}
ML: dict[str, Any] = {"domain": "ai.onnx.ml"}
F23 = "float[2,3]"
U23 = "uint8[2,3]"
_X = "float[1,4,5,5]"
_POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
_MHA: dict[str, Any] = {**MS, "num_heads": 2}

FUSED: list[Case] = [
    # two sums for 24 numbers; one for 6
    ("BiasAdd", ["float[2,3,4]", "float[4]", "float[2,3,4]"], ["float[2,3,4]"], MS, 0, 48),
    ("BiasDropout", [F23, "float[3]"], [F23], MS, 0, 6),
    ("BiasSoftmax", [F23, F23], [F23], {**MS, "axis": 1, "is_inner_broadcast": 0}, 0, 78),
    # both halves with a bias, Gelu, product
    ("BiasSplitGelu", ["float[1,2,8]", "float[8]"], ["float[1,2,4]"], MS, 0, 8 * 15),
    ("QuickGelu", [F23], [F23], MS, 0, 72),
    # alpha·, -, exp, +1, divide, product
    ("SwiGLU", [F23, F23], [F23], {"opset": 28}, 0, 6 * 13),
    ("IsAllFinite", [F23, "float[4]"], ["bool[]"], MS, 0, 10),
    ("GemmFastGelu", [F23, "float[3,4]", "float[4]"], ["float[2,4]"], MS, 24, 48 + 8 * 17),
    # zero points 6 + 12; scale and bias for each of 8
    ("MatMulIntegerToFloat",
     [U23, "uint8[3,4]", "float[]", "float[]", "uint8[]", "uint8[]", "float[4]"],
     ["float[2,4]"], MS, 24, 48 + 18 + 16),
    # C and 5 to quantise for each of 8
    ("QGemm",
     [U23, "float[]", "uint8[]", "uint8[3,4]", "float[]", "uint8[]", "int32[4]", "float[]",
      "uint8[]"], ["uint8[2,4]"], MS, 24, 48 + 18 + 48),
    # word and position: 1; then 7 for each number, 5 for each of 6 rows
    ("EmbedLayerNormalization",
     ["int32[2,3]", None, "float[10,4]", "float[5,4]", None, "float[4]", "float[4]"],
     ["float[2,3,4]", "int32[2]"], MS, 0, 24 * 8 + 30),
    ("SkipSimplifiedLayerNormalization", ["float[2,1,3]", "float[2,1,3]", "float[3]"],
     ["float[2,1,3]"], MS, 0, 6 * 5 + 8),
    ("DynamicTimeWarping", ["float[3,4]"], ["int32[2,k]"], MS, 0, 36),
]  # fmt: skip

_POINT = ["float[]", "uint8[]"]
QUANTIZED: list[Case] = [
    ("QLinearConcat", [*_POINT, U23, *_POINT], [U23], MS, 0, 6 * 7),
    ("QLinearLeakyRelu", [U23, *_POINT, *_POINT], [U23], MS, 0, 6 * 9),
    ("QLinearSigmoid", [U23, *_POINT, *_POINT], [U23], MS, 0, 6 * 18),
    ("QLinearSoftmax", [U23, *_POINT, *_POINT], [U23], {**MS, "opset": 13}, 0, 6 * 19),
    ("QLinearWhere", ["bool[2,3]", U23, *_POINT, U23, *_POINT, *_POINT], [U23], MS, 0, 6 * 8),
]  # fmt: skip

ATTENTION: list[Case] = [
    # 20 columns of 8 for 3 steps; 30 pairs of (8 + 4) with 7 of the past; 60 scores of 13
    ("Attention", ["float[1,3,8]", "float[8,20]", None, None, "float[2,1,2,7,4]"],
     ["float[1,3,4]", "float[2,1,2,10,4]"], {**_MHA, "qkv_hidden_sizes": [8, 8, 4]},
     480 + 360, 1680 + 780),
    # all three packed: 9 pairs, 18 scores
    ("MultiHeadAttention", ["float[1,3,2,3,4]"], ["float[1,3,8]"], _MHA, 144, 288 + 234),
    # keys packed with values, and both from a cache: 15 pairs, 30 scores
    ("MultiHeadAttention", ["float[1,3,8]", "float[1,5,2,2,4]"], ["float[1,3,8]"], _MHA,
     240, 480 + 390),
    ("MultiHeadAttention", ["float[1,3,8]", "float[1,2,5,4]", "float[1,2,5,4]"],
     ["float[1,3,8]"], _MHA, 240, 480 + 390),
    # queries of 2 heads packed with one of keys and one of values; causal
    ("GroupQueryAttention",
     ["float[1,2,16]", None, None, None, None, "int32[1]", "int32[]"], ["float[1,2,8]"],
     {**_MHA, "kv_num_heads": 1}, 64, 128 + 8 * 14),
    # state of 4 × 5: to read it for k, to write it, and to read it for two queries; decay 20 and
    # exp, 10 for the delta rule, 10 to scale
    ("LinearAttention",
     ["float[1,3,8]", "float[1,3,4]", "float[1,3,5]", "float[1,1,4,5]", "float[1,3,1]",
      "float[1,3,1]"], ["float[1,3,10]"],
     {"opset": 27, "q_num_heads": 2, "kv_num_heads": 1}, 3 * 80, 480 + 3 * (20 + 8 + 10 + 10)),
]  # fmt: skip

RARER: list[Case] = [
    # 27 outputs of 8 taps; 72 samples of 4 corners; 72 offsets
    ("DeformConv", ["float[1,2,4,4]", "float[3,2,2,2]", "float[1,8,3,3]"], ["float[1,3,3,3]"],
     {"kernel_shape": [2, 2]}, 216, 432 + 576 + 72),
    ("Col2Im", ["float[1,8,4]", np.array([3, 3]), np.array([2, 2])], ["float[1,2,3,3]"],
     {}, 0, 32),
    ("GlobalLpPool", [_X], ["float[1,4,1,1]"], {}, 0, 204),
    # |x|, its power 17, the sum; the root 17
    ("LpPool", [_X], ["float[1,4,2,2]"], {**_POOL, "p": 3}, 0, 16 * (4 * 19 + 17)),
    ("MeanVarianceNormalization", [_X], [_X], {}, 0, 500 + 20),
    ("BatchNormalization", [_X, "float[4]", "float[4]", "float[4]", "float[4]"],
     [_X, "float[4]", "float[4]"], {"training_mode": 1}, 0, 600 + 20),
    ("Bernoulli", [F23], [F23], {}, 0, 18),
    # two logs or cosines, and 6
    ("RandomNormal", [], [F23], {"shape": [2, 3]}, 0, 6 * 22),
    ("RandomUniformLike", [F23], [F23], {}, 0, 12),
    ("Binarizer", [F23], [F23], ML, 0, 6),
    ("Imputer", [F23], [F23], {**ML, "imputed_value_floats": [0.0]}, 0, 6),
    ("OneHotEncoder", ["int64[2]"], [F23], {**ML, "cats_int64s": [0, 1, 2]}, 0, 6),
    # probabilities are fitted by iteration
    ("SVMClassifier", [F23], ["int64[2]", "float[2,2]"],
     {**ML, "coefficients": [1.0] * 4, "support_vectors": [1.0] * 12, "rho": [0.5],
      "prob_a": [1.0], "prob_b": [1.0], "classlabels_ints": [0, 1]}, 32, None),
    # norm 2, squares 2, root, epsilon, step 3
    ("Adagrad", ["float[]", "int64[]", F23, F23, F23], [F23, F23],
     {"domain": "ai.onnx.preview.training"}, 0, 54),
    ("GRU", ["float[5,2,3]", "float[1,12,3]", "float[1,12,4]"], ["float[5,1,2,4]"],
     # relu and hard sigmoid, each clipped by two comparisons
     {"hidden_size": 4, "activations": ["HardSigmoid", "Relu"], "clip": 3.0},
     840, 1680 + 40 * (3 + 1 + 4 + 2 * 4 + 1 + 6)),
]  # fmt: skip

LATER: list[Case] = [
    # halves of 6: Swish and the product 13, beta 1, clamps 3
    ("SwiGLU", ["float[2,6]"], [F23], {**MS, "limit": 7.0, "activation_beta": 1.0}, 0, 6 * 17),
    ("ScaledSiLU", [F23], [F23], MS, 0, 6 * 12),
    # 7 to normalise and 11 for SiLU, 5 for each of 2 groups
    ("GroupNorm", ["float[1,2,2,4]", "float[4]", "float[4]"], ["float[1,2,2,4]"],
     {**MS, "groups": 2, "activation": 1}, 0, 16 * 18 + 10),
    ("MatMulBnb4", ["float[2,32]", "uint8[64]", "float[4]"], ["float[2,4]"],
     {**MS, "K": 32, "N": 4, "block_size": 32, "quant_type": 1}, 256, 512 + 128),
    # as LSTM: 10 × 16 × 7, 40 cells of 57; 8 to scale each; 30 + 40 numbers quantised at 7
    ("DynamicQuantizeLSTM", ["float[5,2,3]", "int8[1,3,16]", "int8[1,4,16]"],
     ["float[5,1,2,4]"], {**MS, "hidden_size": 4}, 1120, 2240 + 40 * 65 + 490),
    # as Attention; zero points of 24 and 192; 72 scaled
    ("QAttention",
     ["uint8[1,3,8]", "uint8[8,24]", "float[24]", "float[]", "float[]", None, "uint8[]",
      "uint8[]"], ["float[1,3,8]"], _MHA, 576 + 144, 1440 + 72 + 234 + 24 + 192 + 72),
    # 4 tokens of 2 items that may be 3 long: 18 pairs, 36 scores; 4 × 24 biases
    ("PackedAttention",
     ["float[4,8]", "float[8,24]", "float[24]", "int32[2,3]", "int32[3]"], ["float[4,8]"],
     _MHA, 768 + 288, 2112 + 468 + 96),
    ("PackedMultiHeadAttention",
     ["float[4,2,3,4]", None, None, None, "int32[2,3]", "int32[3]"], ["float[4,8]"], _MHA,
     288, 576 + 468),
    # a past of 7 and one more: 8 pairs, 16 scores
    ("DecoderMaskedMultiHeadAttention",
     ["float[1,1,8]", "float[1,1,8]", "float[1,1,8]", None, None, "float[1,2,7,4]",
      "float[1,2,7,4]"], ["float[1,1,8]"], _MHA, 128, 256 + 208),
    # 12 cosines and sines; 48 numbers
    ("GemmaRotaryEmbedding",
     ["float[1,3,4]", "float16[1,2,3,4]", "float16[1,2,3,4]", "float16[1,2,3,4]",
      "float16[1,2,3,4]"], ["float16[1,2,3,4]", "float16[1,2,3,4]"], MS, 0, 192 + 144),
    # 24 numbers into 8 gates; their bias; for 6 rows 8 + 8 + 22 + 4; 18 products
    ("GatedRelativePositionBias",
     ["float[1,3,8]", "float[8]", "float[1,2,3,3]", "float[4,8]", "float[8]", "float[1,2,1,1]"],
     ["float[1,2,3,3]"], _MHA, 192, 384 + 24 + 252 + 18),
    # two tables of 24 numbers dequantised
    ("QEmbedLayerNormalization",
     ["int32[2,3]", None, "uint8[10,4]", "uint8[5,4]", None, "uint8[4]", "uint8[4]", None,
      "float[]", "float[]", None, "float[]", "float[]"], ["float[2,3,4]", "int32[2]"],
     MS, 0, 24 * 8 + 30 + 96),
    # two key heads for one of queries: states of 2 × 4 × 5
    ("LinearAttention", ["float[1,3,4]", "float[1,3,8]", "float[1,3,10]"], ["float[1,3,10]"],
     {**MS, "q_num_heads": 1, "kv_num_heads": 2, "update_rule": "linear"}, 240, 480 + 30),
    # 15 pairs, whatever the heads
    ("RelativePositionBias", ["float[32,2]", np.array([3]), np.array([5])], ["float[1,2,3,5]"],
     {**MS, "max_distance": 128}, 0, 15 * 13),
]  # fmt: skip

REDUCED: list[Case] = [
    # 6 dequantised and added, 2 divided and quantised
    ("QLinearReduceMean", [U23, *_POINT, *_POINT], ["uint8[2,1]"], {**MS, "axes": [1]}, 0, 30),
    # 100 dequantised; 16 windows: 4 sums, a division, quantised
    ("QLinearAveragePool", ["uint8[1,4,5,5]", *_POINT, *_POINT], ["uint8[1,4,2,2]"],
     {**MS, **_POOL}, 0, 200 + 160),
    ("QLinearGlobalAveragePool", ["uint8[1,4,5,5]", *_POINT, *_POINT], ["uint8[1,4,1,1]"],
     {**MS, "channels_last": 0}, 0, 300 + 24),
    ("MelWeightMatrix",
     [np.array(3), np.array(8), np.array(16), np.array(0.0, np.float32),
      np.array(8.0, np.float32)], ["float[5,3]"], {}, 0, 60),
]  # fmt: skip

CASES = [*FUSED, *QUANTIZED, *ATTENTION, *RARER, *LATER, *REDUCED]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_node_is_counted_as_by_hand(case: Case) -> None:
    assert_counts(case)
