"""Gather, Scatter and the selecting operators against the loops of the specification."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run

BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
I64: Any = np.int64


@given(
    axis=st.integers(-3, 2),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
    kind=st.sampled_from([np.int32, I64]),
    seed=st.integers(0, 99),
)
def test_gather(axis: Any, shape: Any, kind: Any, seed: Any) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    size = x.shape[axis]
    indices = np.random.default_rng(seed).integers(-size, size, shape).astype(kind)
    expected = np.empty(np.delete(x, np.s_[:], axis % 3).shape)
    lines = [x.take(int(i), axis=axis) for i in indices.reshape(-1)]
    stacked = np.stack(lines, axis=axis % 3)
    before, after = x.shape[: axis % 3], x.shape[axis % 3 + 1 :]
    expected = stacked.reshape(before + indices.shape + after)
    np.testing.assert_array_equal(run("Gather", x, indices, axis=axis), expected)


def test_gather_of_many_and_of_none() -> None:
    x = np.arange(12.0).reshape(3, 4)
    many = np.tile(np.array([2, -3, 0]), 50)
    np.testing.assert_array_equal(run("Gather", x, many), x[many])
    assert run("Gather", x, np.zeros((0, 2), I64), axis=1).shape == (3, 0, 2)
    assert run("Gather", np.zeros((2, 0)), I64([1])).shape == (1, 0)


@given(axis=st.integers(-2, 1), seed=st.integers(0, 99))
def test_elements(axis: Any, seed: Any) -> None:
    random = np.random.default_rng(seed)
    data = np.arange(20).reshape(4, 5)
    indices = random.permuted(np.tile(np.arange(data.shape[axis]), (3, 1)), axis=1)
    indices = (indices if axis % 2 else indices.T) - data.shape[axis] * random.integers(0, 2)
    updates = -1 - np.arange(indices.size).reshape(indices.shape)
    gathered, scattered = np.zeros_like(indices), data.copy()
    for place in itertools.product(*map(range, indices.shape)):
        target = list(place)
        target[axis] = indices[place]
        gathered[place] = data[tuple(target)]
        scattered[tuple(target)] = updates[place]
    np.testing.assert_array_equal(run("GatherElements", data, indices, axis=axis), gathered)
    for op_type, opset in (("ScatterElements", 21), ("Scatter", 9)):
        result = run(op_type, data, indices, updates, axis=axis, opset=opset)
        np.testing.assert_array_equal(result, scattered)


COMBINE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("dtype", [np.int64, np.float16, BF16, np.float32])
def test_updates_of_one_place_are_combined(reduction: Any, dtype: Any) -> None:
    data = np.array([1, 2, 3]).astype(dtype)
    indices, updates = I64([1, 1, -1]), np.array([5, 2, 1]).astype(dtype)
    expected = [1, 2, 3]
    for place, value in zip(indices.tolist(), [5, 2, 1], strict=True):
        expected[place] = COMBINE[reduction](expected[place], value)
    result = run("ScatterElements", data, indices, updates, reduction=reduction)
    assert result.astype(int).tolist() == expected
    result = run("ScatterND", data, indices[:, None], updates, reduction=reduction)
    assert result.astype(int).tolist() == expected
    rows = np.stack([data, data], 1)
    result = run(
        "ScatterND", rows, indices[:, None], np.stack([updates] * 2, 1), reduction=reduction
    )
    assert result.astype(int).T.tolist() == [expected] * 2


@pytest.mark.parametrize(
    ("data_shape", "index_shape", "batch"),
    [
        ((4, 3, 2), (5, 1), 0),
        ((4, 3, 2), (2, 2, 2), 0),
        ((4, 3, 2), (3,), 0),
        ((2, 3, 4), (2, 5, 1), 1),
        ((2, 3, 4, 5), (2, 3, 2), 2),
        ((2, 3, 4), (2, 1), 1),
        ((2, 3, 0), (4, 1), 0),
        ((2, 3), (0, 2), 0),
    ],
)
def test_tuples(data_shape: Any, index_shape: Any, batch: Any) -> None:
    random = np.random.default_rng(3)
    data = np.arange(np.prod(data_shape, dtype=int)).reshape(data_shape)
    limits = data_shape[batch : batch + index_shape[-1]]
    indices = np.stack([random.integers(-n, n, index_shape[:-1]) for n in limits], axis=-1)
    shape = index_shape[:-1] + data_shape[batch + index_shape[-1] :]
    expected = np.zeros(shape, data.dtype)
    for place in itertools.product(*map(range, index_shape[:-1])):
        expected[place] = data[place[:batch] + tuple(indices[place])]
    np.testing.assert_array_equal(run("GatherND", data, indices, batch_dims=batch), expected)
    if batch == 0:
        scattered = data.copy()
        updates = -1 - np.arange(expected.size).reshape(shape)
        for place in itertools.product(*map(range, index_shape[:-1])):
            scattered[tuple(indices[place])] = updates[place]
        once = len({tuple(np.mod(i, limits)) for i in indices.reshape(-1, index_shape[-1])})
        if once == indices[..., 0].size:  # else the order of updates is not specified
            result = run("ScatterND", data, indices, updates)
            np.testing.assert_array_equal(result, scattered)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Gather", (np.ones((2, 3)), I64([0, 3])), {"axis": 1}, "index 3 .* dimension 1.* 3 el"),
        ("Gather", (np.ones((2, 3)), I64(-3)), {}, "index -3 .* dimension 0.* 2 elements"),
        ("Gather", (np.ones((2, 3)), np.full(99, 2)), {}, "index 2 .* dimension 0"),
        ("Gather", (np.ones((0, 3)), I64([0])), {}, "index 0 .* dimension 0.* 0 elements"),
        ("Gather", (np.ones(()), I64([0])), {}, "axis 0 does not exist"),
        ("GatherElements", (np.ones((2, 3)), I64([[5]])), {"axis": 1}, "index 5 .* dimension 1"),
        ("GatherElements", (np.ones((2, 3)), I64([0])), {}, "do not fit"),
        ("GatherElements", (np.ones((2, 3)), I64([[0]] * 3)), {"axis": 1}, "do not fit"),
        ("GatherND", (np.ones((2, 3)), I64([[1, 3]])), {}, "index 3 .* dimension 1"),
        ("GatherND", (np.ones((2, 3)), I64([[0, 0, 0]])), {}, "do not fit"),
        ("GatherND", (np.ones((2, 3)), I64([0])), {"batch_dims": 1}, "batch_dims 1"),
        ("ScatterND", (np.ones(2), I64([[-3]]), np.ones(1)), {}, "index -3 .* dimension 0"),
        ("ScatterND", (np.ones(2), I64([[0]]), np.ones(2)), {}, r"of shape \(1,\), got \(2,\)"),
        ("ScatterElements", (np.ones(2), I64([2]), np.ones(1)), {}, "index 2 .* dimension 0"),
        ("ScatterElements", (np.ones(2), I64([0]), np.ones(2)), {}, "updates of shape"),
        ("ScatterElements", (np.ones(2), I64([0]), np.ones(1)), {"reduction": "sum"}, "'sum'"),
    ],
)
def test_what_is_out_of_range_is_named(
    op_type: Any, inputs: Any, attributes: Any, message: Any
) -> None:
    with pytest.raises(ValueError, match=message):
        run(op_type, *inputs, **attributes)


def test_strings_are_scattered_but_not_added() -> None:
    data, new = np.array(["a", "b"], object), np.array(["z"], object)
    assert run("ScatterElements", data, I64([1]), new).tolist() == ["a", "z"]
    with pytest.raises(ValueError, match="no strings"):
        run("ScatterElements", data, I64([1]), new, reduction="add")


def test_compress() -> None:
    x = np.arange(6).reshape(3, 2)
    condition = np.array([False, True, True])
    assert run("Compress", x, condition, axis=0).tolist() == [[2, 3], [4, 5]]
    assert run("Compress", x, condition).tolist() == [1, 2]
    assert run("Compress", x, condition[:2], axis=-1).tolist() == [[1], [3], [5]]
    with pytest.raises(ValueError, match=r"index 2 .* dimension 1"):
        run("Compress", x, condition, axis=1)
    with pytest.raises(ValueError, match="vector of bool"):
        run("Compress", x, condition[None])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, BF16, np.float64])
def test_nonzero(dtype: Any) -> None:
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    result = run("NonZero", x)
    assert result.dtype == I64
    assert result.flags.c_contiguous
    assert result.tolist() == [[0, 1, 1], [0, 0, 1]]
    assert run("NonZero", x[0, 0]).shape == (0, 1)
    assert run("NonZero", x[0, 1]).shape == (0, 0)


def test_nonzero_of_text() -> None:
    assert run("NonZero", np.array(["", "a"], object)).tolist() == [[1]]


# the first two are examples of the specification
@pytest.mark.parametrize(
    ("x", "attributes", "expected"),
    [
        (
            [2, 1, 1, 3, 4, 3],
            {"sorted": 0},
            ([2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1]),
        ),
        (
            [[1, 0, 0], [1, 0, 0], [2, 3, 4]],
            {"axis": 0},
            ([[1, 0, 0], [2, 3, 4]], [0, 2], [0, 0, 1], [2, 1]),
        ),
        (
            [[2, 1, 2], [4, 3, 4]],
            {"axis": -1, "sorted": 0},
            ([[2, 1], [4, 3]], [0, 1], [0, 1, 0], [2, 1]),
        ),
        ([[3, 1], [3, 2]], {}, ([1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2])),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, object])
def test_unique(x: Any, attributes: Any, expected: Any, dtype: Any) -> None:
    x = np.array(x).astype(str).astype(object) if dtype is object else np.array(x, dtype)
    results = run("Unique", x, outputs=4, **attributes)
    wanted = np.array(expected[0]).astype(x.dtype if dtype is not object else str).astype(x.dtype)
    assert results[0].dtype == x.dtype
    assert results[0].tolist() == wanted.tolist()
    for result, numbers in zip(results[1:], expected[1:], strict=True):
        assert result.dtype == I64
        assert result.tolist() == numbers
    assert run("Unique", x, **attributes).tolist() == wanted.tolist()


@pytest.mark.parametrize("reduction", ["add", "mul"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_floats_are_combined_in_float32(name: str, reduction: str) -> None:
    """A running sum in 8 or 11 bits stops where it is greater than the updates by as many."""
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    count, update = 3000, 1.0 if reduction == "add" else 1.0 + 2**-7
    count = count if reduction == "add" else 500
    data, updates = np.ones((1, 2), dtype), np.full((1, count), update, dtype)
    elements = run(
        "ScatterElements", data, np.zeros((1, count), int), updates, axis=1, reduction=reduction
    )
    rows = run("ScatterND", data[0], np.zeros((count, 1), int), updates[0], reduction=reduction)
    expected = 1 + count if reduction == "add" else update**count
    for result in (elements[0], rows):
        assert result.dtype == dtype
        np.testing.assert_allclose(result.astype(np.float32), [expected, 1], rtol=2**-7)
