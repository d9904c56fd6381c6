"""ConvTranspose against onnxruntime, over groups, strides, dilations, pads and output shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_notebook_profiler import ReferenceEvaluator


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    rank = draw(st.integers(1, 3))
    group = draw(st.integers(1, 3))

    def each(low: int, high: int) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(rank)]

    channels, made = group * draw(st.integers(1, 3)), draw(st.integers(1, 3))
    spatial, window = each(1, 5), each(1, 4)
    attributes: dict[str, Any] = {"group": group, "strides": each(1, 3), "dilations": each(1, 2)}
    reach = [
        stride * (size - 1) + (k - 1) * dilation + 1
        for stride, size, k, dilation in zip(
            attributes["strides"], spatial, window, attributes["dilations"], strict=True
        )
    ]
    how = draw(st.sampled_from(["pads", "auto", "output_shape"]))
    if how == "pads":
        begin = [draw(st.integers(0, min(2, (size - 1) // 2))) for size in reach]
        attributes["pads"] = begin * 2
        attributes["output_padding"] = [
            draw(st.integers(0, stride - 1)) for stride in attributes["strides"]
        ]
    elif how == "auto":
        attributes["auto_pad"] = draw(st.sampled_from(["VALID", "SAME_UPPER", "SAME_LOWER"]))
        attributes["dilations"] = [1] * rank
        if attributes["auto_pad"] != "VALID":
            window = [max(k, s) for k, s in zip(window, attributes["strides"], strict=True)]
    else:
        attributes["output_shape"] = [draw(st.integers(max(1, size - 2), size)) for size in reach]
    return (2, channels, *spatial), (channels, made, *window), attributes


@settings(max_examples=150, deadline=None)
@given(cases(), st.booleans(), st.integers(0, 2**32 - 1))
def test_as_onnxruntime_does_it(
    case: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], with_bias: bool, seed: int
) -> None:
    x_shape, w_shape, attributes = case
    rng = np.random.default_rng(seed)
    feeds = {
        "x": rng.normal(size=x_shape).astype(np.float32),
        "w": rng.normal(size=w_shape).astype(np.float32),
    }
    if with_bias:
        feeds["b"] = rng.normal(size=w_shape[1] * attributes["group"]).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", list(feeds), ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, feeds)
    (ours,) = ReferenceEvaluator(data).run(None, feeds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
