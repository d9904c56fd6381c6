"""Shape arithmetic inside models: what small tensors hold, against what a run makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from tests.symbolic.checking import inferred, verdict
from tests.symbolic.rows import graph

# Each gives a vector of sizes from n = [N] and m = [M].
ARITHMETIC = {
    "quotients": "a = Sub(n, five) b = Div(a, three) c = Abs(b) d = Concat<axis=0>(c, m)",
    "rests": "a = Mod(n, three) d = Concat<axis=0>(a, m)",
    "rests below zero": "a = Sub(n, five) b = Mod(a, three) d = Concat<axis=0>(b, m)",
    "extrema": "a = Max(n, m, five) b = Min(n, three) d = Concat<axis=0>(a, b)",
    "halves": "f = Cast<to=1>(n) h = Mul(f, half) g = Floor(h) d = Cast<to=7>(g)",
    "halves rounded up": "f = Cast<to=1>(n) h = Mul(f, half) g = Ceil(h) d = Cast<to=7>(g)",
    "thirds cut off": "f = Cast<to=1>(n) t = Cast<to=1>(three) h = Div(f, t) d = Cast<to=7>(h)",
    "products": "c = Concat<axis=0>(n, m, three) d = ReduceProd<keepdims=1>(c)",
    "sums": "c = Concat<axis=0>(n, m, three) d = ReduceSum<keepdims=1>(c)",
    "minus one is no size": (
        "c = Concat<axis=0>(n, m) q = Equal(c, less) o = Mul(c, three) d = Where(q, o, c)"
    ),
    "a matrix of sizes": (
        "c = Concat<axis=0>(n, m, three, five) r = Reshape(c, square) t = Transpose(r)"
        " g = Gather<axis=1>(t, one) d = Reshape(g, less)"
    ),
    "padded and cut": "p = Pad(n, pads) e = Expand(p, one) d = Slice(e, one, five)",
    "repeated": "t = Tile(n, three) c = Concat<axis=0>(t, m) d = Slice(c, one, five)",
    "a range of numbers": "q = Squeeze(n) u = Cast<to=7>(q) r = Range(zero, u, step) d = Shape(r)",
}
CONSTANTS = (
    "int64[1] five = {5}, int64[1] three = {3}, int64[1] less = {-1}, int64[1] one = {1}, int64 zero = {0},"
    " int64 step = {2}, float[1] half = {0.5}, int64[2] square = {2, 2}, int64[2] pads = {1, 1},"
    " int64[1] start = {0}"
)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str) -> None:
    model = graph(
        f"g (float[N,M] X) => (Y) <{CONSTANTS}> {{ s = Shape(X) n = Gather(s, start) m = Gather(s, one)"
        f" {ARITHMETIC[name]} Y = ConstantOfShape(d) }}"
    )
    found = inferred(model)
    evaluator = onp.ReferenceEvaluator(model, kernels="numpy")
    for n, m in ((1, 1), (2, 3), (4, 2), (6, 5), (7, 1), (9, 4)):
        (y,) = evaluator.run(None, {"X": np.zeros((n, m), np.float32)})
        assert verdict(found, "Y", y, {"N": n, "M": m}) == "right", (n, m, found.types)


@pytest.mark.parametrize("start", [-4, -1, 0, 2, 9])
@pytest.mark.parametrize("end", [-9, -1, 3, 2**62])
@pytest.mark.parametrize("step", [-3, -1, 1, 2])
def test_bounds_whose_sign_the_sizes_decide(start: int, end: int, step: int) -> None:
    model = graph(
        f"g (float[N,M] X) => (Y) <int64[1] zero = {{0}}, int64[1] shift = {{{start}}},"
        f" int64[1] end = {{{end}}}, int64[1] step = {{{step}}}, int64[1] three = {{3}}> {{"
        " s = Shape(X) n = Gather(s, zero) d = Sub(n, three) start = Add(d, shift)"
        " Y = Slice(X, start, end, zero, step) }"
    )
    found = inferred(model)
    evaluator = onp.ReferenceEvaluator(model, kernels="numpy")
    for n in range(1, 9):
        (y,) = evaluator.run(None, {"X": np.zeros((n, 2), np.float32)})
        assert verdict(found, "Y", y, {"N": n, "M": 2}) == "right", (n, y.shape, found.types["Y"])
