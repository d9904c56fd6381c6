"""Normalisations, gated and biased activations whose output lies in an input: the same numbers as in a fresh buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.evaluator.kernels.harness import make_kernel

MS = "com.microsoft"
ROW, CHANNELS, PLACES = ("row",), ("channels",), ("all",)
# operator, domain, opset, what the other inputs look like, attributes
CASES: list[tuple[str, str, int, tuple[Any, ...], dict[str, Any]]] = [
    ("Softmax", "", 13, (), {}),
    ("LogSoftmax", "", 13, (), {"axis": 1}),
    ("LayerNormalization", "", 1, (ROW, ROW), {}),
    ("LayerNormalization", "", 17, (PLACES, ROW), {"axis": 0}),
    ("RMSNormalization", "", 23, (ROW,), {}),
    ("SimplifiedLayerNormalization", "", 1, (ROW,), {}),
    ("SimplifiedLayerNormalization", MS, 1, (ROW,), {}),
    ("MeanVarianceNormalization", "", 9, (), {"axes": [0, 2]}),
    ("MeanVarianceNormalization", "", 13, (), {"axes": [1]}),
    ("LpNormalization", "", 1, (), {"axis": 1, "p": 1}),
    ("LpNormalization", "", 22, (), {}),
    ("InstanceNormalization", "", 6, (CHANNELS, CHANNELS), {}),
    ("GroupNormalization", "", 21, (CHANNELS, CHANNELS), {"num_groups": 2}),
    ("BatchNormalization", "", 15, (CHANNELS,) * 4, {}),
    ("BatchNormalization", "", 15, (CHANNELS,) * 4, {"training_mode": 1}),
    ("SkipLayerNormalization", MS, 1, (PLACES, ROW, ROW, ROW), {}),
    ("SkipSimplifiedLayerNormalization", MS, 1, (PLACES, ROW, ROW), {}),
    ("BiasGelu", MS, 1, (ROW,), {}),
    ("FastGelu", MS, 1, (), {}),
    ("QuickGelu", MS, 1, (), {}),
    ("Gelu", MS, 1, (), {}),
    ("BiasAdd", MS, 1, (ROW, PLACES), {}),
    ("BiasDropout", MS, 1, (PLACES,), {}),
    ("BiasSoftmax", MS, 1, (PLACES,), {"axis": 2, "is_inner_broadcast": 0}),
    ("ScaledSiLU", MS, 1, (), {"alpha": 1.5}),
    ("SwiGLU", "", 28, (PLACES,), {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
@pytest.mark.parametrize("shape", [(2, 4, 5), (3, 4, 9000), (300, 4, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_output_in_the_place_of_an_input(case: Any, shape: Any, dtype: Any) -> None:
    op, domain, opset, others, attributes = case
    rng = np.random.default_rng(6)
    sizes = {ROW: shape[-1:], CHANNELS: shape[1:2], PLACES: shape}
    inputs = [rng.uniform(0.5, 2, sizes[kind]).astype(dtype) for kind in (PLACES, *others)]
    names = [f"x{number}" for number in range(len(inputs))]
    kernel = make_kernel(helper.make_node(op, names, ["y"], domain=domain, **attributes), opset)
    (spec,) = kernel.infer(inputs)
    for position in kernel.in_place:
        given = [one.copy() for one in inputs]
        expected = np.empty(spec.shape, spec.dtype)
        with np.errstate(all="ignore"):
            kernel.compute(inputs, [expected])
            kernel.compute(given, [given[position]])
        np.testing.assert_allclose(given[position], expected, rtol=1e-6, atol=1e-6)
        for number, (one, before) in enumerate(zip(given, inputs, strict=True)):
            assert number == position or one.tobytes() == before.tobytes()
    assert kernel.in_place


def test_repeated_words_are_masked_in_place() -> None:
    words = np.array([[1, 2, 3, 1, 2]])
    scores = np.arange(6, dtype=np.float32)[None]
    node = helper.make_node("NGramRepeatBlock", ["w", "s"], ["y"], domain=MS, ngram_size=3)
    kernel = make_kernel(node, 1)
    own = scores.copy()
    kernel.compute([words, own], [own])
    assert own.tolist() == [[0, 1, 2, -np.inf, 4, 5]]  # 1 2 was followed by 3
