"""At every node, the two accounts hold what numpy holds: byte for byte, by numpy's own allocation hooks."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.errors import KernelError
from onnx_notebook_profiler.evaluator import frame
from onnx_notebook_profiler.evaluator.adopt import value_bytes
from onnx_notebook_profiler.evaluator.numpy_memory import numpy_memory
from onnx_notebook_profiler.evaluator.observe import observing
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.model import generate_feed, graph_inputs, load_model
from tests.memory_truth import TruthRun, assert_accounts_are_true
from tests.models import (
    add_chain_model,
    memory_demo_model,
    mul_add_model,
    packaged_model,
)


def test_the_hooks_count_what_numpy_asks_for() -> None:
    with numpy_memory() as memory:
        a = np.empty(1000, np.float32)
        assert memory.live == 4000
        b = a[::2]
        assert memory.live == 4000
        b = b.copy()
        assert memory.live == 6000
        del a
        assert memory.live == 2000
        c = np.zeros((3, 5), np.int8)
        assert memory.live == 2015
        c.resize((7, 9), refcheck=False)
        assert memory.live == 2063
        assert memory.peak == 6000
    before = memory.live
    np.empty(10)
    assert memory.live == before
    del b, c
    with numpy_memory() as memory:
        assert memory.live == 0
        assert np.empty(0, np.float64).nbytes == 0
        assert memory.peak == 1  # numpy never asks for nothing


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_account_is_found(monkeypatch: Any, off: Any) -> None:
    monkeypatch.setattr(frame, "value_bytes", lambda value: value_bytes(value) + off)
    truth = TruthRun("g (float[2] x) => (float[2] y) { h = NonZero(x) y = Neg(x) }")
    truth.run({"x": np.ones(2, np.float32)})
    assert [d.accounted - d.held for d in truth.differences][:1] == [off]


@pytest.mark.parametrize("size", [1, 3, 1024])
def test_seed_000(size: Any) -> None:
    feeds = {"x": np.arange(size, dtype=np.float32)}
    assert_accounts_are_true(mul_add_model(), feeds, feeds)
    assert_accounts_are_true(mul_add_model(), feeds, feeds, names=["z", "w"])
    assert_accounts_are_true(mul_add_model(), feeds, release_intermediates=False)


@pytest.mark.parametrize("size", [0, 1, 8, 128])
def test_seed_001(size: Any) -> None:
    feeds = {"X": np.ones((size, 4), np.float32)}
    assert_accounts_are_true(memory_demo_model(), feeds, feeds)
    assert_accounts_are_true(memory_demo_model(), feeds, release_intermediates=False)


MODELS = {
    "views_to_an_output": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[p, q] y) { a = Abs(x) r = Reshape(a, s)"
            " f = Flatten <axis = 0> (r) i = Identity(f) b = Neg(x) t = Reshape(i, s) c = Neg(b)"
            " y = Identity(t) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "views_to_an_intermediate": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[p, q] y) { a = Abs(x) r = Reshape(a, s)"
            " i = Identity(r) b = Neg(i) d = Dropout(b) e = Exp(d) y = Abs(e) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "a_base_that_dies_before_its_views": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[p, q] y) { a = Abs(x) r = Reshape(a, s)"
            " t = Identity(r) b = Neg(x) c = Neg(b) d = Neg(c) u = Reshape(d, s) y = Add(t, u) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "dead_views": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[2, 6] y) { a = Abs(x) r = Reshape(a, s)"
            " q = Reshape(x, s) z = Neg(a) b = Exp(x) y = Neg(b) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "outputs_on_one_buffer": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[p, q] y, float[2, 6] a, float[p, q] z)"
            "{ a = Abs(x) y = Reshape(a, s) z = Identity(y) b = Neg(z) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "outputs_rooted_in_inputs_and_weights": (
        (
            "g (float[2, 6] x, int64[2] s) => (float[p, q] y, float[p, q] z, float[2, 6] x, float[2] w)"
            "<float[2] w = {1, 2}> { y = Reshape(x, s) r = Reshape(x, s) z = Identity(r)"
            " v = Identity(w) u = Neg(v) }"
        ),
        {"x": (2, 6), "s": [3, 4]},
    ),
    "dead_outputs": (
        (
            "g (float[4, 6] x) => (float[2, 6] y) <int64[1] k = {2}> { a, b = Split <axis = 0, num_outputs = 2> (x)"
            " v, i = TopK <axis = 1> (a, k) d = Exp(a) y = Neg(b) m, n = Dropout(x) }"
        ),
        {"x": (4, 6)},
    ),
    "results_that_are_adopted": (
        (
            "g (float[4, 6] x, int32 n) => (int64[p, q] y) { t = Transpose(x) w = HannWindow(n)"
            " c = NonZero(x) e = MatMul(x, t) y = Neg(c) u, v = Unique <sorted = 1> (x) d = Det(e) f = Neg(d) }"
        ),
        {"x": (4, 6), "n": np.int32(5)},
    ),
    "types_of_one_byte_and_less": (
        (
            "g (float[4, 6] x) => (float[4, 6] y) { b = Cast <to = 9> (x) i = Cast <to = 22> (x)"
            " h = Cast <to = 16> (x) z = Cast <to = 1> (h) y = Where(b, x, z) j = Cast <to = 1> (i) }"
        ),
        {"x": (4, 6)},
    ),
    "constants": (
        (
            "g (float[2] x) => (float[2] y, float[2] c) { c = Constant <value = float[2] {1, 2}> ()"
            " d = Constant <value = float[2] {3, 4}> () a = Add(x, d) e = Identity(d) y = Mul(a, e) }"
        ),
        {"x": (2,)},
    ),
}


def given(shapes: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    feeds = {}
    for name, value in shapes.items():
        if isinstance(value, tuple):
            feeds[name] = rng.random(value, np.float32)
        else:
            feeds[name] = np.array(value)
    return feeds


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: Any, release: Any) -> None:
    text, shapes = MODELS[name]
    text = f'<ir_version: 10, opset_import: ["" : 21]> {text}'
    feeds = given(shapes)
    first, second = assert_accounts_are_true(text, feeds, feeds, release_intermediates=release)
    kept = [value.copy() for value in first]
    for value in first:
        value[...] = 77
    for one, other in zip(kept, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "scalar",
    [np.array(2, np.float32), np.float32(2), 2.0, 2],
    ids=["array", "numpy", "float", "int"],
)
def test_feeds_that_had_to_be_copied(scalar: Any) -> None:
    text = "g (float[n] x, float s) => (float[n] y) { a = Mul(x, s) y = Neg(a) }"
    for x in (np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32)[::2]):
        assert_accounts_are_true(text, {"x": x, "s": scalar}, {"x": x, "s": scalar})


def test_a_long_chain() -> None:
    feeds = {"x": np.ones(4, np.float32)}
    assert_accounts_are_true(add_chain_model(300), feeds)


FAILING = (
    "g (float[n] x, float[k] s) => (float[m] y, float[m] z)"
    "{ a = Abs(x) b = Neg(a) c = Exp(b) y = Add(a, s) z = Add(b, c) }"
)


@pytest.mark.parametrize("watched", [True, False])
def test_failed_runs_leave_nothing_behind_and_need_no_garbage_collector(watched: Any) -> None:
    session = ReferenceEvaluator(FAILING, events_enabled=True)
    gc.collect()
    gc.disable()
    try:
        with numpy_memory() as memory, contextlib.ExitStack() as stack:
            if watched:
                stack.enter_context(observing(lambda record: None))
            for _ in range(3):
                with contextlib.suppress(KernelError):
                    session.run(None, {"x": np.ones(100, np.float32), "s": np.ones(7, np.float32)})
            assert memory.live == 0
            assert session.events()[-1].op_type == "Add"
    finally:
        gc.enable()


def test_a_traceback_that_somebody_keeps_holds_no_more_than_the_failing_node_reads() -> None:
    session = ReferenceEvaluator(FAILING)
    x, s = np.ones(100, np.float32), np.ones(7, np.float32)
    with numpy_memory() as memory:
        with pytest.raises(KernelError, match="node 3 Add") as caught:
            session.run(None, {"x": x, "s": s})
        assert 400 <= memory.live < 420  # a, and what broadcasting made of shapes; b and c are gone
        assert caught.value.__traceback__ is not None


def feeds_of(path: Any, shapes: dict[str, Sequence[int]]) -> Any:
    inputs = graph_inputs(load_model(path).proto.graph)
    return {value.name: generate_feed(value, shapes[value.name]) for value in inputs}


def test_minilm_at_two_sizes() -> None:
    path = packaged_model("minilm")
    names = ("input_ids", "attention_mask", "token_type_ids")
    small, large = (feeds_of(path, dict.fromkeys(names, size)) for size in ((2, 16), (1, 64)))
    assert_accounts_are_true(path, small, large)


def test_magika() -> None:
    path = packaged_model("magika")
    feeds = [feeds_of(path, {"bytes": (batch, 2048)}) for batch in (1, 3)]
    assert_accounts_are_true(path, *feeds)


def test_silero_with_its_nested_branches() -> None:
    path = packaged_model("silero")
    for rate, samples in ((16000, 512), (8000, 256)):
        feeds = feeds_of(path, {"input": (1, samples), "state": (2, 1, 128), "sr": ()})
        feeds["sr"] = np.array(rate)
        assert_accounts_are_true(path, feeds, feeds)


def test_silero_over_a_sequence() -> None:
    path = packaged_model("silero_sequence")
    feeds = [
        feeds_of(path, {"input": (length, 576), "h": (1, 1, 128), "c": (1, 1, 128)})
        for length in (1, 4)
    ]
    assert_accounts_are_true(path, *feeds)
