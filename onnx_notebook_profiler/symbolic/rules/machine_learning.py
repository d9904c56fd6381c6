"""Operators of ai.onnx.ml.

https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.rules.registry import ML, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []

_FLOAT = ir.DataType.FLOAT


def _rows(call: Call) -> Expr:
    """Rows of X [N, C]; a vector is one row."""
    shape = call.shape(0)
    return shape[0] if len(shape) > 1 else Expr.constant(1)


def _labels(call: Call, *names: str) -> tuple[int, ir.DataType]:
    """How many labels the node has, and their type."""
    for name in (*names, "classlabels_strings", "classlabels_int64s"):
        found = call.attributes.get(name)
        if found:
            text = isinstance(found[0], str)
            return len(found), ir.DataType.STRING if text else ir.DataType.INT64
    return 0, ir.DataType.INT64


def _classified(call: Call, columns: int, dtype: ir.DataType) -> None:
    rows = _rows(call)
    call.give(0, (rows,), dtype)
    call.give(1, (rows, columns), _FLOAT)


@rule("LinearClassifier", domain=ML)
def infer_linear_classifier(call: Call) -> None:
    """Labels [N] and scores; one column of scores stands for two classes."""
    count, dtype = _labels(call, "classlabels_ints")
    scores = len(call.attributes.get("intercepts") or ()) or max(count, 1)
    _classified(call, 2 if scores == 1 and count == 2 else scores, dtype)


@rule("SVMClassifier", domain=ML)
def infer_svm_classifier(call: Call) -> None:
    """Labels [N]; scores of the classes, or one for each pair of more than two without probabilities."""
    count, dtype = _labels(call, "classlabels_ints")
    linear = not sum(call.attributes.get("vectors_per_class") or ())
    paired = not linear and not call.attributes.get("prob_a") and count > 2
    _classified(call, count * (count - 1) // 2 if paired else max(count, 1), dtype)


@rule("TreeEnsembleClassifier", domain=ML)
def infer_tree_classifier(call: Call) -> None:
    """Labels [N] and scores [N, classes]."""
    count, dtype = _labels(call)
    _classified(call, max(count, 1), dtype)


@rule("LinearRegressor", domain=ML)
def infer_linear_regressor(call: Call) -> None:
    """[N, targets]."""
    call.give(0, (_rows(call), int(call.attributes.get("targets", 1))), _FLOAT)


@rule("SVMRegressor", domain=ML)
def infer_svm_regressor(call: Call) -> None:
    """[N, 1]."""
    call.give(0, (_rows(call), 1), _FLOAT)


@rule("TreeEnsembleRegressor", domain=ML)
def infer_tree_regressor(call: Call) -> None:
    """[N, targets]."""
    call.give(0, (_rows(call), _targets(call)), _FLOAT)


def _targets(call: Call) -> int:
    found = call.attributes.get("n_targets")
    if found is None:
        raise Undecided("n_targets is missing")
    return int(found)


@rule("TreeEnsemble", domain=ML)
def infer_tree_ensemble(call: Call) -> None:
    """[N, targets] in the type of X."""
    call.give(0, (_rows(call), _targets(call)), call.dtype(0))


@rule("Scaler", "Normalizer", domain=ML)
def infer_scaler(call: Call) -> None:
    """As X, float32."""
    call.give(0, call.shape(0), _FLOAT)


@rule("Imputer", "Binarizer", domain=ML)
def infer_imputer(call: Call) -> None:
    """As X."""
    call.give(0, call.shape(0), call.dtype(0))


@rule("OneHotEncoder", domain=ML)
def infer_one_hot_encoder(call: Call) -> None:
    """A new last axis, one place for each category."""
    count = max(len(call.attributes.get(name) or ()) for name in ("cats_int64s", "cats_strings"))
    call.give(0, (*call.shape(0), count), _FLOAT)


@rule("ArrayFeatureExtractor", domain=ML)
def infer_feature_extractor(call: Call) -> None:
    """Chosen columns."""
    x, indices = call.shape(0), call.shape(1)
    lead: Any = x[:-1] if len(x) > 1 else (1,)
    call.give(0, (*lead, Expr.product(indices)), call.dtype(0))


@rule("FeatureVectorizer", domain=ML)
def infer_feature_vectorizer(call: Call) -> None:
    """All inputs side by side."""
    lengths = call.attributes.get("inputdimensions")
    width = Expr.sum(
        int(lengths[position]) if lengths else Expr.product(shape[1:] if len(shape) > 1 else shape)
        for position, shape in enumerate(map(call.shape, range(len(call.node.inputs))))
    )
    call.give(0, (_rows(call), width), _FLOAT)


@rule("CategoryMapper", domain=ML)
def infer_category_mapper(call: Call) -> None:
    """Texts become numbers, numbers texts."""
    from_text = call.dtype(0) == ir.DataType.STRING
    call.give(0, call.shape(0), ir.DataType.INT64 if from_text else ir.DataType.STRING)


@rule("LabelEncoder", domain=ML)
def infer_label_encoder(call: Call) -> None:
    """As X, in the type of the values."""
    attributes = call.attributes
    dtype: ir.DataType | int | None = None
    if attributes.get("classes_strings"):
        from_text = call.dtype(0) == ir.DataType.STRING
        dtype = ir.DataType.INT64 if from_text else ir.DataType.STRING
    for attribute in call.proto.attribute:
        if attribute.name == "values_tensor":
            dtype = attribute.t.data_type
    kinds = {
        "values_strings": ir.DataType.STRING,
        "values_int64s": ir.DataType.INT64,
        "values_floats": ir.DataType.FLOAT,
    }
    for name, kind in kinds.items():
        if dtype is None and attributes.get(name):
            dtype = kind
    call.give(0, call.shape(0), dtype)


@rule("DictVectorizer", domain=ML)
def infer_dict_vectorizer(call: Call) -> None:
    """A row for each map, a column for each word; one map is a row."""
    attributes = call.attributes
    words = attributes.get("string_vocabulary") or attributes.get("int64_vocabulary") or ()
    value = call.value(0)
    given = None if value is None else call.inference.maps.get(value)
    if given is None:
        raise Undecided("what maps it is given is not known")
    rows = call.data_dim(0, 0, None) if given.many else 1
    call.give(0, (rows, len(words)), given.dtype)


@rule("CastMap", domain=ML)
def infer_cast_map(call: Call) -> None:
    """[1, values of the map], or as many as ``max_map`` says."""
    attributes = call.attributes
    kinds = {
        "TO_FLOAT": ir.DataType.FLOAT,
        "TO_INT64": ir.DataType.INT64,
        "TO_STRING": ir.DataType.STRING,
    }
    width: Expr | int
    if attributes.get("map_form", "DENSE") == "SPARSE":
        width = int(attributes.get("max_map", 1))
    else:
        width = call.data_dim(0, 1, None)
    call.give(0, (1, width), kinds.get(str(attributes.get("cast_to", "TO_FLOAT"))))


@rule("ZipMap", domain=ML)
def infer_zip_map(_call: Call) -> None:
    """A sequence of maps."""
    raise Undecided("a sequence of maps has no fixed size")
