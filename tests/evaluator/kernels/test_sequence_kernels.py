"""Sequence operators one by one: positions from either end, every form of a split, what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel

A, B, C = np.array([1.0]), np.array([2.0, 3.0]), np.array(4.0)


def call(op: str, *inputs: Any, opset: int = 17, **attributes: Any) -> Any:
    names = ["" if value is None else f"x{n}" for n, value in enumerate(inputs)]
    kernel = make_kernel(helper.make_node(op, names, ["y"], **attributes), opset)
    (found,) = kernel.call(inputs)
    return found


def listed(values: Any) -> Any:
    return [value.tolist() for value in values]


def test_construct_length_and_empty() -> None:
    found = call("SequenceConstruct", A, B, C)
    assert [value is one for value, one in zip(found, (A, B, C), strict=True)] == [True] * 3
    length = call("SequenceLength", found)
    assert (length.dtype, length.shape, int(length)) == (np.int64, (), 3)
    assert call("SequenceEmpty") == call("SequenceEmpty", dtype=TensorProto.INT64) == []
    assert int(call("SequenceLength", [])) == 0


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_positions_from_either_end(kind: Any) -> None:
    values = [A, B, C]
    for place in (0, 1, 2, -1, -2, -3):
        assert call("SequenceAt", values, np.array(place, kind)) is values[place]
        kept = [value for value in values if value is not values[place]]
        assert listed(call("SequenceErase", values, np.array(place, kind))) == listed(kept)
    for place, expected in ((0, 0), (2, 2), (3, 3), (-1, 2), (-3, 0)):
        grown = call("SequenceInsert", values, np.array([9.0]), np.array(place, kind))
        assert [value.tolist() for value in grown].index([9.0]) == expected
    assert listed(call("SequenceErase", values)) == listed([A, B])
    assert listed(call("SequenceInsert", values, A)) == listed([A, B, C, A])
    assert listed(values) == listed([A, B, C])  # as it was
    assert listed(call("SequenceInsert", [], A)) == listed([A])


@pytest.mark.parametrize(
    ("op", "inputs", "place"),
    [
        ("SequenceAt", ([A, B],), 2),
        ("SequenceAt", ([A, B],), -3),
        ("SequenceErase", ([A, B],), 2),
        ("SequenceInsert", ([A, B], C), 3),
        ("SequenceInsert", ([A, B], C), -3),
    ],
)
def test_positions_that_do_not_exist(op: str, inputs: Any, place: int) -> None:
    with pytest.raises(ValueError, match=f"position {place} does not exist in a sequence of 2"):
        call(op, *inputs, np.array(place))


@pytest.mark.parametrize("opset", [11, 24])
def test_splits(opset: int) -> None:
    x = np.arange(10).reshape(2, 5)

    def split(*lengths: Any, **attributes: Any) -> Any:
        return call("SplitToSequence", x, *map(np.array, lengths), opset=opset, **attributes)

    assert listed(split()) == [[x[0].tolist()], [x[1].tolist()]]
    assert listed(split(keepdims=0)) == x.tolist()
    assert listed(split(axis=-1, keepdims=0)) == x.T.tolist()
    assert [value.shape for value in split(2, axis=1)] == [(2, 2), (2, 2), (2, 1)]
    assert [value.shape for value in split(7, axis=1, keepdims=0)] == [
        (2, 5)
    ]  # a given split keeps them
    parts = split([1, 0, 4], axis=1)
    assert listed(parts) == [x[:, :1].tolist(), [[], []], x[:, 1:].tolist()]
    for part in [*parts, *split(axis=1, keepdims=0)]:
        assert part.flags.c_contiguous
        assert part.base is None
    with pytest.raises(ValueError, match=r"pieces of \[2, 2\] do not make up the 5 of axis 1"):
        split([2, 2], axis=1)
    with pytest.raises(ValueError, match=r"pieces of \[6, -1\]"):
        split([6, -1], axis=1)
    with pytest.raises(ValueError, match="a piece has length 1 or more, got 0"):
        split(0)
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        split(axis=2)


def test_splits_of_nothing_text_and_narrow_types() -> None:
    assert call("SplitToSequence", np.zeros((0, 3))) == []
    text = call("SplitToSequence", np.array(["a", "b"], object), keepdims=0)
    assert listed(text) == ["a", "b"]
    narrow = call("SplitToSequence", np.ones(2, ml_dtypes.bfloat16), opset=24)
    assert [value.dtype for value in narrow] == [ml_dtypes.bfloat16] * 2


def test_joining() -> None:
    x, y = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    for axis in (0, 1, -1, -2):
        assert (
            call("ConcatFromSequence", [x, y], axis=axis).tolist()
            == np.concatenate([x, y], axis).tolist()
        )
    for axis in (0, 1, 2, -1, -3):
        found = call("ConcatFromSequence", [x, y], axis=axis, new_axis=1)
        assert found.shape[axis] == 2
        assert np.take(found, 1, axis).tolist() == y.tolist()
    with pytest.raises(ValueError, match="one element or more, got an empty sequence"):
        call("ConcatFromSequence", [], axis=0)
