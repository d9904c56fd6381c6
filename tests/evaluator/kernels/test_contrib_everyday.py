"""Small operators of com.microsoft: against onnxruntime where it has a kernel for the CPU, else by formula and hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both
from tests.oracles import assert_same

MS = "com.microsoft"


def f(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def counted(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def one(value: Any, dtype: Any) -> Any:
    return np.array(value, dtype)


def both(op: str, *inputs: Any, outputs: int = 1, rtol: float = 1e-6, **attributes: Any) -> None:
    actual, expected = by_both(op, *inputs, outputs=outputs, opset=1, domain=MS, **attributes)
    assert_same(actual, expected, rtol, 1e-6)


def ours(op: str, *inputs: Any, **options: Any) -> Any:
    return run(op, *inputs, opset=1, domain=MS, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
def test_range(dtype: Any) -> None:
    for start, limit, delta in ((1, 9, 2), (9, 0, -3), (0, 5, 1), (3, 3, 1), (5, 0, 2)):
        both("Range", *(one(value, dtype) for value in (start, limit, delta)))
        both("Range", *(one([value], dtype) for value in (start, limit, delta)))
    both("Range", one(2, dtype), one(6, dtype))
    both("Range", one([2], dtype), one([6], dtype))
    with pytest.raises(ValueError, match="a delta other than 0"):
        ours("Range", one(2, dtype), one(6, dtype), one(0, dtype))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_expand_dims(axis: int) -> None:
    both("ExpandDims", f(2, 3), one(axis, np.int32))
    both("ExpandDims", f(2, 3), one([axis], np.int32))
    with pytest.raises(ValueError, match="axis 3 does not exist"):
        ours("ExpandDims", f(2, 3), one(3, np.int32))
    with pytest.raises(ValueError, match="one axis, got 2"):
        ours("ExpandDims", f(2, 3), one([0, 1], np.int32))


def test_unique_keeps_the_order() -> None:
    both("Unique", one([2, 1, 1, 3, 4, 3, 2, -1], np.float32), outputs=3)
    both("Unique", one([2, np.nan, 1, np.nan, -0.0, 0.0, np.inf, -np.inf], np.float32), outputs=3)
    both("Unique", np.round(f(20_000) * 10), outputs=3)
    both("Unique", f(0), outputs=3)
    both("Unique", f(1), outputs=3)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16, np.bool_, np.complex64, object])
def test_unique_of_other_types(dtype: Any) -> None:
    listed = [1, 0, 0, 1, 1] if dtype is not object else ["b", "a", "a", "b", "b"]
    values, places, counts = ours("Unique", one(listed, dtype), outputs=3)
    assert values.dtype == dtype
    assert values.tolist() == [listed[0], listed[1]]
    assert places.tolist() == [0, 1, 1, 0, 0]
    assert counts.tolist() == [3, 2]
    with pytest.raises(ValueError, match=r"a vector, got shape \[1, 5\]"):
        ours("Unique", one([listed], dtype), outputs=3)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_nd(dtype: Any) -> None:
    both("GatherND", f(2, 3), one([[0, -1], [1, 2]], dtype))
    both("GatherND", f(2, 3, 4), one([[[0, 1]], [[1, 0]]], dtype))
    both("GatherND", f(2, 3), one([[1], [0], [1]], dtype))
    with pytest.raises(ValueError, match="index 2 is out of range for dimension 0"):
        ours("GatherND", f(2, 3), one([[2]], dtype))


def test_pad() -> None:
    x = f(3, 4)
    pads = one([1, 0, 2, 1], np.int64)
    both("Pad", x, pads)
    both("Pad", x, pads, one(7, np.float32))
    both("Pad", x, pads[None], one([7], np.float32))
    for mode in ("constant", "reflect", "edge", "wrap"):
        both("Pad", x, pads, mode=mode)
    both("Pad", x, one([0, -1, -1, 2], np.int64), one(3, np.float32))
    for dtype in (np.float16, np.float64):  # which onnxruntime has no kernel for
        assert_same(ours("Pad", x.astype(dtype), pads), np.pad(x, [(1, 2), (0, 1)]).astype(dtype))


def test_torch_embedding() -> None:
    weight = f(5, 3)
    indices = one([[0, 4, 2], [2, 2, 1]], np.int64)
    found = ours("TorchEmbedding", weight, indices, one(2, np.int64), np.array(False))
    assert found.shape == (2, 3, 3)
    for row in range(2):
        for column in range(3):
            assert_same(found[row, column], weight[indices[row, column]])
    narrow = weight.astype(ml_dtypes.bfloat16)
    assert ours("TorchEmbedding", narrow, one(4, np.int64)).tolist() == narrow[4].tolist()
    assert ours("TorchEmbedding", weight, one([], np.int64)).shape == (0, 3)
    with pytest.raises(ValueError, match="indices go from 0 to 4, got -1 to 5"):
        ours("TorchEmbedding", weight, one([-1, 5], np.int64))
    with pytest.raises(ValueError, match=r"weight \[N, M\], got \[5\]"):
        ours("TorchEmbedding", weight[:, 0], indices)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize(("size", "step"), [(1, 1), (2, 1), (2, 2), (3, 2), (2, 5)])
def test_unfold(dim: int, size: int, step: int) -> None:
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        both("UnfoldTensor", counted(3, 4, 5).astype(dtype), dim=dim, size=size, step=step)


def test_unfold_of_other_types_and_errors() -> None:
    for dtype in (np.bool_, np.uint8, np.float16, ml_dtypes.bfloat16, np.complex128):
        x = one([0, 1, 0, 1], dtype)
        found = ours("UnfoldTensor", x, size=2)
        assert found.dtype == dtype
        assert found.tolist() == [x[:2].tolist(), x[1:3].tolist(), x[2:].tolist()]
    texts = ours("UnfoldTensor", one(["a", "b", "c"], object), size=2)
    assert texts.tolist() == [["a", "b"], ["b", "c"]]
    with pytest.raises(ValueError, match="axis 0 has 4 elements, fewer than a slice of 5"):
        ours("UnfoldTensor", counted(4), size=5)
    with pytest.raises(ValueError, match="a size and a step of 1 or more, got 0 and 1"):
        ours("UnfoldTensor", counted(4), size=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shapes", [((3, 2), (3, 2)), ((4, 3, 2), (3, 2)), ((1, 2), (5, 1, 2))])
def test_complex_products(dtype: Any, shapes: Any) -> None:
    a, b = (f(*shape, seed=n).astype(dtype) for n, shape in enumerate(shapes))
    numbers = [v.astype(np.float64)[..., 0] + 1j * v.astype(np.float64)[..., 1] for v in (a, b)]
    for op, value in (
        ("ComplexMul", numbers[0] * numbers[1]),
        ("ComplexMulConj", numbers[0] * numbers[1].conj()),
    ):
        expected = np.stack([value.real, value.imag], -1)
        tolerance = 1e-3 if dtype is np.float16 else 1e-5
        assert_same(ours(op, a, b), expected.astype(dtype), tolerance, tolerance)


def test_complex_products_need_pairs() -> None:
    with pytest.raises(ValueError, match=r"expects \[\.\.\., 2\].*got \[3, 1\]"):
        ours("ComplexMul", f(3, 2), f(3, 1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_is_all_finite(dtype: Any) -> None:
    good, size = np.ones((2, 20_000), dtype), 20_000
    for value, finite, no_inf, no_nan in (
        (1, True, True, True),
        (np.inf, False, False, True),
        (-np.inf, False, False, True),
        (np.nan, False, True, False),
    ):
        bad = good.copy()
        bad[1, size - 1] = value
        for inputs in ((bad,), (good, bad, good)):
            found = ours("IsAllFinite", *inputs)
            assert found.shape == ()
            assert found.dtype == np.bool_
            assert found == finite
            assert ours("IsAllFinite", *inputs, isinf_only=1) == no_inf
            assert ours("IsAllFinite", *inputs, isnan_only=1) == no_nan
    assert ours("IsAllFinite", good[:, :0])
    with pytest.raises(ValueError, match="exclude each other"):
        ours("IsAllFinite", good, isinf_only=1, isnan_only=1)


@pytest.mark.parametrize(
    "dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64]
)
@pytest.mark.parametrize(
    "attributes", [{}, {"seed": 42}, {"positive": 0}, {"positive": 0, "seed": 7}]
)
def test_murmur_hash(dtype: Any, attributes: Any) -> None:
    x = np.random.default_rng(1).integers(0, 2**31, (3, 5)).astype(dtype)
    both("MurmurHash3", x, **attributes)
    both("MurmurHash3", np.arange(40_000).astype(dtype), **attributes)
    both("MurmurHash3", x[:, :0], **attributes)
    both("MurmurHash3", x[0, 0], **attributes)


@pytest.mark.parametrize("positive", [0, 1])
def test_murmur_hash_of_text(positive: int) -> None:
    texts = ["", "a", "ab", "abc", "abcd", "abcde", "grün", "x" * 1001, "abc", "äöüß€", "abcdefgh"]
    x = np.array(texts, object)
    both("MurmurHash3", x, positive=positive, seed=3)
    alone = [ours("MurmurHash3", x[n : n + 1], positive=positive, seed=3)[0] for n in range(len(x))]
    assert ours("MurmurHash3", x.reshape(1, 11), positive=positive, seed=3).tolist() == [alone]


def test_murmur_hash_of_long_and_many_texts() -> None:
    lengths = [1, 300_001, 255, 256, 257, 258, 259, 260, 70_000, 2]
    both("MurmurHash3", np.array(["ab"[n % 2] * n for n in lengths], object), seed=1)
    both("MurmurHash3", np.array(["long" * 100], object), positive=0)
    both("MurmurHash3", np.array([f"word {n}" for n in range(20_000)], object))
    both("MurmurHash3", np.array([], object))
    with pytest.raises(UnsupportedOperatorError, match="elements of 2 bytes"):
        ours("MurmurHash3", np.zeros(2, np.int16))


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 6), (6, 1), (5, 9), (9, 5), (40, 33), (1, 7, 8), (0, 2)]
)
def test_dynamic_time_warping(shape: Any) -> None:
    for seed in range(3):
        both("DynamicTimeWarping", f(*shape, seed=seed))
        both("DynamicTimeWarping", np.round(f(*shape, seed=seed)))  # many ties
    both("DynamicTimeWarping", np.full(shape, np.nan, np.float32))
    both("DynamicTimeWarping", np.zeros(shape, np.float32))


def test_dynamic_time_warping_is_of_one_matrix() -> None:
    with pytest.raises(ValueError, match=r"\[M, N\] or \[1, M, N\], got \[2, 3, 4\]"):
        ours("DynamicTimeWarping", f(2, 3, 4))


def test_bifurcation_detector() -> None:
    rng = np.random.default_rng(5)
    for number in range(60):
        source = rng.integers(0, 4 if number % 2 else 9, rng.integers(1, 12))
        tokens = rng.integers(0, 4, rng.integers(1, 6))
        start = int(rng.integers(0, len(source) + 1))
        predicted = np.append(source[start:], rng.integers(0, 9))
        if len(predicted) > 1 and number % 3:
            predicted[rng.integers(0, len(predicted))] += 1
        sizes = {
            "min_ngram_size": int(rng.integers(1, 3)),
            "max_ngram_size": int(rng.integers(2, 5)),
        }
        both(
            "BifurcationDetector",
            source,
            tokens,
            one([start], np.int64),
            predicted,
            outputs=2,
            **sizes,
        )
        both("BifurcationDetector", source, tokens, one([start], np.int64), outputs=2, **sizes)


def test_bifurcation_detector_by_hand_and_its_errors() -> None:
    """The prediction leaves 3, 4 at its second token; of the joined tokens' ends, 9 is not in the source."""
    source, tokens = one([1, 2, 3, 4], np.int64), one([1, 2], np.int64)
    joined, found = ours(
        "BifurcationDetector",
        source,
        tokens,
        one([2], np.int64),
        one([3, 9, 5], np.int64),
        outputs=2,
    )
    assert joined.tolist() == [1, 2, 3, 9]
    assert found.tolist() == [-1]
    with pytest.raises(
        ValueError, match="2 predicted tokens do not continue a source of 4 from 2 on"
    ):
        ours("BifurcationDetector", source, tokens, one([2], np.int64), tokens, outputs=2)
    with pytest.raises(ValueError, match="sizes from 3 to 2"):
        ours(
            "BifurcationDetector",
            source,
            tokens,
            one([2], np.int64),
            min_ngram_size=3,
            max_ngram_size=2,
        )


@pytest.mark.parametrize(
    ("spatial", "attributes"),
    [
        ((7,), {"kernel_shape": [3]}),
        ((7,), {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}),
        ((5, 6), {"kernel_shape": [2, 3]}),
        ((5, 6), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ((5, 6), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((5, 6), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((4, 3, 5), {"kernel_shape": [2, 2, 2], "pads": [0, 1, 0, 1, 0, 1]}),
    ],
)
@pytest.mark.parametrize("planes", [(1, 1), (2, 3), (1, 2)])
def test_max_pool_with_mask(spatial: Any, attributes: Any, planes: Any) -> None:
    rng = np.random.default_rng(2)
    x = f(2, 3, *spatial)
    for share in (0.0, 0.3, 1.0):
        mask = (rng.random((*planes, *spatial)) >= share).astype(np.int32)
        both("MaxpoolWithMask", x, mask, **attributes)


def test_max_pool_with_mask_of_special_numbers_and_errors() -> None:
    x = one([[[np.nan, 1, -np.inf, -np.inf, np.nan, 3]]], np.float32)
    both("MaxpoolWithMask", x, np.ones((1, 1, 6), np.int32), kernel_shape=[2])
    with pytest.raises(ValueError, match=r"a mask of \[1, 1, 5\] does not fit X of \[1, 1, 6\]"):
        ours("MaxpoolWithMask", x, np.ones((1, 1, 5), np.int32), kernel_shape=[2])
    with pytest.raises(ValueError, match="1 to 3 spatial axes"):
        ours("MaxpoolWithMask", x, np.ones((1, 1, 6), np.int32), kernel_shape=[2, 2])
    with pytest.raises(UnsupportedOperatorError, match="float64"):
        ours(
            "MaxpoolWithMask", x.astype(np.float64), np.ones((1, 1, 6), np.int32), kernel_shape=[2]
        )


@pytest.mark.parametrize(
    ("pads", "attributes"),
    [
        ([0, 0, 0, 0], {}),
        ([0, 1, 0, 1], {"strides": [2, 2]}),
        ([1, 0, 1, 1], {"strides": [2, 1], "output_padding": [1, 0], "dilations": [1, 2]}),
        ([0, 1, 0, 1], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ([1, 1, 1, 1], {"group": 2, "kernel_shape": [2, 3]}),
    ],
)
def test_transposed_convolution_with_dynamic_pads(pads: Any, attributes: Any) -> None:
    x, bias = f(2, 4, 5, 6), f(2 * attributes.get("group", 1), seed=1)
    w = f(4, 2, 2, 3, seed=2)
    for given in ((), (bias,)):
        both(
            "ConvTransposeWithDynamicPads",
            x,
            w,
            one(pads, np.int64),
            *given,
            rtol=1e-4,
            **attributes,
        )


def test_transposed_convolution_without_pads() -> None:
    x, w, bias = f(1, 2, 3, 3), f(2, 2, 2, 2, seed=1), f(2, seed=2)
    zeros = ours("ConvTransposeWithDynamicPads", x, w, np.zeros(4, np.int64), bias)
    assert_same(ours("ConvTransposeWithDynamicPads", x, w, None, bias), zeros)
    with pytest.raises(ValueError, match="expects 4 pads, got 2"):
        ours("ConvTransposeWithDynamicPads", x, w, np.zeros(2, np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_cdist(dtype: Any, metric: str) -> None:
    a, b = f(7, 5).astype(dtype), f(4, 5, seed=1).astype(dtype)
    both("CDist", a, b, metric=metric, rtol=1e-4)
    expected = ((a[:, None] - b) ** 2).sum(-1)
    expected = np.sqrt(expected) if metric == "euclidean" else expected
    np.testing.assert_allclose(ours("CDist", a, b, metric=metric), expected, rtol=1e-4)
    with pytest.raises(UnsupportedOperatorError, match="CDist by 'cosine'"):
        ours("CDist", a, b, metric="cosine")
    with pytest.raises(ValueError, match=r"A \[M, K\] and B \[N, K\], got \[7, 5\], \[4, 4\]"):
        ours("CDist", a, b[:, :4], metric=metric)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 2, 2)])
def test_inverse(shape: Any) -> None:
    for dtype in (np.float32, np.float64):
        x = (f(*shape) + 3 * np.eye(shape[-1])).astype(dtype)
        both("Inverse", x, rtol=1e-3)
    assert ours("Inverse", x.astype(np.float16)).dtype == np.float16
    with pytest.raises(ValueError, match="singular"):
        ours("Inverse", np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"square matrices \[\.\.\., M, M\], got \[2, 3\]"):
        ours("Inverse", f(2, 3))


@pytest.mark.parametrize("length", [2, 6, 8])
def test_real_transforms(length: int) -> None:
    x = f(3, length)
    attributes = {"signal_ndim": 1, "onesided": 1, "normalized": 0}
    spectrum = np.fft.rfft(x)
    found = ours("Rfft", x, **attributes)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], spectrum, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours("Irfft", found, **attributes), x, rtol=1e-4, atol=1e-5)
