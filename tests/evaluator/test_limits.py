"""A run that would hold more than it may stops before it takes the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import AllocationError, SizeError
from onnx_notebook_profiler.evaluator import limits

CHAIN = "g (float[N] x) => (float[N] y) { a = Neg(x) b = Exp(a) y = Abs(b) }"
X = np.ones(100, np.float32)


def session(model: Any = CHAIN, **options: Any) -> onp.ReferenceEvaluator:
    return onp.ReferenceEvaluator(model, events_enabled=True, **options)


@pytest.mark.parametrize("accounted", [False, True])
def test_just_enough_and_one_byte_less(accounted: Any) -> None:
    """At Exp a and b are alive: 800 bytes."""
    extra = {"allocator": onp.SimpleRawBufferAllocator(16)} if accounted else {}
    session(max_bytes=800, **extra).run(None, {"x": X})
    short = session(max_bytes=799, **extra)
    with pytest.raises(AllocationError) as raised:
        short.run(None, {"x": X})
    text = str(raised.value)
    assert "node 1 Exp" in text
    assert "'b' needs 400 bytes beside the 400 that are held" in text
    assert "799" in text
    assert short.events()[-1].action.label == "fail_node"


def test_initializers_count() -> None:
    model = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    feeds = {"x": np.ones(2, np.float32)}
    session(model, max_bytes=16).run(None, feeds)
    with pytest.raises(AllocationError, match="beside the 8 that are held"):
        session(model, max_bytes=15).run(None, feeds)


def test_a_body_and_a_result_of_unknown_size() -> None:
    model = """<ir_version: 9, opset_import: ["" : 17]> g (float[4] x, bool c) => (float[4] y) {
      y = If(c) <then_branch = t () => (float[4] p) { a = Neg(x) p = Exp(a) },
                 else_branch = e () => (float[4] q) { q = Neg(x) }>
    }"""
    feeds = {"x": np.ones(4, np.float32), "c": np.array(True)}
    session(model, max_bytes=32).run(None, feeds)
    with pytest.raises(AllocationError, match=r"node 0 If.*node 1 Exp"):
        session(model, max_bytes=31).run(None, feeds)
    nonzero = "g (float[4] x) => (int64[1, n] y) { y = NonZero(x) }"
    session(nonzero, max_bytes=32).run(None, {"x": np.ones(4, np.float32)})
    with pytest.raises(AllocationError, match="'y' needs 32 bytes"):
        session(nonzero, max_bytes=31).run(None, {"x": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    "model",
    [
        "g (int64[2] s) => (float[a, b] y) { y = ConstantOfShape(s) }",
        "g (int64[2] s) => (float[a, b] y) { x = Constant <value = float[1,1] {1}> () y = Expand(x, s) }",
    ],
)
def test_a_shape_of_ten_to_the_twelfth_stops_here_and_not_in_the_system(model: Any) -> None:
    with pytest.raises(AllocationError, match=r"4,000,000,000,000 bytes.*80 % of the free memory"):
        session(model).run(None, {"s": np.array([10**6, 10**6])})


def test_the_default_is_a_share_of_what_is_free(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "_HARMLESS", 0)
    monkeypatch.setattr(limits, "free_memory", lambda: 999)
    session().run(
        None, {"x": np.ones(99, np.float32)}
    )  # 396 of 0.8 * 999, then 792 of 0.8 * (999 + 396)
    monkeypatch.setattr(limits, "free_memory", lambda: 400)
    with pytest.raises(AllocationError, match="node 0 Neg"):
        session().run(None, {"x": np.ones(99, np.float32)})


def test_a_limit_that_is_none() -> None:
    for wrong in (-1, 1.5, True, "1 GiB"):
        with pytest.raises(SizeError, match="max_bytes is an integer"):
            session(max_bytes=wrong)


def test_copies_of_initializers_leave_the_loaded_ones_alone() -> None:
    model = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    allocator = onp.SimpleRawBufferAllocator(8)
    one = session(model, copy_initializers=True, allocator=allocator)
    for _ in range(2):
        (y,) = one.run(None, {"x": np.ones(2, np.float32)})
        assert y.tolist() == [2, 3]
        assert allocator.total_allocated_size == 8
