"""Scan along any axis, in any direction: results as onnxruntime's, accounts as numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

from onnx_notebook_profiler.errors import KernelError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from tests.memory_truth import assert_accounts_are_true
from tests.oracles import assert_same, ort

TWO = np.array([1, -2], np.float32)


def model_of(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')


SCAN = (
    "g (float[2] s, float[{xs}] x, float[{zs}] z) => (float[2] y, float[p, q] t, float[m, n] u) {{"
    " y, t, u = Scan <num_scan_inputs = 2, scan_input_axes = [{ax}, {az}],"
    " scan_input_directions = [{dx}, {dz}], scan_output_axes = [{at}, {au}],"
    " scan_output_directions = [{dt}, {du}],"
    " body = b (float[2] v, float[2] a, float[3] b) => (float[2] w, float[2] c, float[3] d) {{"
    "   w = Add(v, a) c = Mul(v, a) d = Neg(b) }}> (s, x, z) }}"
)


@pytest.mark.parametrize("ax", [0, 1, -1, -2])
@pytest.mark.parametrize("az", [0, 1])
@pytest.mark.parametrize("directions", [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 1, 0), (1, 1, 1, 1)])
@pytest.mark.parametrize(("at", "au"), [(0, 0), (1, -1), (-2, 1)])
def test_scan_along_any_axis_in_any_direction(
    ax: Any, az: Any, directions: Any, at: Any, au: Any
) -> None:
    dx, dz, dt, du = directions
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    z = np.arange(12, dtype=np.float32).reshape(4, 3)
    x, z = (x if ax in (0, -2) else x.T.copy()), (z if az == 0 else z.T.copy())
    text = SCAN.format(
        xs=f"{x.shape[0]}, {x.shape[1]}",
        zs=f"{z.shape[0]}, {z.shape[1]}",
        ax=ax,
        az=az,
        dx=dx,
        dz=dz,
        at=at,
        au=au,
        dt=dt,
        du=du,
    )
    feeds = {"s": TWO, "x": x, "z": z}
    (outputs,) = assert_accounts_are_true(text, feeds)
    assert_same(outputs, ort(model_of(text), feeds))


def test_scan_over_nothing() -> None:
    text = (
        "g (float[2] s, float[k, 2] x) => (float[2] y, float[m, 2] t) {"
        " y, t = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] a)"
        " => (float[2] w, float[2] c) { w = Add(v, a) c = Neg(a) }> (s, x) }"
    )
    none, some = ({"s": TWO, "x": np.ones((steps, 2), np.float32)} for steps in (0, 3))
    (y, t), outputs = assert_accounts_are_true(text, none, some)
    np.testing.assert_array_equal(y, TWO)
    assert (t.shape, t.dtype) == ((0, 2), np.float32)
    assert y is not TWO
    assert_same(outputs, ort(model_of(text), some))  # which takes no empty inputs here


def test_scanned_inputs_must_agree_in_length() -> None:
    text = SCAN.format(xs="k, 2", zs="l, 3", ax=0, az=0, dx=0, dz=0, at=0, au=0, dt=0, du=0)
    feeds = {"s": TWO, "x": np.ones((2, 2), np.float32), "z": np.ones((3, 3), np.float32)}
    with pytest.raises(KernelError, match=r"\[2, 3\] steps: they must agree"):
        ReferenceEvaluator(text).run(None, feeds)


def test_scan_reads_outer_values() -> None:
    text = (
        "g (float[2] s, float[k, 2] x) => (float[2] y) { o = Neg(s) y = Scan <num_scan_inputs = 1,"
        " body = b (float[2] v, float[2] a) => (float[2] w) { t = Add(v, a) w = Mul(t, o) }> (s, x) }"
    )
    feeds = {"s": TWO, "x": np.ones((2, 2), np.float32)}
    (outputs,) = assert_accounts_are_true(text, feeds)
    assert_same(outputs, ort(model_of(text), feeds))


BATCHED = (
    "g (int64[b] n, float[b, 2] s, float[b] t, float[b, k, 2] x, float[b, k, 3] z)"
    " => (float[b, 2] y, float[b] o, float[b, k, 2] p, float[b, k, 3] q) {{"
    " y, o, p, q = Scan <num_scan_inputs = 2{directions},"
    " body = b (float[2] v, float r, float[2] a, float[3] c) => (float[2] w, float u, float[2] d, float[3] e) {{"
    "   w = Add(v, a) m = ReduceSum <keepdims = 0> (a) u = Add(r, m) d = Mul(v, a) e = Neg(c) }}> ({n}, s, t, x, z) }}"
)


def batched(directions: str = "", n: str = "n") -> str:
    text = BATCHED.format(directions=directions, n=n)
    return f'<ir_version: 5, opset_import: ["" : 8]>\n{text}'


def batch_of(sizes: Any, steps: int) -> dict[str, Any]:
    rng, count = np.random.default_rng(0), len(sizes)
    return {
        "n": np.array(sizes, np.int64),
        "s": rng.standard_normal((count, 2)).astype(np.float32),
        "t": rng.standard_normal(count).astype(np.float32),
        "x": rng.standard_normal((count, steps, 2)).astype(np.float32),
        "z": rng.standard_normal((count, steps, 3)).astype(np.float32),
    }


def by_loop(feeds: Any, sizes: Any, backwards: tuple[int, int]) -> list[Any]:
    """Item by item, step by step."""
    y, o = feeds["s"].copy(), feeds["t"].copy()
    p, q = np.zeros_like(feeds["x"]), np.zeros_like(feeds["z"])
    for item, length in enumerate(sizes):
        for step in range(length):
            at_x, at_z = (length - 1 - step if back else step for back in backwards)
            a = feeds["x"][item, at_x]
            p[item, step], q[item, step] = y[item] * a, -feeds["z"][item, at_z]
            y[item] += a
            o[item] += a.sum()
    return [y, o, p, q]


@pytest.mark.parametrize("backwards", [None, (0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("sizes", [[4, 4, 4], [4, 1, 3], [0, 4, 2], [2, 0], [1]])
def test_scan_of_opset_8_goes_through_a_batch(backwards: Any, sizes: Any) -> None:
    directions = "" if backwards is None else f", directions = [{backwards[0]}, {backwards[1]}]"
    feeds = batch_of(sizes, 4)
    first, second = assert_accounts_are_true(batched(directions), feeds, feeds)
    assert_same(first, by_loop(feeds, sizes, backwards or (0, 0)), 1e-6, 1e-6)
    assert_same(second, first)
    if min(sizes):
        assert_same(first, ort(parser.parse_model(batched(directions)), feeds), 1e-6, 1e-6)


def test_scan_of_opset_8_without_lengths_takes_all_steps() -> None:
    feeds = batch_of([3, 3], 3)
    (outputs,) = assert_accounts_are_true(batched(n=""), feeds)
    assert_same(outputs, by_loop(feeds, [3, 3], (0, 0)), 1e-6, 1e-6)


def test_scan_of_opset_8_over_nothing() -> None:
    for sizes, steps in (([0, 0], 3), ([0, 0], 0), ([], 3)):
        feeds = batch_of(sizes, steps)
        (outputs,) = assert_accounts_are_true(batched(), feeds)
        assert_same(outputs, by_loop(feeds, sizes, (0, 0)))


def test_scan_of_opset_8_whose_inputs_do_not_fit() -> None:
    session = ReferenceEvaluator(batched())
    feeds = batch_of([2, 3], 3)
    with pytest.raises(
        KernelError, match=r"a number from 0 to 3 for each of the 2 batch items, not \[2, 4\]"
    ):
        session.run(None, {**feeds, "n": np.array([2, 4])})
    with pytest.raises(KernelError, match=r"not \[2, -1\]"):
        session.run(None, {**feeds, "n": np.array([2, -1])})
    free = (
        batched()
        .replace("float[b, k, 3] z", "float[c, l, 3] z")
        .replace("float[b] t", "float[d] t")
    )
    session = ReferenceEvaluator(free)
    with pytest.raises(KernelError, match="these shapes differ there"):
        session.run(None, {**feeds, "z": feeds["z"][:, :2]})
    with pytest.raises(KernelError, match="these shapes differ there"):
        session.run(None, {**feeds, "t": feeds["t"][:1]})
