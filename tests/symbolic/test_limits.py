"""Sizes at which a model cannot run: what its shapes say of them, against runs of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import SizeError
from tests.oracles import ort

POSITIONS = """<ir_version: 10, opset_import: ["" : 18]>
g (float[batch,seq,4] x) => (float[batch,K,4] y) <int64[1] zero = {0}, int64[1] one = {1}> {
    end = Shape<start = 1, end = 2>(x) p = Slice(table, zero, end, one) y = Add(x, p)
}"""
"""A table of eight positions, of which as many are taken as there are words."""
ROW = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N] x) => (float[4] y) <float[4] c = {1, 2, 3, 4}> { y = Add(x, c) }"""


def positions() -> ModelProto:
    model = parser.parse_model(POSITIONS)
    table = numpy_helper.from_array(np.ones((1, 8, 4), np.float32), "table")
    model.graph.initializer.append(table)
    return model


def computed(model: Any) -> onp.ComputeContext:
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    return context


def runs(model: ModelProto, **shapes: tuple[int, ...]) -> bool:
    try:
        ort(model, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    except Exception:  # noqa: BLE001 - whatever onnxruntime says
        return False
    return True


def test_a_table_ends() -> None:
    model, context = positions(), computed(positions())
    assert [str(limit) for limit in context.limits] == ["seq is at most 8"]
    assert [runs(model, x=(2, seq, 4)) for seq in (7, 8, 9)] == [True, True, False]
    assert context.largest("seq", "1 GiB", batch=2) == 8
    # x is the caller's; the table 128 bytes, end and constants 24, y and p 16 each word and item
    assert context.largest("seq", 128 + 24 + 3 * 48, batch=2) == 3
    grid = context.feasible({"batch": [1, 2], "seq": [7, 8, 9]}, "1 GiB")
    assert grid.tolist() == [[True, True, False]] * 2


def test_a_size_must_be_a_number_or_one() -> None:
    model = parser.parse_model(ROW)
    context = computed(model)
    assert [str(limit) for limit in context.limits] == ["N is 1 or 4"]
    assert [runs(model, x=(n,)) for n in range(1, 6)] == [True, False, False, True, False]
    assert context.feasible({"N": range(1, 6)}, "1 GiB").tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_what_a_branch_needs_does_not_bind_the_model() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[N] x, bool c) => (float[M] y) <float[4] t = {1, 2, 3, 4}> {
        y = If(c) <then_branch = a () => (float[M] u) { u = Add(x, t) },
                   else_branch = b () => (float[M] v) { v = Identity(x) }>
    }"""
    assert computed(parser.parse_model(text)).limits == ()


def test_no_limit_where_sizes_only_may_differ() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[N] x, float[M] z) => (float[K] y) { y = Add(x, z) }"""
    context = computed(parser.parse_model(text))
    assert context.limits == ()
    assert context.feasible({"N": [1, 2, 3], "M": [3]}, "1 GiB").tolist() == [
        [True],
        [False],
        [True],
    ]
    with pytest.raises(SizeError):
        context.totals(N=2, M=3)


ROWS = """<ir_version: 10, opset_import: ["" : 18]>
g (float[A,2] x, float[B,3] z) => (float[A,5] y) { y = Concat<axis = 1>(x, z) }"""
BAKED = """<ir_version: 10, opset_import: ["" : 18]>
g (float[batch,seq,4] x) => (float[batch,28] y) <int64[2] shape = {0, 28}> { y = Reshape(x, shape) }"""
INNER = """<ir_version: 10, opset_import: ["" : 18]>
g (float[M,K] x, float[L,2] z) => (float[M,2] y) { y = MatMul(x, z) }"""


@pytest.mark.parametrize(
    ("text", "said", "shapes"),
    [
        (ROWS, "A is B", lambda a, b: {"x": (a, 2), "z": (b, 3)}),
        (BAKED, "seq is 7", lambda a, b: {"x": (a, b, 4)}),
        (INNER, "K is L", lambda a, b: {"x": (2, a), "z": (b, 2)}),
    ],
)
def test_sizes_that_must_agree(text: str, said: str, shapes: Any) -> None:
    model = parser.parse_model(text)
    context = computed(model)
    assert [str(limit) for limit in context.limits] == [said]
    first, second = next(
        (a, b)
        for a in context.dims
        for b in context.dims
        if a != b and {a, b} >= set(context.limits[0].size.symbols)
    )
    others = {name: 2 for name in context.dims if name not in (first, second)}
    grid = context.feasible({first: range(1, 10), second: range(1, 10)}, "1 GiB", **others)
    for a in range(1, 10):
        for b in range(1, 10):
            assert grid[a - 1, b - 1] == runs(model, **shapes(a, b)), (a, b)


def test_the_largest_size_is_the_one_that_agrees() -> None:
    context = computed(parser.parse_model(ROWS))
    assert context.largest("A", "1 GiB", B=1_000_003) == 1_000_003
    assert context.largest("A", 10_000, B=1_000_003) == 0
    assert computed(parser.parse_model(BAKED)).largest("seq", "1 GiB", batch=3) == 7
