"""Sizes whose expressions grow from layer to layer get names, and stay exact under them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_notebook_profiler as onp


def nest(layers: int) -> ModelProto:
    """Layers that each put a pooled copy beside what they read, so that a size holds the one before twice."""
    nodes, x = [], "x"
    for i in range(layers):
        pooled = helper.make_node(
            "MaxPool", [x], [f"pooled{i}"], kernel_shape=[3], strides=[2], pads=[0, 1]
        )
        nodes += [pooled, helper.make_node("Concat", [f"pooled{i}", x], [f"both{i}"], axis=2)]
        x = f"both{i}"
    graph = helper.make_graph(
        nodes,
        "nest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, "L"])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def context(layers: int) -> onp.ComputeContext:
    ctx = onp.ComputeContext(account="evaluator")
    ctx.compute(nest(layers))
    return ctx


def lengths(layers: int, length: int) -> list[int]:
    """What each layer's Concat gives, by the formula of the pooling in the operator's definition."""
    found = []
    for _ in range(layers):
        length += (length + 1 - 3) // 2 + 1
        found.append(length)
    return found


@pytest.mark.parametrize("layers", [5, 10, 14, 20])
@pytest.mark.parametrize("length", [2, 7, 12])
def test_a_named_size_is_the_size(layers: int, length: int) -> None:
    ctx = context(layers)
    *_, before, last = [length, *lengths(layers, length)]
    assert not ctx.unknown
    # At the last Concat: what both read, and what it gives.
    assert ctx.peak.evaluate(N=3, L=length) == 3 * 2 * 4 * 2 * last
    assert before < last
    run = onp.profile(nest(layers), {"x": np.ones((3, 2, length), np.float32)})
    assert run.peak_bytes == 3 * 2 * 4 * 2 * last


def test_no_name_while_expressions_are_small() -> None:
    assert not context(5).abbreviations


def test_names_are_told_with_what_they_stand_for() -> None:
    ctx = context(14)
    assert ctx.abbreviations
    texts = list(ctx.abbreviations.values())
    assert all(name.startswith(("both", "pooled")) for name in ctx.abbreviations)
    assert "L" in texts[0]
    assert any(name in texts[-1] for name in ctx.abbreviations)
    assert max(map(len, texts)) < 20_000


def test_questions_about_ranges_see_through_names() -> None:
    ctx = context(14)
    last = lengths(14, 9)[-1]
    assert ctx.bounds(N=(1, 2), L=(2, 9)).peak[1] == 2 * 2 * 4 * 2 * last
    budget = 10 * 2**20
    largest = ctx.largest("N", budget, L=7)
    assert largest == budget // (2 * 4 * 2 * lengths(14, 7)[-1])


def test_names_within_names_end_in_unknown() -> None:
    ctx = context(400)
    assert ctx.unknown
    assert all("too large" in one.reason for one in ctx.unknown)
    # What was known before stays known.
    assert ctx.coverage.known > 80
