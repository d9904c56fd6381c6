"""Operators whose results are as large as data makes them: such a size becomes a symbol, bounded if it can be."""

from __future__ import annotations

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import Expr, maximum, minimum
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, axis_of

__all__: list[str] = []


@rule("NonZero")
def infer_non_zero(call: Call) -> None:
    """[rank, count], at most as many as there are elements.

    https://onnx.ai/onnx/operators/onnx__NonZero.html
    """
    shape = call.shape(0)
    count = call.data_dim(0, 1, Expr.product(shape))
    call.give(0, (len(shape), count), ir.DataType.INT64)


@rule("Compress")
def infer_compress(call: Call) -> None:
    """What the condition keeps along the axis, or of all elements."""
    axis = call.attributes.get("axis")
    shape = call.known_shape(0)
    condition = call.known_shape(1)
    if axis is None:
        bound = None if shape is None else Expr.product(shape)
        call.give(0, (call.data_dim(0, 0, _least(bound, condition)),), call.dtype(0))
        return
    shape = call.shape(0)
    place = axis_of(int(axis), len(shape))
    kept = call.data_dim(0, place, _least(shape[place], condition))
    call.give(0, (*shape[:place], kept, *shape[place + 1 :]), call.dtype(0))


def _least(bound: Expr | None, condition: tuple[Expr, ...] | None) -> Expr | None:
    if condition is None or len(condition) != 1:
        return bound
    return condition[0] if bound is None else minimum(bound, condition[0])


@rule("Unique")
def infer_unique(call: Call) -> None:
    """Distinct elements, or slices along the axis, and where they are.

    https://onnx.ai/onnx/operators/onnx__Unique.html
    """
    axis = call.attributes.get("axis")
    shape = call.shape(0)
    if axis is None:
        total = Expr.product(shape)
        count = call.data_dim(0, 0, total)
        call.give(0, (count,), call.dtype(0))
    else:
        place = axis_of(int(axis), len(shape))
        total = shape[place]
        count = call.data_dim(0, place, total)
        call.give(0, (*shape[:place], count, *shape[place + 1 :]), call.dtype(0))
    for position, size in ((1, count), (2, total), (3, count)):
        call.give(position, (size,), ir.DataType.INT64)


@rule("Unique", domain=CONTRIB)
def infer_contrib_unique(call: Call) -> None:
    """Of a vector: distinct elements, where each is one of them, counts."""
    (size,) = call.shape(0)
    count = call.data_dim(0, 0, size)
    call.give(0, (count,), call.dtype(0))
    call.give(1, (size,), ir.DataType.INT64)
    call.give(2, (count,), ir.DataType.INT64)


@rule("NonMaxSuppression")
def infer_non_max_suppression(call: Call) -> None:
    """[count, 3], at most a number of boxes for each class of each item."""
    call.give(0, None, ir.DataType.INT64)
    scores = call.known_shape(1)
    bound = None
    if scores is not None and len(scores) == 3:
        most: Expr | int = 0
        if call.has(2):
            content = call.content(2)
            known = content is not None and content.dtype != object
            most = scores[2] if not known else maximum(0, call.entries(2)[0])
        bound = scores[0] * scores[1] * minimum(most, scores[2])
    call.give(0, (call.data_dim(0, 0, bound), 3), ir.DataType.INT64)


@rule("StringSplit")
def infer_string_split(call: Call) -> None:
    """Parts [..., most parts], and how many each string has."""
    shape = call.shape(0)
    most = call.attributes.get("maxsplit")
    bound = None if most is None else Expr.constant(int(most) + 1)
    call.give(0, (*shape, call.data_dim(0, len(shape), bound)), ir.DataType.STRING)
    call.give(1, shape, ir.DataType.INT64)


@rule("Tokenizer", domain=CONTRIB)
def infer_tokenizer(call: Call) -> None:
    """Tokens [..., most tokens]."""
    shape = call.shape(0)
    call.give(0, (*shape, call.data_dim(0, len(shape), None)), ir.DataType.STRING)


@rule("StringNormalizer")
def infer_string_normalizer(call: Call) -> None:
    """Without the stop words, but at least one; as many as there were where there are none."""
    shape = call.shape(0)
    stops = bool(call.attributes.get("stopwords"))
    words = maximum(1, shape[-1])
    kept = call.data_dim(0, len(shape) - 1, words) if stops else words
    call.give(0, (*shape[:-1], kept), ir.DataType.STRING)


@rule("DynamicTimeWarping", domain=CONTRIB)
def infer_time_warping(call: Call) -> None:
    """[2, steps of the path], at most one for each row and column."""
    rows, columns = call.shape(0)[-2:]
    call.give(0, (2, call.data_dim(0, 1, rows + columns)), ir.DataType.INT32)


@rule("BifurcationDetector", domain=CONTRIB)
def infer_bifurcation_detector(call: Call) -> None:
    """Tokens that were accepted, and one number."""
    cur, pred = call.known_shape(1), call.known_shape(3)
    bound = None
    if cur is not None and len(cur) == 1:
        bound = cur[0] + (pred[0] if pred is not None and len(pred) == 1 else 0) + 1
    call.give(0, (call.data_dim(0, 0, bound),), ir.DataType.INT64)
    call.give(1, (1,), ir.DataType.INT64)
