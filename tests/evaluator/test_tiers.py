"""Whose kernel runs a node, and what is said where none does."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import MissingExtraError, UnsupportedOperatorError
from onnx_notebook_profiler.evaluator import onnxruntime_kernel, registry
from tests.oracles import ort

X = np.array([[1, 2], [3, 4]], np.float32)
GELU = '<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]> g (float[2,2] x) => (float[2,2] y) { y = %s(x) }'
INVERT = GELU % "com.microsoft.Inverse"
CHAIN = "g (float[N,M] x, float[M,K] w) => (float[N,K] y) { a = MatMul(x, w) b = Relu(a) c = Identity(b) y = Exp(c) }"


def tiers(session: onp.ReferenceEvaluator) -> list[tuple[str, str]]:
    return [
        (event.op_type, event.tier)
        for event in session.events()
        if event.action == onp.RuntimeEventAction.RUN_NODE
    ]


def run(model: Any, feeds: Any, **options: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    session = onp.ReferenceEvaluator(model, events_enabled=True, **options)
    outputs = session.run(None, feeds)
    return outputs, tiers(session)


@pytest.fixture
def no_own_kernel(monkeypatch: Any) -> None:
    """The package has no kernel for Exp."""
    monkeypatch.delitem(registry._table, ("", "Exp"))


@pytest.fixture
def no_onnxruntime(monkeypatch: Any) -> Iterator[None]:
    """onnxruntime is not installed."""
    found = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name == "onnxruntime" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    onnxruntime_kernel.known_operators.cache_clear()
    yield
    onnxruntime_kernel.known_operators.cache_clear()


def test_auto_and_numpy_take_own_kernels() -> None:
    for kernels in ("auto", "numpy"):
        (y,), ran = run(CHAIN, {"x": X, "w": X}, kernels=kernels)
        np.testing.assert_allclose(y, np.exp(np.maximum(X @ X, 0)), rtol=1e-6)
        assert {tier for _, tier in ran} == {"own"}


def test_onnxruntime_first_but_views_stay_views() -> None:
    (y,), ran = run(CHAIN, {"x": X, "w": X}, kernels="onnxruntime")
    np.testing.assert_allclose(y, np.exp(X @ X), rtol=1e-6)
    assert dict(ran) == {
        "MatMul": "onnxruntime",
        "Relu": "onnxruntime",
        "Identity": "own",
        "Exp": "onnxruntime",
    }


@pytest.mark.usefixtures("no_own_kernel")
def test_without_own_kernel_auto_takes_onnxruntime_and_numpy_the_reference() -> None:
    assert dict(run(CHAIN, {"x": X, "w": X})[1])["Exp"] == "onnxruntime"
    assert dict(run(CHAIN, {"x": X, "w": X}, kernels="numpy")[1])["Exp"] == "reference"


@pytest.mark.usefixtures("no_own_kernel", "no_onnxruntime")
def test_without_onnxruntime_auto_takes_the_reference() -> None:
    assert dict(run(CHAIN, {"x": X, "w": X})[1])["Exp"] == "reference"


@pytest.mark.usefixtures("no_onnxruntime")
def test_onnxruntime_that_is_not_installed() -> None:
    with pytest.raises(MissingExtraError, match="needs the package onnxruntime"):
        onp.ReferenceEvaluator(CHAIN, kernels="onnxruntime")


def test_onnxruntime_says_no_at_run_time_and_the_next_tier_runs() -> None:
    """onnxruntime knows Round, but not for bfloat16; numpy has no bfloat16 to give it either."""
    bfloat16 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    model = '<ir_version: 10, opset_import: ["" : 22]> g (bfloat16[2] x) => (bfloat16[2] y) { y = Abs(x) }'
    session = onp.ReferenceEvaluator(model, kernels="onnxruntime", events_enabled=True)
    for _ in range(2):
        (y,) = session.run(None, {"x": np.array([-1, 2], bfloat16)})
        assert y.tolist() == [1, 2]
        assert tiers(session) == [("Abs", "own")]


def test_bodies_and_functions_run_node_by_node() -> None:
    model = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
    g (float[2,2] x, bool c) => (float[2,2] y) {
      a = local.twice(x)
      y = If(c) <then_branch = t () => (float[2,2] p) { p = Exp(a) },
                 else_branch = e () => (float[2,2] q) { q = Neg(a) }>
    }
    <opset_import: ["" : 17], domain: "local"> twice (x) => (y) { y = Add(x, x) }
    """
    (y,), ran = run(model, {"x": X, "c": np.array(True)}, kernels="onnxruntime")
    np.testing.assert_allclose(y, np.exp(2 * X), rtol=1e-6)
    assert ran == [
        ("Add", "onnxruntime"),
        ("twice", "function body"),
        ("Exp", "onnxruntime"),
        ("If", "own"),
    ]


@pytest.mark.parametrize("kernels", ["auto", "numpy", "onnxruntime"])
def test_what_no_tier_has(kernels: Any) -> None:
    model = GELU % "com.microsoft.NoSuchThing"
    with pytest.raises(UnsupportedOperatorError) as raised:
        onp.ReferenceEvaluator(model, kernels=kernels)
    text = str(raised.value)
    assert "node 0 com.microsoft::NoSuchThing" in text
    assert "opset 1" in text
    assert "own: no kernel" in text
    assert ("onnxruntime: no kernel" in text) == (kernels != "numpy")
    assert "reference: " in text


def test_unknown_version_of_a_domain() -> None:
    model = '<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = other.Exp(x) }'
    with pytest.raises(onp.ProfilerError, match="other"):
        onp.ReferenceEvaluator(model)


def test_wrong_choice() -> None:
    with pytest.raises(ValueError, match="auto, numpy, onnxruntime, not 'cuda'"):
        onp.ReferenceEvaluator(CHAIN, kernels="cuda")  # type: ignore[arg-type]


@pytest.mark.parametrize("kernels", ["auto", "onnxruntime"])
def test_contrib_operators(kernels: Any) -> None:
    (y,), _ = run(INVERT, {"x": X}, kernels=kernels)
    np.testing.assert_allclose(y, np.linalg.inv(X), rtol=1e-5)


def test_an_input_that_comes_twice_and_outputs_that_are_left_out() -> None:
    model = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[2,2] x, float[2] s) => (float[2,2] y, float[2,1] inverse) {
      y = Mul(x, x)
      n, , inverse = LayerNormalization <epsilon = 0.0> (x, s)
    }"""
    feeds = {"x": X, "s": np.ones(2, np.float32)}
    (y, inverse), ran = run(model, feeds, kernels="onnxruntime")
    np.testing.assert_array_equal(y, X * X)
    np.testing.assert_allclose(inverse, [[2], [2]], rtol=1e-6)  # deviations of 0.5
    assert ran == [("Mul", "onnxruntime"), ("LayerNormalization", "onnxruntime")]


def test_sequences_and_texts_through_onnxruntime() -> None:
    model = """<ir_version: 9, opset_import: ["" : 20]> g (float[2,2] x, string[2] t) => (float[2,4] y, string[2] u) {
      s = SequenceConstruct(x, x) y = ConcatFromSequence <axis = 1> (s) u = StringConcat(t, t)
    }"""
    (y, u), ran = run(model, {"x": X, "t": np.array(["a", "b"], object)}, kernels="onnxruntime")
    np.testing.assert_array_equal(y, np.concatenate((X, X), axis=1))
    assert u.tolist() == ["aa", "bb"]
    assert {tier for _, tier in ran} == {"onnxruntime"}


def test_results_of_onnxruntime_are_counted_to_the_byte() -> None:
    allocator = onp.SimpleRawBufferAllocator(16)
    session = onp.ReferenceEvaluator(
        CHAIN, kernels="onnxruntime", events_enabled=True, allocator=allocator
    )
    session.run(None, {"x": X, "w": X})
    live = [
        (e.allocated_bytes, e.io_allocated_bytes)
        for e in session.events()
        if e.action == onp.RuntimeEventAction.RUN_NODE
    ]
    # a; a and b, then a is gone; the view; b and y
    assert live == [(16, 0), (32, 0), (16, 0), (16, 16)]


def test_outputs_equal_unoptimised_onnxruntime_bit_by_bit() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[3,8] x, float[8] s) => (float[3,8] y)'
        "{ n = LayerNormalization(x, s) p = Softmax(n) q = Erf(p) y = Tanh(q) }"
    )
    rng = np.random.default_rng(1)
    feeds = {"x": rng.random((3, 8), np.float32), "s": rng.random(8, np.float32)}
    (y,), _ = run(model, feeds, kernels="onnxruntime")
    assert y.tobytes() == ort(model, feeds)[0].tobytes()


def test_profile_takes_a_choice_and_shows_whose_kernels_ran() -> None:
    prof = onp.profile(CHAIN, dims={"N": 2, "M": 2, "K": 2}, kernels="onnxruntime")
    assert [node.tier for node in prof.nodes] == [
        "onnxruntime",
        "onnxruntime",
        "own",
        "onnxruntime",
    ]
    assert "kernel" in prof.to_text()
    assert (
        "kernel" not in onp.profile(CHAIN, dims={"N": 2, "M": 2, "K": 2}, kernels="numpy").to_text()
    )
