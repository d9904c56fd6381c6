"""Conv against onnxruntime on random cases, against sums by hand, and its scratch against the bound it states."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernels import _columns, convolution
from onnx_notebook_profiler.evaluator.numpy_memory import numpy_memory
from tests.evaluator.kernels.harness import make_kernel, run, typed
from tests.oracles import ort

BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
INF = math.inf


def ort_conv(inputs: Any, attributes: Any, opset: int = 21) -> Any:
    names = ["x", "w", "b"][: len(inputs)]
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    graph = helper.make_graph(
        [helper.make_node("Conv", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(name, kind, None) for name in names],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return ort(model, dict(zip(names, inputs, strict=True)))[0]


def by_hand(x: Any, w: Any, group: int, strides: Any, dilations: Any, pads: Any) -> Any:
    """The sum over channels and taps that the specification describes, in float64, one window at a time."""
    rank = x.ndim - 2
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    counts = [
        (size - r) // s + 1 for size, r, s in zip(padded.shape[2:], reach, strides, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    channels, filters = w.shape[1], w.shape[0] // group
    for n, m in itertools.product(*map(range, out.shape[:2])):
        first = m // filters * channels
        for place in itertools.product(*map(range, counts)):
            window = tuple(
                slice(p * s, p * s + r, d)
                for p, s, r, d in zip(place, strides, reach, dilations, strict=True)
            )
            seen = padded[n, first : first + channels][(slice(None), *window)]
            out[(n, m, *place)] = (seen * w[m]).sum()
    return out


@st.composite
def cases(draw: Any, ranks: Any = (1, 2, 3)) -> Any:
    rank = draw(st.sampled_from(ranks))
    each = lambda low, high: draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))  # noqa: E731
    group, channels, filters = (draw(st.integers(1, 3)) for _ in range(3))
    kernel, strides, dilations = each(1, 4), each(1, 3), each(1, 3)
    before, after = each(0, 3), each(0, 3)
    auto = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto.startswith("SAME"):
        dilations = [1] * rank  # onnxruntime refuses more
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [size + r for size, r in zip(each(0, 7), reach, strict=True)]
    attributes: Any = {"group": group, "strides": strides, "dilations": dilations}
    attributes |= {"pads": before + after} if auto == "NOTSET" else {"auto_pad": auto}
    if draw(st.booleans()):
        attributes["kernel_shape"] = kernel
    random = np.random.default_rng(draw(st.integers(0, 99)))
    x = random.normal(size=(draw(st.integers(1, 2)), group * channels, *sizes))
    w = random.normal(size=(group * filters, channels, *kernel))
    bias = [random.normal(size=group * filters)] if draw(st.booleans()) else []
    return [x, w, *bias], attributes


# Boxes and ways differ with the room: also try them where scratch is so small that each case needs many.
ROOMS = st.sampled_from(
    [
        {},
        {"CACHED": 0, "COLUMNS": 0, "PATCH": 0},
        {"CACHED": 2**8, "COLUMNS": 2**8, "SUMS": 2**8, "PATCH": 2**7, "LEAST": 1},
        {"CACHED": 2**7, "SUMS": 2**9, "LEAST": 1, "_ADD": 0.001},
        {"LEAST": 1, "_ADD": 0.001, "_SMALL": 2**8},
        {"WEIGHTS": 0},
        {"CACHED": 2**8, "COLUMNS": 2**8, "LEAST": 4, "WEIGHTS": 0},
    ]
)


def with_room(room: Any, inputs: Any, opset: int, attributes: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, size in room.items():
            patch.setattr(_columns, name, size)
        _columns.plan_of.cache_clear()
        y = run("Conv", *inputs, opset=opset, **attributes)
    _columns.plan_of.cache_clear()
    return y


@settings(max_examples=300)
@given(case=cases(), room=ROOMS, opset=st.sampled_from([1, 11, 21, 22]))
def test_random_convolutions_are_those_of_onnxruntime(case: Any, room: Any, opset: Any) -> None:
    inputs, attributes = case
    inputs = [value.astype(np.float32) for value in inputs]
    expected = ort_conv(inputs, attributes)
    actual = with_room(room, inputs, opset, attributes)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=60)
@given(case=cases(ranks=(1, 2)), room=ROOMS, dtype=st.sampled_from(["d", "e", BF16]))
def test_random_convolutions_of_other_types(case: Any, room: Any, dtype: Any) -> None:
    inputs, attributes = case
    inputs = [value.astype(dtype) for value in inputs]
    if "auto_pad" in attributes:
        del attributes["auto_pad"]
        attributes["pads"] = [1] * (2 * (inputs[0].ndim - 2))
    actual = with_room(room, inputs, 22, attributes)
    assert actual.dtype == inputs[0].dtype
    wide = [value.astype(np.float64) for value in inputs]
    how = (attributes[name] for name in ("group", "strides", "dilations", "pads"))
    expected = by_hand(*wide[:2], *how)
    if len(wide) > 2:
        expected += wide[2].reshape(-1, *[1] * (expected.ndim - 2))
    tolerance = {"d": 1e-12, "e": 2e-3}.get(dtype, 1e-2)
    np.testing.assert_allclose(actual.astype(float), expected, rtol=tolerance, atol=tolerance)


def test_narrow_floats_are_summed_before_they_are_rounded() -> None:
    # 2048 + 1 is 2048 in float16; the true sum shows all the ones
    x = typed.float16([[[2048, 1, 1, 1, 1]]])
    assert run("Conv", x, np.ones((1, 1, 5), np.float16)).item() == 2052
    assert run("Conv", x.reshape(1, 5, 1), np.ones((1, 5, 1), np.float16)).item() == 2052


def test_four_spatial_axes() -> None:
    random = np.random.default_rng(0)
    x, w = random.normal(size=(1, 2, 4, 3, 5, 4)), random.normal(size=(4, 1, 2, 3, 2, 1))
    how: Any = {"group": 2, "strides": [1, 2, 1, 3], "dilations": [2, 1, 3, 1], "pads": [1] * 8}
    np.testing.assert_allclose(run("Conv", x, w, **how), by_hand(x, w, *how.values()), rtol=1e-12)


def test_same_padding_counts_the_dilated_kernel() -> None:
    # 6 elements and stride 2 make 3 windows, which reach 5 wide: (3 - 1) * 2 + 5 - 6 = 3 elements of padding
    x, w = np.arange(1.0, 7).reshape(1, 1, 6), typed.float64([[[1, 10, 100]]])
    how: Any = {"dilations": [2], "strides": [2]}
    upper = run("Conv", x, w, auto_pad="SAME_UPPER", **how)
    assert upper.tolist() == [[[420, 642, 64]]]  # one before: places -1 1 3, 1 3 5, 3 5 7
    lower = run("Conv", x, w, auto_pad="SAME_LOWER", **how)
    assert lower.tolist() == [[[310, 531, 53]]]  # two before: places -2 0 2, 0 2 4, 2 4 6


def test_negative_padding_cuts_off() -> None:
    x = np.arange(5.0).reshape(1, 1, 5)
    assert run("Conv", x, np.ones((1, 1, 3)), pads=[-1, -1]).tolist() == [[[6.0]]]
    both = np.repeat(x, 2, axis=1)
    assert run("Conv", both, np.ones((2, 1, 2)), pads=[-1, -1], group=2).tolist() == [[[3, 5]] * 2]


def test_infinity_stays_in_the_windows_that_see_it() -> None:
    x = np.zeros((1, 2, 9, 9), np.float32)
    x[0, :, 4, 4] = INF
    for w, group in (
        (np.ones((2, 2, 3, 3), np.float32), 1),
        (np.ones((2, 1, 3, 3), np.float32), 2),
    ):
        y = run("Conv", x, w, group=group, pads=[1] * 4)
        expected = np.zeros((1, 2, 9, 9), np.float32)
        expected[:, :, 3:6, 3:6] = INF
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("shape", "filters", "expected"),
    [
        ((0, 2, 5), (3, 2, 3), (0, 3, 3)),
        ((1, 2, 2), (3, 2, 3), (1, 3, 0)),
        ((2, 2, 5), (0, 2, 3), (2, 0, 3)),
        ((2, 0, 5), (3, 0, 3), (2, 3, 3)),
        ((2, 0, 5), (3, 0, 1), (2, 3, 5)),
    ],
)
def test_empty_tensors(shape: Any, filters: Any, expected: Any) -> None:
    y = run("Conv", np.ones(shape, np.float32), np.ones(filters, np.float32))
    np.testing.assert_array_equal(y, np.zeros(expected, np.float32))


@pytest.mark.parametrize(
    ("shape", "filters", "attributes", "message"),
    [
        ((1, 4), (3, 4), {}, "got shapes"),
        ((1, 4, 5), (3, 4, 1, 1), {}, "got shapes"),
        ((1, 4, 5), (3, 2, 1), {}, "group 1"),
        ((1, 4, 5), (3, 2, 1), {"group": 2}, "group 2"),
        ((1, 4, 5), (3, 4, 2), {"group": 0}, "group 0"),
        ((1, 4, 5), (3, 4, 2), {"kernel_shape": [3]}, "kernel_shape"),
        ((1, 4, 5), (3, 4, 2), {"strides": [1, 1]}, "strides needs 1"),
        ((1, 4, 5), (3, 4, 2), {"strides": [0]}, "strides are 1 or more"),
        ((1, 4, 5), (3, 4, 2), {"dilations": [0]}, "dilations are 1 or more"),
        ((1, 4, 5), (3, 4, 2), {"pads": [1]}, "pads needs 2"),
        ((1, 4, 5), (3, 4, 2), {"auto_pad": "SAME"}, "auto_pad 'SAME'"),
        ((1, 4, 5), (3, 4, 9), {}, "does not fit"),
        ((1, 4, 5), (3, 4, 0), {}, "1 or more elements"),
    ],
)
def test_what_does_not_fit(shape: Any, filters: Any, attributes: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        run("Conv", np.ones(shape, np.float32), np.ones(filters, np.float32), **attributes)


def test_other_inputs_that_do_not_fit() -> None:
    x, w = np.ones((1, 1, 5), np.float32), np.ones((2, 1, 3), np.float32)
    with pytest.raises(ValueError, match="one type"):
        run("Conv", x, w.astype(np.float64))
    with pytest.raises(ValueError, match="bias for each of 2"):
        run("Conv", x, w, np.ones(1, np.float32))
    with pytest.raises(UnsupportedOperatorError, match="int32"):
        run("Conv", x.astype(np.int32), w.astype(np.int32))


# Each would need far more than the bound if all windows were laid out at once.
@pytest.mark.parametrize(
    ("shape", "filters", "attributes"),
    [
        ((1, 128, 7500), (64, 128, 3), {"dilations": [1000]}),
        ((1, 128, 7500), (64, 128, 3), {"dilations": [1000], "pads": [1000, 1000]}),
        ((1, 128, 15000), (64, 128, 3), {"dilations": [4000], "pads": [4000, 4000]}),
        ((2, 96, 160, 160), (24, 96, 3, 3), {"pads": [1] * 4}),
        ((1, 1, 1, 400000), (4, 1, 1, 256), {"strides": [1, 2]}),
        ((1, 64, 200, 200), (64, 1, 5, 5), {"group": 64, "pads": [2] * 4}),
        ((1, 4, 3, 300000), (4, 1, 3, 3), {"group": 4, "pads": [1] * 4}),
        ((1, 2, 3000000), (2, 1, 2), {"group": 2, "dilations": [1000000]}),
        ((1, 16, 40, 40, 40), (16, 16, 3, 3, 3), {"auto_pad": "SAME_UPPER"}),
        ((1, 256, 90, 90), (256, 256, 1, 1), {}),
        ((1, 256, 90, 90), (256, 256, 1, 1), {"strides": [2, 2]}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("biased", [False, True])
def test_scratch_stays_within_the_bound(
    shape: Any, filters: Any, attributes: Any, dtype: Any, biased: Any
) -> None:
    if dtype != np.float32 and math.prod(shape) > 10**6:
        shape = (*shape[:2], *(max(size // 2, 3) for size in shape[2:]))
    x, w = np.ones(shape, dtype), np.ones(filters, dtype)
    inputs = [x, w, *([np.ones(filters[0], dtype)] if biased else [])]
    names = ["x", "w", "b"][: len(inputs)]
    kernel = make_kernel(helper.make_node("Conv", names, ["y"], **attributes), 21)
    out = np.empty(*kernel.infer(inputs)[0])
    with numpy_memory() as memory:
        kernel.compute(inputs, [out])
    assert memory.live == 0
    window = math.prod(filters[1:]) * max(out.itemsize, 4)
    bound = max(convolution.SCRATCH, window)
    if dtype == np.float16:
        bound += w.size * 4
    assert memory.peak <= bound
