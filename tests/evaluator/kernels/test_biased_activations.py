"""Gelu in its variants, gated activations, and what adds a bias first: onnxruntime, and formulas through math's erf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

MS: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
RNG = np.random.default_rng(2)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
CLOSE = {"float64": 1e-6, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2}
TYPES = [np.float32, np.float64, np.float16, BFLOAT16]


def normal(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 3).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FORMULAS: dict[str, Any] = {
    "Gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "FastGelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "QuickGelu": lambda x: x * sigmoid(1.702 * x),
}
FORMULAS["BiasGelu"] = FORMULAS["Gelu"]


def close_to(y: Any, expected: Any, dtype: Any) -> None:
    assert y.dtype == dtype
    tolerance = CLOSE[np.dtype(dtype).name]
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", sorted(FORMULAS))
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3, 7), (17011,), (700, 64)])
def test_by_formula(op: str, dtype: Any, shape: Any) -> None:
    x, bias = normal(*shape).astype(dtype), normal(shape[-1]).astype(dtype)
    if op != "BiasGelu":
        y = run(op, x, **MS)
        close_to(y, FORMULAS[op](x.astype(np.float64)), dtype)
    if op in {"BiasGelu", "FastGelu"}:
        y = run(op, x, bias, **MS)
        close_to(y, FORMULAS[op](x.astype(np.float64) + bias.astype(np.float64)), dtype)
    inputs = [x.copy(), bias] if op == "BiasGelu" else [x.copy()]
    names = [f"x{i}" for i in range(len(inputs))]
    kernel = make_kernel(helper.make_node(op, names, ["y"], domain="com.microsoft"), 1)
    expected = run(op, *inputs, **MS)
    with np.errstate(all="ignore"):
        kernel.compute(inputs, [inputs[0]])
    assert inputs[0].tobytes() == expected.tobytes()


def test_as_onnxruntime() -> None:
    x, bias = normal(3, 4, 7), normal(7)
    for op, inputs in (
        ("BiasGelu", (x, bias)),
        ("FastGelu", (x, bias)),
        ("FastGelu", (x,)),
        ("Gelu", (x,)),
        ("QuickGelu", (x,)),
        ("ScaledSiLU", (x,)),
    ):
        ours, theirs = by_both(op, *inputs, **MS)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
    ours, theirs = by_both("QuickGelu", x, alpha=-0.7, **MS)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def test_a_bias_that_does_not_fit() -> None:
    for op in ("BiasGelu", "FastGelu"):
        with pytest.raises(ValueError, match=r"expects a bias \[4\], got \[1\]"):
            run(op, normal(3, 4), normal(1), **MS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("count", [9, 20001])
def test_scaled_silu_as_onnxruntime(dtype: Any, count: int) -> None:
    """Each step is rounded, so that results are the same to the last bit but for the last bits of exp."""
    x, scale = normal(count).astype(dtype), np.array(1.7, np.float32)
    attempts: list[Any] = [((x,), {"alpha": 0.3}), ((x, scale), {"alpha": 9.0})]
    for inputs, attributes in attempts:
        y = run("ScaledSiLU", *inputs, **attributes, **MS)
        factor = np.float32(0.3 if len(inputs) == 1 else 1.7)
        z = (x.astype(np.float32) * factor).astype(dtype).astype(np.float64)
        s = sigmoid(z).astype(np.float32).astype(dtype).astype(np.float64)
        close_to(y, z * s, dtype)
        if dtype != BFLOAT16:  # the session's results are numpy's own types
            ours, theirs = by_both("ScaledSiLU", *inputs, **attributes, **MS)
            np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-3, atol=1e-6)
    with pytest.raises(ValueError, match=r"a scalar scale, got shape \[1\]"):
        run("ScaledSiLU", x, scale.reshape(1), **MS)


@pytest.mark.parametrize("dtype", TYPES)
def test_swiglu_of_the_default_domain(dtype: Any) -> None:
    a, b = normal(70, 300).astype(dtype), normal(70, 300).astype(dtype)
    wide = a.astype(np.float64), b.astype(np.float64)
    close_to(run("SwiGLU", a, b, opset=28), wide[0] * sigmoid(wide[0]) * wide[1], dtype)
    y = run("SwiGLU", a, b, alpha=1.7, opset=28)
    close_to(y, wide[0] * sigmoid(1.7 * wide[0]) * wide[1], dtype)
    with pytest.raises(ValueError, match="A and B alike"):
        run("SwiGLU", a, b[:1], opset=28)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("limit", [0.0, 2.5])
@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (90, 400)])
def test_clamped_swiglu(dtype: Any, limit: float, rounds: int, fused: bool, shape: Any) -> None:
    """The schema's formula; onnxruntime has no CPU kernel."""
    gate, up = normal(*shape).astype(dtype), normal(*shape).astype(dtype)
    inputs = [np.concatenate([gate, up], axis=-1)] if fused else [gate, up]
    y = run(
        "SwiGLU", *inputs, limit=limit, activation_alpha=1.3, activation_beta=1.0,
        round_activation=rounds, **MS,
    )  # fmt: skip
    g, linear = gate.astype(np.float64), up.astype(np.float64)
    if limit:
        g, linear = np.minimum(g, limit), np.clip(linear, -limit, limit)
    product = g * sigmoid(1.3 * g)
    if rounds:
        product = product.astype(np.float32).astype(dtype).astype(np.float64)
    close_to(y, product * (linear + 1), dtype)


def test_clamped_swiglu_keeps_a_far_tail() -> None:
    """Sigmoid(-100) is no float32, but times 1e30 it is."""
    gate, up = np.array([-100, -88, 3], np.float32), np.array([1e30, 1e30, 2], np.float32)
    y = run("SwiGLU", gate, up, **MS)
    wide = gate.astype(np.float64)
    np.testing.assert_allclose(y, wide / (1 + np.exp(-wide)) * up, rtol=1e-5)
    with pytest.raises(ValueError, match=r"two halves in the last axis of gate, got \[3\]"):
        run("SwiGLU", gate, **MS)
    with pytest.raises(ValueError, match="gate and up alike"):
        run("SwiGLU", gate, up[:2], **MS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("axis", "inner", "bias", "expanded"),
    [
        (3, 1, (2, 1, 1, 5), (2, 1, 1, 5)),
        (3, 1, (2, 3, 1, 5), (2, 3, 1, 5)),
        (3, 1, (1, 1, 1, 5), (1, 1, 1, 5)),
        (3, 1, (2, 3, 4, 5), (2, 3, 4, 5)),
        (2, 1, (2, 1, 4, 5), (2, 1, 4, 5)),
        (3, 0, (1, 3, 4, 5), (1, 3, 4, 5)),
        (3, 0, (4, 5), (1, 1, 4, 5)),
        (-1, 0, (1, 1, 4, 5), (1, 1, 4, 5)),
        (1, 0, (3, 4, 5), (1, 3, 4, 5)),
    ],
)
def test_bias_softmax(dtype: Any, axis: int, inner: int, bias: Any, expanded: Any) -> None:
    x, added = normal(2, 3, 4, 5).astype(dtype), normal(*bias).astype(dtype)
    y = run("BiasSoftmax", x, added, axis=axis, is_inner_broadcast=inner, **MS)
    total = x.astype(np.float64) + added.astype(np.float64).reshape(expanded)
    powers = np.exp(total)
    axes = tuple(range(axis % 4, 4))
    close_to(y, powers / powers.sum(axis=axes, keepdims=True), dtype)


def test_bias_softmax_that_does_not_fit() -> None:
    x = normal(2, 3, 4, 5)
    for inner, shape in ((1, (2, 1, 4, 5)), (0, (2, 3, 1, 5)), (0, (4, 4)), (1, (3, 1, 1, 5))):
        with pytest.raises(ValueError, match=r"does not fit data \[2, 3, 4, 5\] from axis 3 on"):
            run("BiasSoftmax", x, normal(*shape), axis=3, is_inner_broadcast=inner, **MS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_additions_and_split(dtype: Any) -> None:
    x, bias, skip = (normal(*s).astype(dtype) for s in ((2, 300, 64), (64,), (2, 300, 64)))
    wide = [one.astype(np.float64) for one in (x, bias, skip)]
    close_to(run("BiasAdd", x, bias, skip, **MS), wide[0] + wide[1] + wide[2], dtype)
    close_to(run("BiasDropout", x, bias, **MS), wide[0] + wide[1], dtype)
    no, ratio = np.array(False), np.array(0.5, dtype)
    y, mask = run("BiasDropout", x, skip, skip, ratio, no, outputs=2, **MS)
    close_to(y, wide[0] + 2 * wide[2], dtype)
    assert mask.dtype == np.bool_
    assert mask.all()
    total = wide[0] + wide[1]
    expected = total[..., :32] * FORMULAS["Gelu"](total[..., 32:])
    close_to(run("BiasSplitGelu", x, bias, **MS), expected, dtype)


def test_additions_that_cannot_be() -> None:
    x, bias = normal(2, 3, 4), normal(4)
    with pytest.raises(ValueError, match="set training_mode to false"):
        run("BiasDropout", x, bias, None, np.array(0.5, np.float32), np.array(True), **MS)
    with pytest.raises(ValueError, match=r"bias \[2\] does not fit X \[2, 3, 4\]"):
        run("BiasAdd", x, normal(2), x, **MS)
    with pytest.raises(ValueError, match=r"skip \[4\] does not fit X"):
        run("BiasAdd", x, bias, bias, **MS)
    with pytest.raises(ValueError, match="with even D"):
        run("BiasSplitGelu", normal(1, 2, 3), normal(3), **MS)
