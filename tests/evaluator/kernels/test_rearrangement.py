"""Elements that move about, and bits under another type: against loops over indices, onnxruntime and counts by hand."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both
from tests.oracles import assert_same

MS = "com.microsoft"
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint64, np.bool_]


def counted(*shape: int) -> Any:
    return np.arange(np.prod(shape)).reshape(shape)


def depth_to_space(x: Any, b: int, mode: str) -> Any:
    """Element by element: channel (row, column, depth) for DCR, (depth, row, column) for CRD."""
    n, c, h, w = x.shape
    depth = c // (b * b)
    y = np.empty((n, depth, h * b, w * b), x.dtype)
    for i, d, r, s in itertools.product(range(n), range(depth), range(h * b), range(w * b)):
        row, column = r % b, s % b
        inner = d * b * b + row * b + column
        outer = (row * b + column) * depth + d
        y[i, d, r, s] = x[i, outer if mode == "DCR" else inner, r // b, s // b]
    return y


@pytest.mark.parametrize(
    ("opset", "modes"), [(1, [None]), (11, ["DCR", "CRD"]), (13, ["DCR", "CRD"]), (28, ["DCR"])]
)
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_to_space(opset: int, modes: Any, block: int) -> None:
    x = counted(2, 2 * block * block, 3, 2).astype(np.float32)
    for mode in modes:
        attributes: dict[str, Any] = {"mode": mode} if mode else {}
        found = run("DepthToSpace", x, opset=opset, blocksize=block, **attributes)
        np.testing.assert_array_equal(found, depth_to_space(x, block, mode or "DCR"))


@pytest.mark.parametrize("opset", [1, 13, 28])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_space_to_depth_undoes_it(opset: int, block: int) -> None:
    x = counted(2, 2 * block * block, 3, 2).astype(np.float32)
    for mode in ("DCR", "CRD") if opset >= 28 else ("DCR",):
        attributes: dict[str, Any] = {"mode": mode} if opset >= 28 else {}
        found = run(
            "SpaceToDepth",
            depth_to_space(x, block, mode),
            opset=opset,
            blocksize=block,
            **attributes,
        )
        np.testing.assert_array_equal(found, x)


def test_depth_and_space_of_nothing_other_types_and_errors() -> None:
    for dtype in TYPES:
        x = counted(1, 4, 2, 1).astype(dtype)
        assert_same(run("DepthToSpace", x, blocksize=2), depth_to_space(x, 2, "DCR"))
    text = np.array(list("abcdefgh"), object).reshape(1, 4, 2, 1)
    assert run("DepthToSpace", text, blocksize=2).ravel().tolist() == list("acegbdfh")
    assert run("DepthToSpace", np.zeros((0, 4, 2, 2)), blocksize=2).shape == (0, 1, 4, 4)
    assert run("SpaceToDepth", np.zeros((2, 3, 0, 4)), blocksize=2).shape == (2, 12, 0, 2)
    with pytest.raises(ValueError, match="3 channels are no multiple of 4"):
        run("DepthToSpace", np.zeros((1, 3, 2, 2)), blocksize=2)
    with pytest.raises(ValueError, match="3 by 2 places are no multiples of 2"):
        run("SpaceToDepth", np.zeros((1, 3, 3, 2)), blocksize=2)
    with pytest.raises(ValueError, match=r"X \[N, C, H, W\], got \[4, 2, 2\]"):
        run("DepthToSpace", np.zeros((4, 2, 2)), blocksize=2)
    with pytest.raises(ValueError, match="mode DCR or CRD, got 'RCD'"):
        run("DepthToSpace", np.zeros((1, 4, 2, 2)), blocksize=2, mode="RCD")
    with pytest.raises(ValueError, match="blocksize is 1 or more, got 0"):
        run("SpaceToDepth", np.zeros((1, 4, 2, 2)), blocksize=0)


@pytest.mark.parametrize(("domain", "opset"), [("", 14), (MS, 1)])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize(
    "shape", [(4, 4), (3, 5), (2, 5, 3), (2, 0, 3), (0, 2, 2), (1, 1), (2, 131, 140), (200, 90)]
)
def test_triangles(domain: str, opset: int, upper: int, shape: Any) -> None:
    x = (counted(*shape) + 1).astype(np.float32)
    for k in (None, -33, -7, -2, -1, 0, 1, 2, 7, 70, 2**40, -(2**40)):
        inputs = (x,) if k is None else (x, np.array(k))
        actual, expected = by_both("Trilu", *inputs, opset=opset, domain=domain, upper=upper)
        by_index = x.copy()
        rows, columns = np.indices(shape[-2:])
        outside = columns - rows < (k or 0) if upper else columns - rows > (k or 0)
        by_index[..., outside] = 0
        np.testing.assert_array_equal(actual[0], by_index)
        if k is None or abs(k) < 100:  # onnxruntime's own sum overflows beyond
            assert_same(actual, expected)


def test_triangles_of_other_types_and_errors() -> None:
    for dtype in TYPES:
        found = run("Trilu", np.ones((2, 2), dtype), upper=0)
        assert found.astype(int).tolist() == [[1, 0], [1, 1]]
    wide = run("Trilu", np.full((3, 3), 1 + 2j))
    assert wide.tolist() == np.triu(np.full((3, 3), 1 + 2j)).tolist()
    assert run("Trilu", np.full((2, 2), np.nan, np.float32))[1, 0] == 0
    with pytest.raises(ValueError, match=r"matrices, got \[3\]"):
        run("Trilu", np.ones(3))


# by hand: an odd rest is cut off at the end, and added at the end
CENTERS: list[tuple[Any, Any, Any]] = [
    ([1, 2, 3, 4, 5], [3], [2, 3, 4]),
    ([1, 2, 3, 4, 5], [2], [2, 3]),
    ([1, 2, 3], [6], [0, 1, 2, 3, 0, 0]),
    ([1, 2, 3], [5], [0, 1, 2, 3, 0]),
    ([1, 2, 3], [3], [1, 2, 3]),
    ([1, 2, 3], [0], []),
    ([[1, 2, 3], [4, 5, 6]], [4, 1], [[0], [2], [5], [0]]),
]


@pytest.mark.parametrize(("given", "lengths", "expected"), CENTERS)
def test_center_crop_pad(given: Any, lengths: Any, expected: Any) -> None:
    for dtype in (np.float32, np.int64, ml_dtypes.bfloat16):
        found = run("CenterCropPad", np.array(given, dtype), np.array(lengths))
        assert found.tolist() == expected
        assert found.dtype == dtype


def test_center_crop_pad_along_axes() -> None:
    x = counted(2, 3, 4)
    found = run("CenterCropPad", x, np.array([2, 6], np.int32), axes=[-1, 1])
    assert found.shape == (2, 6, 2)
    np.testing.assert_array_equal(found[:, 1:4], x[:, :, 1:3])
    assert not found[:, [0, 4, 5]].any()
    text = run("CenterCropPad", np.array(["a", "b"], object), np.array([4]))
    assert text.tolist() == ["", "a", "b", ""]
    with pytest.raises(ValueError, match=r"2 lengths of 0 or more, got \[1\]"):
        run("CenterCropPad", x, np.array([1]), axes=[0, 1])
    with pytest.raises(ValueError, match="an axis comes twice"):
        run("CenterCropPad", x, np.array([1, 1]), axes=[0, -3])


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (2, 3, 2, 2), (0, 3, 3), (2, 0, 0)])
def test_determinants(opset: int, shape: Any) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape)
    by_rows = np.array([laplace(x[place]) for place in np.ndindex(shape[:-2])]).reshape(shape[:-2])
    for dtype in (np.float32, np.float64, np.float16):
        found = run("Det", x.astype(dtype), opset=opset)
        assert found.dtype == dtype
        assert found.shape == shape[:-2]
        np.testing.assert_allclose(
            found, by_rows, rtol=1e-2 if dtype is np.float16 else 1e-4, atol=1e-3
        )
    with pytest.raises(ValueError, match=r"square matrices \[\.\.\., M, M\], got \[2, 3\]"):
        run("Det", np.zeros((2, 3), np.float32), opset=opset)


def laplace(x: Any) -> float:
    """By expansion along the first row."""
    if not len(x):
        return 1
    rest = (np.delete(x[1:], column, axis=1) for column in range(len(x)))
    terms = zip(x[0], rest, strict=True)
    return sum((-1.0) ** n * float(first) * laplace(part) for n, (first, part) in enumerate(terms))


def test_bits_under_another_type() -> None:
    one = np.array([1, -2, 0.5], np.float32)
    assert run("BitCast", one, opset=26, to=TensorProto.UINT32).tolist() == [
        0x3F800000,
        0xC0000000,
        0x3F000000,
    ]
    half = run("BitCast", np.array([0x3C00, 0x8000], np.uint16), opset=26, to=TensorProto.FLOAT16)
    assert half.tolist() == [1, -0.0]
    assert run("BitCast", np.array(-1, np.int64), opset=26, to=TensorProto.UINT64) == 2**64 - 1
    pair = run("BitCast", np.array([1 + 0j], np.complex64), opset=26, to=TensorProto.DOUBLE)
    assert pair.view(np.float32).tolist() == [1, 0]
    short = run("BitCast", np.array([-1, 7], ml_dtypes.int4), opset=26, to=TensorProto.UINT4)
    assert short.tolist() == [15, 7]
    float4 = run("BitCast", np.array([2, 15], ml_dtypes.uint4), opset=26, to=TensorProto.FLOAT4E2M1)
    assert float4.astype(np.float32).tolist() == [1, -6]
    assert run("BitCast", np.array([0, 1], np.uint8), opset=26, to=TensorProto.BOOL).tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("dtype", "to", "bits"),
    [
        (np.float32, TensorProto.INT64, "float32 of 32 bits and int64 of 64"),
        (ml_dtypes.int4, TensorProto.INT8, "int4 of 4 bits and int8 of 8"),
        (ml_dtypes.int2, TensorProto.UINT4, "int2 of 2 bits and uint4 of 4"),
    ],
)
def test_bits_need_types_of_one_width(dtype: Any, to: int, bits: str) -> None:
    with pytest.raises(ValueError, match=bits):
        run("BitCast", np.zeros(2, dtype), opset=26, to=to)


def test_text_has_no_bits() -> None:
    with pytest.raises(ValueError, match="not for strings"):
        run("BitCast", np.array(["a"], object), opset=26, to=TensorProto.INT64)
    assert helper.tensor_dtype_to_np_dtype(TensorProto.INT64).itemsize == np.dtype(object).itemsize


@pytest.mark.parametrize("batch_axis", [0, 1])
@pytest.mark.parametrize("shape", [(40, 30), (30, 40, 2), (9, 70, 80), (3, 5), (20, 0, 2)])
def test_sequences_turned_round(shape: tuple[int, ...], batch_axis: int) -> None:
    """Short and long ones, few and many, each against its own slice."""
    x = np.random.default_rng(0).integers(0, 99, shape)
    count, steps = shape[batch_axis], shape[1 - batch_axis]
    lengths = np.random.default_rng(1).integers(0, steps + 1, count)
    expected = x.copy()
    for item, length in enumerate(lengths):
        part = np.moveaxis(expected, batch_axis, 0)[item]
        part[:length] = part[:length][::-1].copy()
    options = {"batch_axis": batch_axis, "time_axis": 1 - batch_axis}
    np.testing.assert_array_equal(run("ReverseSequence", x, lengths, **options), expected)
    if count:
        with pytest.raises(ValueError, match="lengths are from 0"):
            run("ReverseSequence", x, lengths * 0 + steps + 1, **options)
