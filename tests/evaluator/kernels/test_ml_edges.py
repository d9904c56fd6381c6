"""ai.onnx.ml where types, equal keys, empty tensors and unusual attributes meet: by hand and against onnxruntime."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.evaluator.kernels.harness import run, run_node
from tests.evaluator.kernels.one_node import by_both
from tests.evaluator.kernels.test_ml import ML, X, agree, forest


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("threshold", [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0])
def test_a_threshold_between_integers(dtype: Any, threshold: float) -> None:
    x = np.array([-2, -1, 0, 1, 2], dtype)
    y = run("Binarizer", x, domain=ML, opset=1, threshold=threshold)
    assert y.dtype == dtype
    assert y.tolist() == [float(one > threshold) for one in x.tolist()]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.float32, [1.5, 7]), (np.float64, [1.5, 7]), (np.int64, [0, 5]), (np.int32, [0, 5])],
)
def test_values_for_the_kind_of_x(dtype: Any, expected: list[float]) -> None:
    attributes: dict[str, Any] = {
        "imputed_value_floats": [1.5],
        "replaced_value_float": 0.0,
        "imputed_value_int64s": [5],
        "replaced_value_int64": 7,
    }
    y = run("Imputer", np.array([0, 7], dtype), domain=ML, opset=1, **attributes)
    assert y.tolist() == expected


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Imputer", [np.array([1])], {}, "imputed_value"),
        ("Imputer", [np.array([1])], {"imputed_value_floats": [1.5]}, "cannot put"),
        ("ArrayFeatureExtractor", [np.array(1), np.array([0])], {}, "rank 1"),
        ("FeatureVectorizer", [X[:2], X[:4]], {"inputdimensions": [4, 2]}, "2 rows"),
        ("SVMClassifier", [X], {"coefficients": [1.0] * 4}, "labels"),
        (
            "SVMClassifier",
            [X],
            {"coefficients": [1.0], "support_vectors": [1.0] * 4, "vectors_per_class": [1], "classlabels_ints": [1]},
            "labels",
        ),
        ("SVMRegressor", [X], {"n_supports": 0}, "coefficients"),
        ("LinearRegressor", [X], {}, "0 coefficients"),
        ("LinearRegressor", [X], {"coefficients": [1.0] * 5, "targets": 2}, "5 coefficients for 2"),
        ("TreeEnsembleRegressor", [X], {}, "nodes_treeids"),
        ("TreeEnsembleRegressor", [X], {"nodes_treeids": [0], "nodes_nodeids": [0]}, "nodes_featureids has 0"),
        ("TreeEnsembleClassifier", [X], forest(0, 1, 1, ["BRANCH_LEQ"])[0], "classlabels"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(op: str, inputs: Any, attributes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(op, *inputs, domain=ML, opset=1, outputs=2 if "Classifier" in op else 1, **attributes)


@pytest.mark.parametrize("shape", [(0, 4), (0, 1)])
def test_no_rows(shape: tuple[int, int]) -> None:
    x = np.zeros(shape, np.float32)
    agree(*by_both("FeatureVectorizer", x, domain=ML, opset=1, inputdimensions=[3]))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("kind", ["pool_int64s", "pool_strings"])
def test_rows_without_terms(shape: tuple[int, ...], kind: str) -> None:
    texts = kind == "pool_strings"
    attributes: dict[str, Any] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 1],
        "ngram_indexes": [0, 1],
        kind: ["a", "a", "b"] if texts else [1, 1, 2],
    }
    x = np.empty(shape, object) if texts else np.empty(shape, np.int64)
    agree(*by_both("TfIdfVectorizer", x, opset=9, **attributes))


def test_equal_categories() -> None:
    x = np.array([2, 1, 3])
    agree(*by_both("OneHotEncoder", x, domain=ML, opset=1, cats_int64s=[2, 2, 1]))


KEYS: dict[str, list[Any]] = {
    "strings": ["a", "b", "a"],
    "int64s": [4, -1, 4],
    "floats": [1.5, -0.5, 1.5],
}


@pytest.mark.parametrize("opset", [2, 4])
@pytest.mark.parametrize("values", list(KEYS))
@pytest.mark.parametrize("keys", list(KEYS))
def test_the_first_of_equal_keys(keys: str, values: str, opset: int) -> None:
    dtype = {"strings": object, "int64s": np.int64, "floats": np.float32}[keys]
    x = np.array(KEYS[keys][:2], dtype)
    attributes: dict[str, Any] = {
        f"keys_{keys}": KEYS[keys],
        f"values_{values}": {"strings": ["x", "y", "z"], "int64s": [7, 8, 9]}.get(values, [7.5, 8.5, 9.5]),
    }  # fmt: skip
    agree(*by_both("LabelEncoder", x, domain=ML, opset=opset, **attributes))


def test_keys_of_another_type() -> None:
    attributes: dict[str, Any] = {"keys_int64s": [1], "values_int64s": [2]}
    with pytest.raises(ValueError, match="expects X of int64, got object"):
        run("LabelEncoder", np.array(["1"], object), domain=ML, opset=2, **attributes)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_no_kernel_without_support_vectors(kernel: str) -> None:
    attributes: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.2, 2.0],
        "rho": [0.25],
    }
    agree(
        *by_both(
            "SVMRegressor", X, domain=ML, opset=1, coefficients=[1.0, -2.0, 0.5, 3.0], **attributes
        )
    )
    attributes |= {"classlabels_ints": [5, 6, 7], "coefficients": np.linspace(-1, 1, 12).tolist()}
    agree(*by_both("SVMClassifier", X, domain=ML, opset=1, outputs=2, **attributes))


def ensemble(weights: Any, x: Any, **attributes: Any) -> Any:
    """Trees of one branch each, feature 0 <= 0, whose true leaves have these weights; the others have 0."""
    count = len(weights)
    tensors = {
        "nodes_splits": np.zeros(count, x.dtype),
        "leaf_weights": np.stack((weights, np.zeros(count))).T.reshape(-1).astype(x.dtype),
        "nodes_modes": attributes.pop("modes", np.zeros(count, np.uint8)),
    }
    numbers = list(range(count))
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        nodes_featureids=[0] * count,
        nodes_truenodeids=[2 * n for n in numbers],
        nodes_falsenodeids=[2 * n + 1 for n in numbers],
        nodes_trueleafs=[1] * count,
        nodes_falseleafs=[1] * count,
        leaf_targetids=[0, 0] * count,
        tree_roots=numbers,
        **{name: numpy_helper.from_array(value) for name, value in tensors.items()},
        **attributes,
    )
    return run_node(node, [x], 5)[0]


@pytest.mark.parametrize(("aggregate", "expected"), [(0, (2048 + 64) / 65), (1, 2048 + 64)])
def test_narrow_weights_are_summed_wide(aggregate: int, expected: float) -> None:
    """In float16, 2048 + 1 is 2048: trees of weight 1 behind a large one would be lost."""
    weights = np.ones(65)
    weights[0] = 2048
    y = ensemble(weights, np.array([[-1], [1]], np.float16), aggregate_function=aggregate)
    assert y.dtype == np.float16
    assert y.tolist() == [[float(np.float16(expected))], [0]]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"aggregate_function": 4}, "3 .MAX."),
        ({"aggregate_function": -1}, "3 .MAX."),
        ({"post_transform": 5}, "4 .PROBIT."),
        ({"modes": np.array([7], np.uint8)}, "from 0 to 6"),
    ],
)
def test_numbers_that_name_nothing(attributes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ensemble(np.ones(1), np.zeros((1, 1), np.float32), **attributes)


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("MIN", 1), ("MAX", 5), ("SUM", 9), ("AVERAGE", 9)]
)
def test_several_weights_of_one_leaf(aggregate: str, expected: float) -> None:
    nodes, _ = forest(0, 1, 0, ["BRANCH_LEQ"])
    y = run(
        "TreeEnsembleRegressor",
        X[:1],
        opset=3,
        domain=ML,
        **nodes,
        target_treeids=[0] * 3,
        target_nodeids=[0] * 3,
        target_ids=[0] * 3,
        target_weights=[1.0, 5.0, 3.0],
        n_targets=1,
        aggregate_function=aggregate,
    )
    assert y.tolist() == [[expected]]


@pytest.mark.parametrize(
    "modes", [["BRANCH_LEQ"], ["BRANCH_LT", "BRANCH_GTE", "BRANCH_EQ"]], ids=len
)
@pytest.mark.parametrize("depth", [0, 3, 12])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_single_row(row: int, depth: int, modes: list[str]) -> None:
    """It takes another way than several rows do, except through large trees."""
    nodes, leaves = forest(3, 2, depth, modes)
    x = X[row : row + 1].copy()
    x[0, row] = np.nan
    attributes: dict[str, Any] = {
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [node for _, node in leaves],
        "target_ids": [0] * len(leaves),
        "target_weights": np.linspace(-1, 1, len(leaves)).astype(np.float32).tolist(),
        "n_targets": 1,
    }
    agree(*by_both("TreeEnsembleRegressor", x, domain=ML, opset=3, **nodes, **attributes))


@pytest.mark.parametrize(
    ("cast_to", "values", "expected"),
    [
        ("TO_FLOAT", {0: "1.5", 2: "-2"}, [1.5, 0, -2]),
        ("TO_INT64", {0: "1.5", 2: "-2"}, [1, 0, -2]),
        ("TO_INT64", {2: "9007199254740993"}, [0, 0, 2**53 + 1]),
        ("TO_FLOAT", {1: 1.5, 3: 7.0, 9: 8.0}, [0, 1.5, 0]),
        ("TO_STRING", {1: "x", 3: "y"}, ["", "x", ""]),
    ],
)
def test_sparse_maps(cast_to: str, values: dict[int, Any], expected: list[Any]) -> None:
    node = helper.make_node(
        "CastMap", ["x"], ["y"], domain=ML, cast_to=cast_to, map_form="SPARSE", max_map=3
    )
    assert run_node(node, [values], 1)[0].tolist() == [expected]


def test_two_classes_under_probit() -> None:
    """onnxruntime transforms one of the two scores and leaves the other to chance."""
    attributes: dict[str, Any] = {
        "coefficients": [0.3, 0.4],
        "support_vectors": [1.0, 1.0],
        "vectors_per_class": [1, 1],
        "rho": [0.0],
        "classlabels_ints": [0, 1],
        "post_transform": "PROBIT",
    }
    x = np.array([[1.0], [0.5]], np.float32)
    _, scores = run("SVMClassifier", x, domain=ML, opset=1, outputs=2, **attributes)
    inverse = NormalDist().inv_cdf
    expected = [[inverse(0.3), inverse(0.7)], [inverse(0.65), inverse(0.35)]]
    np.testing.assert_allclose(scores, expected, rtol=1e-2)
