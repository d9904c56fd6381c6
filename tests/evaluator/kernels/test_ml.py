"""ai.onnx.ml against onnxruntime: trees, linear models, support vectors and the preparation of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

ML = "ai.onnx.ml"
RNG = np.random.default_rng(11)
X = RNG.standard_normal((17, 4)).astype(np.float32)
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(
    seed: int, trees: int, depth: int, modes: list[str]
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Attributes of full binary trees, and their leaves as (tree, node)."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
            "missing_value_tracks_true", "hitrates",
        )
    }  # fmt: skip
    leaves = []
    for tree in range(trees):
        for node in range(2 ** (depth + 1) - 1):
            leaf = node >= 2**depth - 1
            row = (
                tree,
                node,
                0 if leaf else int(rng.integers(4)),
                0.0 if leaf else float(np.float32(rng.standard_normal() * 0.7)),
                "LEAF" if leaf else modes[int(rng.integers(len(modes)))],
                0 if leaf else 2 * node + 1,
                0 if leaf else 2 * node + 2,
                int(rng.integers(2)) if not leaf else 0,
                1.0,
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            if leaf:
                leaves.append((tree, node))
    return {f"nodes_{name}": column for name, column in columns.items()}, leaves


def agree(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        else:
            assert one.tolist() == other.tolist()


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], MODES], ids=["leq", "all"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(modes: Any, aggregate: str, targets: int) -> None:
    """Each leaf gives something to each target: onnxruntime adds no base value where nothing was given."""
    nodes, leaves = forest(1, 5, 3, modes)
    x = X.copy()
    x[3, 1] = np.nan
    entries = [(tree, node, target) for tree, node in leaves for target in range(targets)]
    agree(
        *by_both(
            "TreeEnsembleRegressor",
            x,
            domain=ML,
            opset=3,
            **nodes,
            target_treeids=[tree for tree, _, _ in entries],
            target_nodeids=[node for _, node, _ in entries],
            target_ids=[target for _, _, target in entries],
            target_weights=RNG.standard_normal(len(entries)).astype(np.float32).tolist(),
            n_targets=targets,
            aggregate_function=aggregate,
            base_values=[0.5] * targets,
        )
    )


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(
    ("classes", "ids", "positive", "base"),
    [
        (3, 3, True, 0),
        (3, 3, False, 3),
        (2, 1, True, 0),
        (2, 1, False, 0),
        (2, 1, False, 1),
    ],
)
def test_classifier(post: str, classes: int, ids: int, positive: bool, base: int) -> None:
    nodes, leaves = forest(2, 4, 3, ["BRANCH_LEQ"])
    rng = np.random.default_rng(classes * 10 + ids)
    weights = rng.random(len(leaves)) / 4 if positive else rng.standard_normal(len(leaves))
    labels: dict[str, Any] = {"classlabels_strings": [f"c{i}" for i in range(classes)]}
    if classes == 2:
        labels = {"classlabels_int64s": [3, 7]}
    ours, theirs = by_both(
        "TreeEnsembleClassifier",
        X,
        outputs=2,
        domain=ML,
        opset=3,
        **nodes,
        **labels,
        class_treeids=[tree for tree, _ in leaves],
        class_nodeids=[node for _, node in leaves],
        class_ids=[i % ids for i in range(len(leaves))],
        class_weights=weights.astype(np.float32).tolist(),
        post_transform=post,
        **({"base_values": [0.1] * base} if base else {}),
    )
    agree(ours, theirs)


def test_two_classes_with_weights_of_their_own_by_hand() -> None:
    """onnxruntime answers 0 and 1 here, whatever the labels are called, and forgets a class without a vote."""
    nodes, _ = forest(0, 1, 1, ["BRANCH_LEQ"])
    nodes["nodes_featureids"][0], nodes["nodes_values"][0] = 0, 0.0
    labels, scores = run(
        "TreeEnsembleClassifier",
        np.array([[-1, 0, 0, 0], [1, 0, 0, 0]], np.float32),
        opset=3,
        domain=ML,
        outputs=2,
        **nodes,
        classlabels_strings=["no", "yes"],
        class_treeids=[0, 0, 0],
        class_nodeids=[1, 1, 2],
        class_ids=[0, 1, 1],
        class_weights=[0.5, 0.25, 0.75],
        post_transform="NONE",
    )
    assert labels.tolist() == ["no", "yes"]
    assert scores.tolist() == [[0.5, 0.25], [0, 0.75]]


def test_ensemble_with_sets() -> None:
    """One tree: feature 0 in {1, 3} ? 10 : (feature 1 <= 0.5 ? 20 : 30)."""
    x = np.array([[1, 0], [2, 0], [3, 9], [2, 1]], np.float32)
    y = run_ensemble(x)
    assert y.tolist() == [[10], [20], [10], [30]]


def run_ensemble(x: Any) -> Any:
    floats = {
        "nodes_splits": np.array([0, 0.5], np.float32),
        "leaf_weights": np.array([10, 20, 30], np.float32),
        "membership_values": np.array([1, 3, np.nan], np.float32),
    }
    tensors = {name: numpy_helper.from_array(value) for name, value in floats.items()}
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        nodes_featureids=[0, 1],
        nodes_modes=numpy_helper.from_array(np.array([6, 0], np.uint8)),
        nodes_truenodeids=[0, 1],
        nodes_trueleafs=[1, 1],
        nodes_falsenodeids=[1, 2],
        nodes_falseleafs=[0, 1],
        leaf_targetids=[0, 0, 0],
        tree_roots=[0],
        n_targets=1,
        **tensors,
    )
    from tests.evaluator.kernels.harness import run_node

    return run_node(node, [x], 5)[0]


# For one score onnxruntime gives no scores of two classes under SOFTMAX and PROBIT.
@pytest.mark.parametrize(
    ("classes", "post"),
    [
        (classes, post)
        for classes in (1, 2, 3)
        for post in ("NONE", "LOGISTIC", "SOFTMAX", "PROBIT")
        if classes > 1 or post in {"NONE", "LOGISTIC"}
    ],
)
def test_linear_classifier(post: str, classes: int) -> None:
    scale = 0.05 if post == "PROBIT" else 1.0
    agree(
        *by_both(
            "LinearClassifier",
            np.abs(X) * scale,
            outputs=2,
            domain=ML,
            opset=1,
            coefficients=np.abs(RNG.standard_normal(classes * 4)).astype(np.float32).tolist(),
            intercepts=[0.1] * classes,
            classlabels_ints=list(range(max(classes, 2))),
            post_transform=post,
        )
    )


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(targets: int) -> None:
    agree(
        *by_both(
            "LinearRegressor",
            X,
            domain=ML,
            opset=1,
            coefficients=RNG.standard_normal(targets * 4).astype(np.float32).tolist(),
            intercepts=[0.3] * targets,
            targets=targets,
        )
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_regressor(kernel: str) -> None:
    agree(
        *by_both(
            "SVMRegressor",
            X,
            domain=ML,
            opset=1,
            kernel_type=kernel,
            kernel_params=[0.4, 0.2, 3.0],
            n_supports=6,
            support_vectors=RNG.standard_normal(24).astype(np.float32).tolist(),
            coefficients=RNG.standard_normal(6).astype(np.float32).tolist(),
            rho=[0.25],
        )
    )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("probabilities", [False, True])
def test_support_vector_classifier(classes: int, probabilities: bool) -> None:
    """onnxruntime couples probabilities by iteration and stops early; here they are solved for."""
    pairs, vectors = classes * (classes - 1) // 2, 4 * classes
    extra = {"prob_a": [-1.2] * pairs, "prob_b": [0.1] * pairs} if probabilities else {}
    ours, theirs = by_both(
        "SVMClassifier",
        X,
        outputs=2,
        domain=ML,
        opset=1,
        kernel_type="RBF",
        kernel_params=[0.4, 0.0, 3.0],
        vectors_per_class=[4] * classes,
        support_vectors=RNG.standard_normal(vectors * 4).astype(np.float32).tolist(),
        coefficients=RNG.standard_normal(vectors * (classes - 1)).astype(np.float32).tolist(),
        rho=[0.1] * pairs,
        classlabels_ints=list(range(classes)),
        post_transform="NONE",
        **extra,
    )
    assert ours[0].tolist() == theirs[0].tolist()
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-2 if probabilities else 1e-5)
    if probabilities:
        np.testing.assert_allclose(ours[1].sum(axis=1), 1, rtol=1e-5)


TEXTS = np.array([["a", "b"], ["c", "a"]], object)
NUMBERS = np.array([[1, 2], [3, 1]])


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "opset"),
    [
        ("Scaler", [X], {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [0.5] * 4}, 1),
        ("Scaler", [NUMBERS], {"offset": [1.0], "scale": [2.0]}, 1),
        ("Normalizer", [X], {"norm": "L1"}, 1),
        ("Normalizer", [X], {"norm": "L2"}, 1),
        ("Normalizer", [np.abs(X)], {"norm": "MAX"}, 1),
        ("Imputer", [np.array([[1, np.nan], [np.nan, 2]], np.float32)],
         {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": float("nan")}, 1),
        ("Binarizer", [X], {"threshold": 0.3}, 1),
        ("OneHotEncoder", [TEXTS], {"cats_strings": ["b", "a"], "zeros": 1}, 1),
        ("OneHotEncoder", [NUMBERS], {"cats_int64s": [3, 1], "zeros": 1}, 1),
        ("LabelEncoder", [TEXTS], {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -3}, 2),
        ("LabelEncoder", [NUMBERS], {"keys_int64s": [1, 2], "values_strings": ["x", "y"]}, 2),
        ("CategoryMapper", [TEXTS], {"cats_strings": ["a", "b"], "cats_int64s": [5, 6], "default_int64": -3}, 1),
        ("CategoryMapper", [NUMBERS], {"cats_strings": ["a", "b"], "cats_int64s": [1, 2], "default_string": "?"}, 1),
        ("ArrayFeatureExtractor", [X, np.array([2, 0])], {}, 1),
        ("FeatureVectorizer", [X, X[:, :2].copy()], {"inputdimensions": [4, 2]}, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_preparation(op: str, inputs: Any, attributes: Any, opset: int) -> None:
    agree(*by_both(op, *inputs, domain=ML, opset=opset, **attributes))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tfidf(mode: str) -> None:
    agree(
        *by_both(
            "TfIdfVectorizer",
            RNG.integers(1, 5, (6, 12)),
            opset=9,
            mode=mode,
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=2,
            ngram_counts=[0, 3],
            ngram_indexes=[0, 3, 1, 2, 4],
            pool_int64s=[1, 2, 4, 1, 3, 2, 2],
            weights=[0.5, 1.0, 2.0, 3.0, 4.0],
        )
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"tokenexp": "[a-z]+", "mark": 0, "pad_value": "#", "mincharnum": 2},
        {"separators": [" ", ";"], "mark": 1, "pad_value": "", "mincharnum": 1},
        {"separators": [""], "mark": 0, "pad_value": "#", "mincharnum": 1},
    ],
    ids=["expression", "separators", "characters"],
)
def test_tokenizer(attributes: Any) -> None:
    texts = np.array(["one two;three", "a bcd", ""], object)
    agree(*by_both("Tokenizer", texts, domain="com.microsoft", opset=1, **attributes))


def test_a_nan_among_the_keys_stands_for_all_nan() -> None:
    keys: dict[str, Any] = {
        "keys_floats": [1.5, float("nan")],
        "values_floats": [3.0, 4.0],
        "default_float": 9.5,
    }
    found = run("LabelEncoder", np.array([1.5, np.nan, 9], np.float32), opset=2, domain=ML, **keys)
    assert found.tolist() == [3, 4, 9.5]


def test_texts_by_hand() -> None:
    words = np.array(["Das", "ist", "Ein", "das"], object)
    attributes: dict[str, Any] = {"case_change_action": "UPPER", "stopwords": ["das"]}
    assert run("StringNormalizer", words, **attributes).tolist() == ["IST", "EIN"]
    assert run("StringNormalizer", words, is_case_sensitive=1, **attributes).tolist() == [
        "DAS",
        "IST",
        "EIN",
    ]
    assert run("StringNormalizer", words[:1], stopwords=["DAS"]).tolist() == [""]
    parts, counts = run(
        "StringSplit", np.array(["a,b,c", ""], object), outputs=2, delimiter=",", maxsplit=1
    )
    assert parts.tolist() == [["a", "b,c"], ["", ""]]
    assert counts.tolist() == [2, 0]
    found = run("RegexFullMatch", np.array(["ab", "abc"], object), pattern="(?P<x>a)b")
    assert found.tolist() == [True, False]
