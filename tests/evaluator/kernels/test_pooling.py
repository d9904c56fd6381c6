"""MaxPool and AveragePool against onnxruntime on random cases, and against windows by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from onnx import TensorProto, helper

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernels import pooling
from onnx_notebook_profiler.evaluator.numpy_memory import numpy_memory
from tests.evaluator.kernels.harness import make_kernel, run, typed
from tests.oracles import ort

BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
INF, NAN = math.inf, math.nan
F32: Any = np.float32


def pool_model(op_type: str, x: Any, attributes: Any, opset: int, outputs: int = 1) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    names, kinds = ["y", "i"][:outputs], [kind, TensorProto.INT64]
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], names, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(*one, None) for one in zip(names, kinds, strict=False)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@st.composite
def cases(draw: Any, ranks: Any = (1, 2, 3)) -> Any:
    rank = draw(st.sampled_from(ranks))
    each = lambda low, high: draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))  # noqa: E731
    kernel, strides, dilations = each(1, 5), each(1, 4), each(1, 3)
    auto = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto.startswith("SAME"):
        dilations = [
            1
        ] * rank  # onnxruntime forgets them there, and refuses windows with gaps between them
        strides = [min(s, k) for s, k in zip(strides, kernel, strict=True)]
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2]  # onnxruntime refuses more
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [max(size + r, 1) for size, r in zip(each(-2, 8), reach, strict=True)]
    attributes: Any = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    attributes |= {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
    if auto == "VALID":
        pads = [0] * (2 * rank)
    if not auto.startswith("SAME"):
        room = zip(sizes, pads[:rank], pads[rank:], reach, strict=True)
        assume(all(size + before + after >= r for size, before, after, r in room))
    attributes["ceil_mode"] = draw(st.integers(0, 1))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    x = random.permutation(2 * 3 * math.prod(sizes)).reshape(2, 3, *sizes)
    return x - x.size // 2, attributes


def explicit(case: Any) -> Any:
    """The case with padding of its own, in which at least one window fits."""
    x, attributes = case
    if attributes.pop("auto_pad", None):
        kernel, dilations = attributes["kernel_shape"], attributes["dilations"]
        attributes["pads"] = [
            (k - 1) * d // 2 + 1 for k, d in zip(kernel * 2, dilations * 2, strict=True)
        ]
    return x, attributes


def windows_by_hand(sizes: Any, attributes: Any, y_shape: Any) -> Any:
    """For each window its place, and the places that it sees, inside and outside the input."""
    rank = len(sizes)
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    dilations, pads = attributes["dilations"], attributes["pads"]
    for place in itertools.product(*map(range, y_shape)):
        axes = [
            [place[a] * strides[a] - pads[a] + k * dilations[a] for k in range(kernel[a])]
            for a in range(rank)
        ]
        yield place, list(itertools.product(*axes))


@settings(max_examples=200)
@given(
    case=cases(), opset=st.sampled_from([10, 11, 12, 21, 22]), block=st.sampled_from([1, 7, None])
)
def test_random_maxima_are_those_of_onnxruntime(case: Any, opset: Any, block: Any) -> None:
    x, attributes = case[0].astype(np.float32), case[1]
    (expected,) = ort(pool_model("MaxPool", x, attributes, min(opset, 21)), {"x": x})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "BLOCK", block or pooling.BLOCK)
        actual = run("MaxPool", x, opset=opset, **attributes)
        assert actual.shape == expected.shape
        seen = expected > np.finfo(np.float32).min  # some dilated windows see padding alone
        np.testing.assert_array_equal(actual[seen], expected[seen])
        assert (actual[~seen] == -INF).all()
        with_places, places = run("MaxPool", x, opset=opset, outputs=2, **attributes)
        np.testing.assert_array_equal(with_places, actual)
        np.testing.assert_array_equal(x.reshape(-1)[places[seen]], actual[seen])


@settings(max_examples=100)
@given(case=cases(), order=st.integers(0, 1), block=st.sampled_from([1, 7, None]))
def test_random_indices_are_those_of_onnxruntime(case: Any, order: Any, block: Any) -> None:
    x, attributes = case[0].astype(np.float32), case[1] | {"storage_order": order}
    expected = ort(pool_model("MaxPool", x, attributes, 21, outputs=2), {"x": x})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "BLOCK", block or pooling.BLOCK)
        actual = run("MaxPool", x, outputs=2, **attributes)
    seen = expected[0] > np.finfo(np.float32).min
    np.testing.assert_array_equal(actual[0][seen], expected[0][seen])
    np.testing.assert_array_equal(actual[1][seen], expected[1][seen])


@settings(max_examples=100)
@given(case=cases(ranks=(1, 2)), dtype=st.sampled_from(["b", "B", "e", "d", BF16]))
def test_random_maxima_of_other_types(case: Any, dtype: Any) -> None:
    x, attributes = explicit(case)
    x = (x % 201 - (0 if dtype == "B" else 100)).astype(dtype)
    y = run("MaxPool", x, opset=22, **attributes)
    assert y.dtype == x.dtype
    for place, seen in windows_by_hand(x.shape[2:], attributes, y.shape[2:]):
        inside = [p for p in seen if all(0 <= i < n for i, n in zip(p, x.shape[2:], strict=True))]
        if inside:
            expected = np.max([x[(..., *p)].astype(float) for p in inside], axis=0)
            np.testing.assert_array_equal(y[(..., *place)].astype(float), expected)


@settings(max_examples=200)
@given(
    case=cases(),
    opset=st.sampled_from([7, 10, 11, 19, 21, 22]),
    include=st.integers(0, 1),
    block=st.sampled_from([1, 7, None]),
)
def test_random_averages_are_those_of_onnxruntime(
    case: Any, opset: Any, include: Any, block: Any
) -> None:
    x, attributes = case[0].astype(np.float32), case[1] | {"count_include_pad": include}
    if opset < 19:
        del attributes["dilations"]
    if opset < 10:
        del attributes["ceil_mode"]
    (expected,) = ort(pool_model("AveragePool", x, attributes, min(opset, 21)), {"x": x})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "BLOCK", block or pooling.BLOCK)
        actual = run("AveragePool", x, opset=opset, **attributes)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-3)


@settings(max_examples=100)
@given(case=cases(), dtype=st.sampled_from(["e", "d", BF16]), include=st.booleans())
def test_random_averages_of_other_types(case: Any, dtype: Any, include: Any) -> None:
    x, attributes = explicit(case)
    x = (x % 50).astype(dtype)
    y = run("AveragePool", x, opset=22, count_include_pad=int(include), **attributes)
    assert y.dtype == x.dtype
    rank = x.ndim - 2
    ends = [
        size + after for size, after in zip(x.shape[2:], attributes["pads"][rank:], strict=True)
    ]
    tolerance = {"d": 1e-12, "e": 1e-3}.get(dtype, 1e-2)
    for place, seen in windows_by_hand(x.shape[2:], attributes, y.shape[2:]):
        inside = [p for p in seen if all(0 <= i < n for i, n in zip(p, x.shape[2:], strict=True))]
        counted = [p for p in seen if all(i < end for i, end in zip(p, ends, strict=True))]
        if inside:
            total = np.sum([x[(..., *p)].astype(float) for p in inside], axis=0)
            expected = total / len(counted if include else inside)
            np.testing.assert_allclose(y[(..., *place)].astype(float), expected, rtol=tolerance)


@settings(max_examples=100)
@given(case=cases(), op_type=st.sampled_from(["MaxPool", "AveragePool"]))
def test_shapes_are_those_of_onnx(case: Any, op_type: Any) -> None:
    x, attributes = case[0].astype(np.float32), case[1]
    model = onnx.shape_inference.infer_shapes(pool_model(op_type, x, attributes, 22))
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert run(op_type, x, opset=22, **attributes).shape == tuple(dim.dim_value for dim in dims)


def test_averages_are_rounded_once() -> None:
    x = typed.float16([[[2048, 1, 1, 1, 1, 1]]])  # in float16, 2048 + 1 is 2048
    assert run("AveragePool", x, kernel_shape=[6]).item() == np.float16(2053 / 6)
    assert run("AveragePool", np.repeat(x, 9, -1), kernel_shape=[54]).item() == np.float16(2053 / 6)


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("outputs", [1, 2])
def test_nan_is_the_largest(kernel: Any, outputs: Any) -> None:
    x = F32([[[1, NAN, -INF, -INF, -INF]]])
    result = run("MaxPool", x, kernel_shape=[kernel], outputs=outputs)
    y = result[0] if outputs > 1 else result
    np.testing.assert_array_equal(y, [[[NAN, NAN, -INF, -INF][: 6 - kernel]]])
    if outputs > 1:
        assert result[1].tolist() == [[[1, 1, 2, 3][: 6 - kernel]]]


def test_the_first_of_equal_values_is_the_place() -> None:
    _, places = run("MaxPool", F32([[[2, 2, 1, 2]]]), kernel_shape=[3], outputs=2)
    assert places.tolist() == [[[0, 1]]]
    lowest = np.full((1, 1, 3), -128, np.int8)
    assert run("MaxPool", lowest, kernel_shape=[2], outputs=2)[1].tolist() == [[[0, 1]]]


def test_indices_alone() -> None:
    node = helper.make_node("MaxPool", ["x"], ["", "i"], kernel_shape=[2])
    x = F32([[[3, 1, 2]]])
    kernel = make_kernel(node, 21)
    assert [spec.dtype for spec in kernel.infer([x])] == [np.float32, np.int64]
    places = np.empty((1, 1, 2), np.int64)
    kernel.compute([x], [None, places])
    assert places.tolist() == [[[0, 2]]]


def test_windows_on_padding_alone() -> None:
    how: Any = {"kernel_shape": [1], "pads": [1, 1]}
    assert run("AveragePool", F32([[[5]]]), **how).tolist() == [[[0, 5, 0]]]
    assert run("MaxPool", F32([[[5]]]), **how).tolist() == [[[-INF, 5, -INF]]]
    y, places = run("MaxPool", typed.int8([[[5]]]), outputs=2, **how)
    assert (y.tolist(), places.tolist()) == ([[[-128, 5, -128]]], [[[-1, 0, -1]]])


@pytest.mark.parametrize("shape", [(0, 2, 5), (1, 0, 5), (1, 2, 2)])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_empty_results(shape: Any, op_type: Any) -> None:
    y = run(op_type, np.ones(shape, np.float32), kernel_shape=[3])
    assert y.shape == (*shape[:2], shape[2] - 2)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((1, 4), {"kernel_shape": [1]}, "shape \\(1, 4\\)"),
        ((1, 4, 5), {"kernel_shape": [1, 1]}, "\\[1, 1\\]"),
        ((1, 4, 5), {}, "kernel_shape"),
        ((1, 4, 5), {"kernel_shape": [0]}, "1 or more"),
        ((1, 4, 5), {"kernel_shape": [8]}, "does not fit"),
        ((1, 4, 5), {"kernel_shape": [2], "pads": [1]}, "pads"),
    ],
)
def test_what_does_not_fit(op_type: Any, shape: Any, attributes: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run(op_type, np.ones(shape, np.float32), **attributes)


def test_other_types() -> None:
    with pytest.raises(UnsupportedOperatorError, match="bool"):
        run("MaxPool", np.ones((1, 1, 3), np.bool_), kernel_shape=[2])
    with pytest.raises(UnsupportedOperatorError, match="int8"):
        run("AveragePool", np.ones((1, 1, 3), np.int8), kernel_shape=[2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 32, 300, 300), {"kernel_shape": [3, 3], "pads": [1] * 4}),
        ((1, 16, 300000), {"kernel_shape": [300], "strides": [7]}),
        ((1, 16, 1000, 300), {"kernel_shape": [1000, 299]}),
    ],
)
@pytest.mark.parametrize("outputs", [1, 2])
def test_scratch_is_a_few_blocks(dtype: Any, shape: Any, attributes: Any, outputs: Any) -> None:
    x = np.ones(shape, dtype)
    op_type = "MaxPool" if outputs == 2 or dtype == np.uint8 else "AveragePool"
    if outputs == 2 and shape[2] == 1000:
        attributes = {"kernel_shape": [100, 20], "strides": [100, 20]}
    node = helper.make_node(op_type, ["x"], ["y", "i"][:outputs], **attributes)
    kernel = make_kernel(node, 21)
    results = [np.empty(*spec) for spec in kernel.infer([x])]
    with numpy_memory() as memory:
        kernel.compute([x], results)
    assert memory.live == 0
    # averages: sums and divisors in float32, three counts for each window along an axis; indices: positions, masks
    assert memory.peak <= pooling.BLOCK * 28 + 2**18
