"""Activation functions: element-wise formulas of several steps, and Clip and PRelu.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._erf import erf
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    Elementwise,
    broadcast_shape,
    in_blocks,
    keep_where,
    operands,
    same_type,
)
from onnx_notebook_profiler.evaluator.registry import register

Formula = Callable[[Array, Array], None]
Attributes = Mapping[str, Any]


def _sigmoid(x: Array, y: Array) -> None:
    """1 / (1 + exp(-x)): where exp overflows the result is the 0 that it rounds to."""
    np.negative(x, y)
    np.exp(y, y)
    np.add(y, 1, y)
    np.reciprocal(y, y)


def _softplus(x: Array, y: Array) -> None:
    """max(x, 0) + log(1 + exp(-|x|)): as exact for large arguments of either sign."""
    np.absolute(x, y)
    np.negative(y, y)
    np.exp(y, y)
    np.log1p(y, y)
    np.add(y, np.maximum(x, 0), y)


def _softsign(x: Array, y: Array) -> None:
    np.absolute(x, y)
    np.add(y, 1, y)
    np.divide(x, y, y)


def _mish(x: Array, y: Array) -> None:
    _softplus(x, y)
    np.tanh(y, y)
    np.multiply(y, x, y)


def gelu_exact(x: Array, y: Array) -> None:
    """X times the normal distribution function of x; *y* must not be x."""
    erf(x * math.sqrt(0.5), y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, 0.5, y)


def gelu_tanh(x: Array, y: Array) -> None:
    """Its approximation through tanh; *y* must not be x."""
    np.square(x, y)
    np.multiply(y, 0.044715, y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, math.sqrt(2 / math.pi), y)
    np.tanh(y, y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, 0.5, y)


def _gelu(attributes: Attributes) -> Formula:
    kind = attributes["approximate"]
    if kind not in {"none", "tanh"}:
        raise ValueError(f"Gelu expects approximate to be none or tanh, got {kind!r}")
    return gelu_tanh if kind == "tanh" else gelu_exact


def _swish(attributes: Attributes) -> Formula:
    alpha = attributes["alpha"]

    def formula(x: Array, y: Array) -> None:
        _sigmoid(x if alpha == 1 else x * alpha, y)
        np.multiply(y, x, y)

    return formula


def _hard_sigmoid(alpha: float, beta: float) -> Formula:
    def formula(x: Array, y: Array) -> None:
        np.multiply(x, alpha, y)
        np.add(y, beta, y)
        np.minimum(y, 1, out=y)
        np.maximum(y, 0, out=y)

    return formula


def _hard_swish(x: Array, y: Array) -> None:
    _hard_sigmoid(1 / 6, 0.5)(x, y)
    np.multiply(y, x, y)


def _leaky_relu(attributes: Attributes) -> Formula:
    """For a slope up to 1 the product lies above x below zero, and below it above."""
    alpha = attributes["alpha"]

    def formula(x: Array, y: Array) -> None:
        if alpha == 0:
            np.maximum(x, 0, out=y)
            return
        np.multiply(x, alpha, y)
        if alpha <= 1:
            np.maximum(x, y, out=y)
        else:
            np.minimum(x, y, out=y)

    return formula


def _elu(attributes: Attributes) -> Formula:
    alpha = attributes["alpha"]
    gamma = attributes.get("gamma", 1)

    def formula(x: Array, y: Array) -> None:
        np.minimum(x, 0, out=y)
        np.expm1(y, y)
        np.multiply(y, alpha, y)
        np.add(y, np.maximum(x, 0), y)
        if gamma != 1:
            np.multiply(y, gamma, y)

    return formula


def _celu(attributes: Attributes) -> Formula:
    alpha = attributes["alpha"]

    def formula(x: Array, y: Array) -> None:
        np.divide(x, alpha, y)
        np.expm1(y, y)
        np.multiply(y, alpha, y)
        np.minimum(y, 0, out=y)
        np.add(y, np.maximum(x, 0), out=y)

    return formula


def _thresholded_relu(attributes: Attributes) -> Formula:
    alpha = attributes["alpha"]

    def formula(x: Array, y: Array) -> None:
        np.copyto(y, x)
        keep_where(x > alpha, y)

    return formula


def _shrink(attributes: Attributes) -> Formula:
    bias, threshold = attributes["bias"], attributes["lambd"]

    def formula(x: Array, y: Array) -> None:
        below = x < -threshold
        moved = x + bias
        keep_where(below, moved)
        np.subtract(x, bias, y)
        keep_where((x > threshold) & ~below, y)
        np.add(y, moved, y)

    return formula


# operator: the opset since which it holds, and what makes its formula of its attributes
_FORMULAS: Final[Mapping[str, tuple[int, Callable[[Attributes], Formula]]]] = {
    "Celu": (12, _celu),
    "Elu": (1, _elu),
    "Erf": (9, lambda _: erf),
    "Gelu": (20, _gelu),
    "HardSigmoid": (1, lambda found: _hard_sigmoid(found["alpha"], found["beta"])),
    "HardSwish": (14, lambda _: _hard_swish),
    "LeakyRelu": (1, _leaky_relu),
    "Mish": (18, lambda _: _mish),
    "Selu": (1, _elu),
    "Shrink": (9, _shrink),
    "Sigmoid": (1, lambda _: _sigmoid),
    "Softplus": (1, lambda _: _softplus),
    "Softsign": (1, lambda _: _softsign),
    "Swish": (24, _swish),
    "ThresholdedRelu": (10, _thresholded_relu),
}


class Activation(Elementwise):
    """A formula of several numpy calls, whose temporaries are blocks of bounded size."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._formula = _FORMULAS[spec.op_type][1](spec.attributes)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The formula, block by block."""
        in_blocks(self._formula, inputs[0], outputs[0])


for _name, (_version, _) in _FORMULAS.items():
    register(_name, since_version=_version)(Activation)


@register("Relu", since_version=1)
class Relu(Elementwise):
    """The positive part; a NaN stays one."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        np.maximum(inputs[0], 0, out=outputs[0])


@register("PRelu", since_version=7)
class PRelu(Kernel):
    """``slope * x`` below zero; the slope broadcasts to x."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of x."""
        values = operands(self.spec, inputs, 2)
        dtype = same_type(self.spec, values)
        if broadcast_shape(self.spec, values) != values[0].shape:
            raise ValueError(
                f"PRelu: the slope's shape {values[1].shape} does not broadcast "
                f"to {values[0].shape}, that of the input"
            )
        return (TensorSpec(values[0].shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """All products, then the positive part over them.

        For slopes up to 1 that is the larger of the two, as long as none is 0 (or times infinity).
        """
        x, slope, out = inputs[0], inputs[1], outputs[0]
        if out is x:
            np.multiply(x, slope, out, where=x < 0)
            return
        np.multiply(x, slope, out)
        if x.size > BLOCK and x.dtype.kind == "f" and np.all((slope <= 1) & (slope != 0)):
            np.maximum(x, out, out=out)
        else:
            np.copyto(out, x, where=x >= 0)


@register("Clip", since_version=1)
class Clip(Kernel):
    """Bounds from below, then from above, so that the upper one wins where they cross."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._low = spec.attributes.get("min")
        self._high = spec.attributes.get("max")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of the input; bounds are single numbers."""
        x = operands(self.spec, inputs, 1)[0]
        bounds = [bound for bound in inputs[1:] if bound is not None]
        same_type(self.spec, [x, *bounds])
        if any(bound.size != 1 for bound in bounds):
            raise ValueError(f"Clip expects scalar bounds, got {[b.shape for b in bounds]}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One pass for each bound; without any, a copy."""
        source, out = inputs[0], outputs[0]
        low, high = self._low, self._high
        if len(inputs) > 1 and inputs[1] is not None:
            low = inputs[1].reshape(())
        if len(inputs) > 2 and inputs[2] is not None:
            high = inputs[2].reshape(())
        if low is not None and high is not None and out.dtype.char in "fdhilqbBHILQ":
            np.clip(source, low, high, out=out)
            return
        if low is not None:
            np.maximum(source, low, out=out)
            source = out
        if high is not None:
            np.minimum(source, high, out=out)
        elif low is None:
            np.copyto(out, source)
