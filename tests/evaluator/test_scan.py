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
