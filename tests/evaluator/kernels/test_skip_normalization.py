"""SkipLayerNormalization, its simplified form and EmbedLayerNormalization, as onnxruntime does them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
RNG = np.random.default_rng(8)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def assert_close(ours: Any, theirs: Any) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        close = 2e-3 if one.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize(
    ("shape", "skip"),
    [
        ((2, 3, 8), (2, 3, 8)),
        ((2, 3, 8), (1, 3, 8)),
        ((2, 3, 8), (3, 8)),
        ((5, 8), (5, 8)),
        ((3, 60, 520), (60, 520)),
        ((1, 700, 96), (1, 700, 96)),
    ],
)
def test_as_onnxruntime(dtype: Any, simplified: bool, shape: Any, skip: Any) -> None:
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    x, added = normal(*shape).astype(dtype), normal(*skip).astype(dtype)
    lines = [normal(shape[-1]).astype(dtype) for _ in range(2 if simplified else 3)]
    for count in range(1, len(lines) + 1):
        assert_close(*by_both(op, x, added, *lines[:count], epsilon=1e-5, **MS))
    if not simplified:
        assert_close(*by_both(op, x, added, lines[0], None, lines[2], **MS))
    ours, theirs = by_both(op, x, added, *lines, outputs=4, **MS)
    assert_close(ours, theirs)
    if simplified:
        assert not ours[1].any()


def test_in_place_and_bfloat16() -> None:
    x, skip, gamma = normal(4, 70, 300), normal(4, 70, 300), normal(300)
    inputs = [x, skip, gamma]
    expected = run("SkipSimplifiedLayerNormalization", *inputs, **MS)
    node = helper.make_node(
        "SkipSimplifiedLayerNormalization", ["x", "s", "g"], ["y"], domain="com.microsoft"
    )
    kernel = make_kernel(node, 1)
    own = x.copy()
    kernel.compute([own, skip, gamma], [own])
    np.testing.assert_array_equal(own, expected)
    y = run("SkipSimplifiedLayerNormalization", *(one.astype(BFLOAT16) for one in inputs), **MS)
    assert y.dtype == BFLOAT16
    np.testing.assert_allclose(y.astype(np.float32), expected, rtol=0.02, atol=0.05)


def test_skips_that_do_not_fit() -> None:
    x, gamma = normal(2, 3, 8), normal(8)
    for skip in (normal(2, 3, 4), normal(2, 8), normal(2, 1, 8), normal(1, 2, 3, 8)[:, :, :2]):
        with pytest.raises(ValueError, match="do not fit input"):
            run("SkipLayerNormalization", x, skip, gamma, **MS)
    with pytest.raises(ValueError, match=r"expects bias \[8\], got \[3\]"):
        run("SkipSimplifiedLayerNormalization", x, x, gamma, normal(3), **MS)


IDS = RNG.integers(0, 20, (2, 4)).astype(np.int32)
SEGMENTS = RNG.integers(0, 2, (2, 4)).astype(np.int32)
MASK = np.array([[1, 1, 0, 0], [1, 0, 1, 2]], np.int32)  # two is no one to onnxruntime
ONE_ROW = np.array([[3, 2, 1, 0]], np.int32)
TWO_ROWS = np.array([[3, 2, 1, 0], [8, 7, 7, 1]], np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_embeddings_as_onnxruntime(dtype: Any) -> None:
    words, places, kinds, gamma, beta = (
        one.astype(dtype) for one in (normal(20, 8), normal(9, 8), normal(2, 8), normal(8), normal(8))
    )  # fmt: skip
    tables = (words, places, kinds, gamma, beta)
    for inputs in (
        (IDS, SEGMENTS, *tables),
        (IDS, SEGMENTS, *tables, MASK),
        (IDS, SEGMENTS, *tables, MASK, ONE_ROW),
        (IDS, SEGMENTS, *tables, None, TWO_ROWS),
        (IDS, None, words, places, None, gamma, beta, MASK),
    ):
        for outputs in (2, 3):
            assert_close(*by_both("EmbedLayerNormalization", *inputs, outputs=outputs, **MS))


def test_indices_beyond_a_table() -> None:
    tables = (normal(20, 8), normal(9, 8), normal(2, 8), normal(8), normal(8))
    beyond = ((IDS + 18, SEGMENTS, 20), (IDS - 18, SEGMENTS, 20), (IDS, SEGMENTS + 1, 2))
    for ids, segments, named in beyond:
        with pytest.raises(ValueError, match=f"into a table of {named} rows"):
            run("EmbedLayerNormalization", ids, segments, *tables, outputs=2, **MS)
    with pytest.raises(ValueError, match=r"position_ids \[2, 4\] or \[1, 4\]"):
        run("EmbedLayerNormalization", IDS, SEGMENTS, *tables, None, ONE_ROW[:, :3], **MS)
    with pytest.raises(ValueError, match=r"input_ids \[N, S\]"):
        run("EmbedLayerNormalization", IDS[0], SEGMENTS, *tables, **MS)
