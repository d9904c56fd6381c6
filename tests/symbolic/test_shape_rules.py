"""Rules of each family, at several sizes, against what the evaluator gives at these sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from tests.symbolic.checking import inferred, verdict

MS, ML = "com.microsoft", "ai.onnx.ml"
NCHWC, NHWC = "com.microsoft.nchwc", "com.ms.internal.nhwc"
FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8


Shapes = Mapping[str, Sequence[int | str]]


class Family(NamedTuple):
    """One node, its inputs over dimensions, constants, and sizes to run it at."""

    op: str
    inputs: Shapes
    constants: Mapping[str, Any] = {}
    attributes: Mapping[str, Any] = {}
    domain: str = ""
    outputs: int = 1
    code: int = FLOAT
    opset: int = 21
    order: Sequence[str] | None = None


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


X: Shapes = {"X": ["A", "B"]}
XY: Shapes = {"X": ["A", "B", "H", "W"]}
W3 = {"W": np.ones((4, 3, 3, 2), np.float32)}
PICTURE: Shapes = {"X": ["A", 3, "H", "W"]}
ONE, ZERO = np.float32(0.5), np.uint8(1)

FAMILIES = {
    "slice_negative": Family(
        "Slice", X, {"s": ints(-3), "e": ints(2**62), "a": ints(1), "t": ints(1)}
    ),
    "slice_backwards": Family(
        "Slice", X, {"s": ints(-1), "e": ints(-(2**62)), "a": ints(0), "t": ints(-2)}
    ),
    "slice_from_far_before": Family(
        "Slice", X, {"s": ints(-100), "e": ints(-1), "a": ints(1), "t": ints(3)}
    ),
    "bnb4": Family(
        "MatMulBnb4",
        {"X": ["A", "B", 32]},
        {"w": np.zeros(80, np.uint8), "s": np.ones(10, np.float32)},
        {"N": 5, "K": 32, "block_size": 16, "quant_type": 1},
        domain="com.microsoft",
    ),
    "gathered_blocks": Family(
        "GatherBlockQuantized",
        {"I": ["A", "B"]},
        {"w": np.zeros((40, 16), np.uint8), "s": np.ones((40, 2), np.float32)},
        {"block_size": 16},
        domain="com.microsoft",
        code=INT64,
        order=("w", "I", "s"),
    ),
    "swiglu_of_both": Family("SwiGLU", {"X": ["A", "B", 6]}, domain="com.microsoft"),
    "position_bias": Family(
        "RelativePositionBias",
        {},
        {"t": np.ones((8, 3), np.float32), "q": ints(4), "k": ints(6)},
        {"max_distance": 20},
        domain="com.microsoft",
    ),
    "split_uneven": Family("Split", X, attributes={"num_outputs": 3}, outputs=3),
    "split_lengths": Family("Split", {"X": [7, "B"]}, {"s": ints(2, 4, 1)}, outputs=3),
    "pad_axes": Family("Pad", X, {"p": ints(1, -1), "v": ONE, "a": ints(-1)}),
    "gather": Family("Gather", X, {"i": ints(0, 0, 0)}, {"axis": 1}),
    "tile": Family("Tile", X, {"r": ints(2, 3)}),
    "expand": Family("Expand", X, {"s": ints(2, 1, 1)}),
    "squeeze": Family("Squeeze", {"X": ["A", 1, "B"]}, {"a": ints(1)}),
    "flatten": Family("Flatten", XY, attributes={"axis": 2}),
    "matmul_vector": Family("MatMul", {"X": ["A", "B", 3], "Y": [3]}),
    "matmul_batches": Family("MatMul", {"X": ["A", 2, 3], "Y": [1, 3, "B"]}),
    "gemm": Family("Gemm", {"X": ["A", 3], "Y": ["B", 3]}, attributes={"transB": 1}),
    "conv": Family("Conv", PICTURE, W3, {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
    "conv_same": Family("Conv", PICTURE, W3, {"strides": [2, 4], "auto_pad": "SAME_UPPER"}),
    "conv_dilated": Family("Conv", PICTURE, W3, {"dilations": [2, 3], "pads": [2, 2, 2, 2]}),
    "conv_transpose": Family(
        "ConvTranspose",
        {"X": ["A", 4, "H", "W"]},
        W3,
        {"strides": [2, 3], "output_padding": [1, 0]},
    ),
    "max_pool_ceil": Family(
        "MaxPool",
        XY,
        attributes={
            "kernel_shape": [2, 3],
            "strides": [3, 2],
            "pads": [0, 1, 1, 1],
            "ceil_mode": 1,
        },
        outputs=2,
    ),
    "average_pool_same": Family(
        "AveragePool",
        XY,
        attributes={"kernel_shape": [3, 1], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    ),
    "lp_pool": Family("LpPool", XY, attributes={"kernel_shape": [2, 2]}),
    "resize_scales": Family(
        "Resize", XY, {"r": floats(), "s": floats(1, 1, 0.6, 2.5)}, {"mode": "linear"}
    ),
    "resize_not_larger": Family(
        "Resize",
        XY,
        {"r": floats(), "c": floats(), "s": ints(5, 7)},
        {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
    ),
    "resize_not_smaller": Family(
        "Resize",
        XY,
        {"r": floats(), "c": floats(), "s": ints(5, 7)},
        {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"},
    ),
    "upsample": Family("Upsample", XY, {"s": floats(1, 1, 2, 3)}, opset=9),
    "space_to_depth": Family("SpaceToDepth", {"X": ["A", "B", 4, 6]}, attributes={"blocksize": 2}),
    "stft": Family("STFT", {"X": ["A", 40, 1]}, {"s": np.int64(4), "w": np.ones(8, np.float32)}),
    "lstm": Family(
        "LSTM",
        {"X": ["A", "B", 3]},
        {"W": np.ones((2, 16, 3), np.float32), "R": np.ones((2, 16, 4), np.float32)},
        {"hidden_size": 4, "direction": "bidirectional"},
        outputs=3,
    ),
    "gru_batches_first": Family(
        "GRU",
        {"X": ["A", "B", 3]},
        {"W": np.ones((1, 12, 3), np.float32), "R": np.ones((1, 12, 4), np.float32)},
        {"hidden_size": 4, "layout": 1},
        outputs=2,
    ),
    "compress": Family("Compress", X, {"c": np.array([True])}, {"axis": 0}),
    "unique": Family("Unique", X, attributes={"axis": 0}, outputs=4),
    "unique_of_all": Family("Unique", X, outputs=4),
    "non_zero": Family("NonZero", X),
    "scaler": Family(
        "Scaler", {"X": ["A", 3]}, attributes={"offset": [0.0], "scale": [2.0]}, domain=ML
    ),
    "linear_classifier": Family(
        "LinearClassifier",
        {"X": ["A", 2]},
        attributes={"coefficients": [1.0, -1.0], "intercepts": [0.0], "classlabels_ints": [3, 4]},
        domain=ML,
        outputs=2,
    ),
    "linear_regressor": Family(
        "LinearRegressor",
        {"X": ["A", 2]},
        attributes={"coefficients": [1.0] * 6, "intercepts": [0.0] * 3, "targets": 3},
        domain=ML,
    ),
    "one_hot_encoder": Family(
        "OneHotEncoder", X, attributes={"cats_int64s": [1, 2, 3]}, domain=ML, code=INT64
    ),
    "feature_vectorizer": Family("FeatureVectorizer", {"X": ["A", "B"], "Y": ["A", 2]}, domain=ML),
    "label_encoder": Family(
        "LabelEncoder",
        X,
        attributes={"keys_int64s": [1, 2], "values_strings": ["a", "b"]},
        domain=ML,
        code=INT64,
    ),
    "feature_extractor": Family(
        "ArrayFeatureExtractor", {"X": ["A", 5]}, {"i": ints(0, 2)}, domain=ML
    ),
    "fused_matmul": Family(
        "FusedMatMul", {"X": ["A", 3, "B"], "Y": [3, 5]}, attributes={"transA": 1}, domain=MS
    ),
    "bias_split_gelu": Family(
        "BiasSplitGelu", {"X": ["A", "B", 64]}, {"b": np.ones(64, np.float32)}, domain=MS
    ),
    "unfold": Family("UnfoldTensor", X, attributes={"size": 1, "step": 2}, domain=MS),
    "q_linear_add": Family(
        "QLinearAdd",
        {"X": ["A", "B"], "Y": [1, "B"]},
        {"xs": ONE, "xz": ZERO, "ys": ONE, "yz": ZERO, "zs": ONE, "zz": ZERO},
        domain=MS,
        code=UINT8,
        order=["X", "xs", "xz", "Y", "ys", "yz", "zs", "zz"],
    ),
    "multi_head_attention": Family(
        "MultiHeadAttention",
        {"q": ["A", "B", 8], "k": ["A", "H", 8], "v": ["A", "H", 4]},
        attributes={"num_heads": 2},
        domain=MS,
        outputs=1,
    ),
    "nhwc_max_pool": Family(
        "NhwcMaxPool",
        {"X": ["A", "H", "W", 3]},
        attributes={"kernel_shape": [2, 2], "strides": [2, 1]},
        domain=MS,
        code=UINT8,
    ),
    "reorder_input": Family("ReorderInput", {"X": ["A", 20, "H", "W"]}, domain=NCHWC),
    "reorder_output": Family(
        "ReorderOutput", {"X": ["A", 32, "H", "W"]}, attributes={"channels": 20}, domain=NCHWC
    ),
    "nchwc_pool": Family(
        "MaxPool",
        {"X": ["A", 16, "H", "W"]},
        attributes={"kernel_shape": [3, 2], "strides": [2, 2]},
        domain=NCHWC,
    ),
    "nhwc_global_pool": Family("GlobalAveragePool", {"X": ["A", "H", "W", 3]}, domain=NHWC),
}

SIZES = (
    {"A": 1, "B": 1, "H": 3, "W": 3},
    {"A": 2, "B": 3, "H": 5, "W": 8},
    {"A": 3, "B": 6, "H": 10, "W": 7},
    {"A": 5, "B": 8, "H": 11, "W": 12},
)


def model_of(family: Family) -> ModelProto:
    names = list(family.order or [*family.inputs, *family.constants])
    outputs = [f"y{number}" for number in range(family.outputs)]
    node = helper.make_node(
        family.op, names, outputs, domain=family.domain, **dict(family.attributes)
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, family.code, shape)
            for name, shape in family.inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in family.constants.items()],
    )
    versions = {"": family.opset, MS: 1, ML: 3, NCHWC: 1, NHWC: 1}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    family = FAMILIES[name]
    model = model_of(family)
    found = inferred(model)
    evaluator = onp.ReferenceEvaluator(model, kernels="numpy")
    dtype = helper.tensor_dtype_to_np_dtype(family.code)
    for sizes in SIZES:
        feeds = {
            key: np.ones([size if isinstance(size, int) else sizes[size] for size in shape], dtype)
            for key, shape in family.inputs.items()
        }
        results = evaluator.run(None, feeds)
        for number, result in enumerate(results):
            assert verdict(found, f"y{number}", result, sizes) != "unknown", found.types


def test_bounds_of_what_data_decides() -> None:
    found = inferred(model_of(FAMILIES["non_zero"]))
    (dim,) = found.data_dims.values()
    assert (dim.value, dim.axis, dim.node, dim.op, str(dim.bound)) == ("y0", 1, 0, "NonZero", "A*B")
    kind = found.types["y0"]
    assert isinstance(kind, ValueType)
    assert [str(size) for size in kind.shape] == ["2", dim.name]


def test_every_kernel_of_other_domains_has_a_rule() -> None:
    from onnx_shape_inference import registry

    from onnx_notebook_profiler.evaluator.registry import registrations
    from onnx_notebook_profiler.symbolic.rules import find_rule

    theirs = {(domain, op) for domain, op, _ in registry.iter_supported()}
    without = {
        (entry.domain, entry.op_type)
        for entry in registrations()
        if find_rule(entry.domain, entry.op_type) is None
        and (entry.domain, entry.op_type) not in theirs
    }
    assert without == set()


def test_the_engine_keeps_its_own_rules_for_others() -> None:
    import onnx_ir as ir
    from onnx_shape_inference import infer_symbolic_shapes

    model = model_of(FAMILIES["linear_regressor"])
    inferred(model)
    theirs = ir.from_proto(model)
    infer_symbolic_shapes(theirs, warn_on_missing=False)
    assert theirs.graph.outputs[0].shape is None


def test_unknown_says_what_it_follows_from() -> None:
    nodes = [
        helper.make_node("Unheard", ["X"], ["a"], domain="d"),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Add", ["b", "b"], ["c"]),
        helper.make_node("Abs", ["X"], ["e"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("X", FLOAT, ["A"])],
        [helper.make_empty_tensor_value_info(name) for name in "ce"],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    types = inferred(helper.make_model(graph, opset_imports=imports)).types
    assert types["a"] == UnknownSize("no shape rule for its operator")
    for name in "bc":
        assert types[name] == UnknownSize("follows from 'a': no shape rule for its operator")
    assert isinstance(types["e"], ValueType)
