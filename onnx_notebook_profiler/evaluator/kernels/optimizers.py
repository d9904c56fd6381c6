"""Adagrad, Adam and Momentum of ai.onnx.preview.training: R, T, then all tensors, all gradients and all states.

https://onnx.ai/onnx/operators/ under ai.onnx.preview.training. Each tensor is by itself; scratch is a few of its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Optimizer"]

_DOMAIN: Final = "ai.onnx.preview.training"
_STATES: Final = {"Adagrad": 1, "Momentum": 1, "Adam": 2}


@register("Adagrad", since_version=1, domain=_DOMAIN)
@register("Adam", since_version=1, domain=_DOMAIN)
@register("Momentum", since_version=1, domain=_DOMAIN)
class Optimizer(Kernel):
    """The new tensors, then their new states."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._parts = 2 + _STATES[spec.op_type]
        self._step = {"Adagrad": self._adagrad, "Adam": self._adam, "Momentum": self._momentum}[
            spec.op_type
        ]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As tensors and states."""
        values = operands(self.spec, inputs, len(inputs))
        count, rest = divmod(len(values) - 2, self._parts)
        if rest or count < 1:
            raise ValueError(
                f"{self.spec.op_type} has {len(values)} inputs: expected R, T and {self._parts} lists"
            )
        kept = [*values[2 : 2 + count], *values[2 + 2 * count :]]
        return [TensorSpec(one.shape, one.dtype) for one in kept]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One tensor after the other."""
        rate, step, *values = inputs
        count = len(values) // self._parts
        for number in range(count):
            results = self._step(float(rate.item()), int(step.item()), values[number::count])
            for output, result in zip(outputs[number::count], results, strict=True):
                if output is not None:
                    output[...] = result

    def _number(self, name: str, default: float) -> float:
        return float(self.spec.attributes.get(name, default))

    def _regularized(self, x: Array, gradient: Array) -> Array:
        total: Array = gradient + self._number("norm_coefficient", 0.0) * x
        return total

    def _adagrad(self, rate: float, step: int, values: Sequence[Array]) -> tuple[Array, ...]:
        x, gradient, squares = values
        gradient = self._regularized(x, gradient)
        squares = squares + gradient * gradient
        rate /= 1 + step * self._number("decay_factor", 0.0)
        return x - rate * gradient / (np.sqrt(squares) + self._number("epsilon", 0.0)), squares

    def _momentum(self, rate: float, step: int, values: Sequence[Array]) -> tuple[Array, ...]:
        x, gradient, velocity = values
        gradient = self._regularized(x, gradient)
        alpha, beta = self._number("alpha", 0.0), self._number("beta", 0.0) if step > 0 else 1.0
        velocity = alpha * velocity + beta * gradient
        if str(self.spec.attributes.get("mode", "standard")) == "nesterov":
            return x - rate * (gradient + alpha * velocity), velocity
        return x - rate * velocity, velocity

    def _adam(self, rate: float, step: int, values: Sequence[Array]) -> tuple[Array, ...]:
        x, gradient, mean, squares = values
        alpha, beta = self._number("alpha", 0.9), self._number("beta", 0.999)
        gradient = self._regularized(x, gradient)
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        if step > 0:
            rate *= float(np.sqrt(1 - beta**step)) / (1 - alpha**step)
        moved = x - rate * mean / (np.sqrt(squares) + self._number("epsilon", 0.0))
        return (1 - self._number("norm_coefficient_post", 0.0)) * moved, mean, squares
