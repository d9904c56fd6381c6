"""Sizes that only data decides: open, given, or at their greatest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import SizeError

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[N,4] x) => (float[K,2] y) { z = NonZero(x) t = Transpose<perm = [1, 0]>(z) c = Cast<to = 1>(t) y = Neg(c) }"""


def context(**options: Any) -> onp.ComputeContext:
    made = onp.ComputeContext(account="evaluator")
    made.compute(TEXT, **options)
    return made


def the_dim() -> str:
    (name,) = context().data_dims
    return name


def live(ones: int) -> list[int]:
    """Bytes at each node, by hand: z and t int64 [2, K] and [K, 2], c and y float32 [K, 2]; x is the caller's."""
    z, c = 16 * ones, 8 * ones
    return [z, 2 * z, z + c, 2 * c]


def test_left_open_its_values_are_unknown() -> None:
    made = context()
    dim = made.data_dims[the_dim()]
    assert (dim.value, dim.axis, dim.node, dim.op) == ("z", 1, 0, "NonZero")
    assert str(dim.bound) == "4*N"
    assert {one.value for one in made.unknown} == {"z", "t", "c", "y"}
    assert all("decided by data" in one.reason for one in made.unknown)


def test_a_size_that_is_given() -> None:
    made = context(data_sizes={the_dim(): 5})
    assert made.unknown == ()
    assert made.totals(N=3).tolist() == live(5)
    x = np.zeros((3, 4), np.float32)
    x.reshape(-1)[[0, 3, 5, 8, 11]] = 1
    measured = onp.profile(TEXT, {"x": x})
    assert [node.live_bytes for node in measured.nodes] == live(5)


def test_the_greatest_sizes() -> None:
    made = context(data_sizes="bounds")
    assert made.unknown == ()
    assert made.totals(N=3).tolist() == live(12)
    assert made.peak.evaluate(N=3) == max(live(12))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"K": 3}, "no dimension is called 'K'"), ("most", "'bounds'"), ({"z": -1}, "no dimension")],
)
def test_what_is_no_size(sizes: Any, message: str) -> None:
    with pytest.raises(SizeError, match=message):
        context(data_sizes=sizes)


def test_a_negative_size_and_an_array() -> None:
    for wrong in (-1, [1, 2]):
        with pytest.raises(SizeError):
            context(data_sizes={the_dim(): wrong})
