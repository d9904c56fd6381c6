"""What the switches of the model's account leave out, counted by hand."""

from __future__ import annotations

import pytest

import onnx_notebook_profiler as onp

MODEL = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N] x, float[N] z) => (float[N] y, float[N] u)
<float[10] w = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}> {
    s = ReduceSum<keepdims = 0>(w)
    a = Concat<axis = 0>(x, x)
    y = ReduceMax<keepdims = 1>(a)
    b = Mul(z, s)
    u = Concat<axis = 0>(b, y)
}"""


def totals(**switches: bool) -> list[int]:
    context = onp.ComputeContext(reuse="none", **switches)  # type: ignore[arg-type]
    context.compute(MODEL)
    found: list[int] = context.totals(N=100).tolist()
    return found


def test_everything_counts() -> None:
    # x 400, z 400, w 40, s 4, a 800, y 4, b 400, u 404
    assert totals() == [844, 1_644, 1_648, 1_248, 1_648]


def test_outputs_apart() -> None:
    assert totals(count_outputs=False) == [844, 1_644, 1_644, 1_244, 1_240]


def test_initializers_apart() -> None:
    assert totals(count_initializers=False) == [804, 1_604, 1_608, 1_208, 1_608]


def test_inputs_go_after_their_last_use() -> None:
    # x goes after node 1, z after node 3
    assert totals(release_inputs=True) == [844, 1_644, 1_248, 848, 848]


def test_all_of_them() -> None:
    only = totals(release_inputs=True, count_outputs=False, count_initializers=False)
    assert only == [804, 1_604, 1_204, 804, 400]


@pytest.mark.parametrize("switch", ["count_outputs", "count_initializers", "release_inputs"])
def test_the_evaluator_has_no_switches(switch: str) -> None:
    value = switch == "release_inputs"
    with pytest.raises(ValueError, match="account='evaluator'"):
        onp.ComputeContext(account="evaluator", **{switch: value})  # type: ignore[arg-type]
