"""Random numbers: RandomNormal, RandomUniform, their Like forms, Multinomial and Bernoulli.

https://onnx.ai/onnx/operators/ under these names. With a ``seed`` each run draws the same numbers, from numpy's PCG64;
without one they are new each time. No other runtime draws the same. Scratch: the numbers in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import element_type, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Bernoulli", "Multinomial", "RandomTensor"]


class _Random(Kernel):
    def generator(self) -> np.random.Generator:
        """One for each run."""
        seed = self.spec.attributes.get("seed")
        if seed is None:
            return np.random.default_rng()
        return np.random.default_rng(int(np.float32(seed).view(np.uint32)))

    def wanted_type(self, fallback: np.dtype[Any]) -> np.dtype[Any]:
        """What ``dtype`` says, else *fallback*."""
        number = int(self.spec.attributes.get("dtype", 0))
        return element_type(number) if number else fallback


@register("RandomNormal", since_version=1)
@register("RandomUniform", since_version=1)
@register("RandomNormalLike", since_version=1)
@register("RandomUniformLike", since_version=1)
class RandomTensor(_Random):
    """Numbers of a normal or an even distribution, in the shape of an attribute or of the input."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape as given."""
        if self.spec.op_type.endswith("Like"):
            (x,) = operands(self.spec, inputs, 1)
            fallback = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
            return (TensorSpec(x.shape, self.wanted_type(fallback)),)
        shape = tuple(int(size) for size in self.spec.attributes["shape"])
        return (TensorSpec(shape, self.wanted_type(np.dtype(np.float32))),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """Draw."""
        (y,) = outputs
        attributes, generator = self.spec.attributes, self.generator()
        if "Normal" in self.spec.op_type:
            center, width = attributes.get("mean", 0.0), attributes.get("scale", 1.0)
            value = generator.normal(center, width, y.shape)
        else:
            value = generator.uniform(
                attributes.get("low", 0.0), attributes.get("high", 1.0), y.shape
            )
        np.copyto(y, value, casting="unsafe")


@register("Bernoulli", since_version=15)
class Bernoulli(_Random):
    """1 with the probability that the input gives for each place, else 0."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, self.wanted_type(x.dtype)),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Draw and compare."""
        drawn = self.generator().random(inputs[0].shape)
        np.copyto(outputs[0], drawn < inputs[0].astype(np.float64), casting="unsafe")


@register("Multinomial", since_version=7)
class Multinomial(_Random):
    """sample_size classes for each row of log probabilities [N, C]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, sample_size]."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim != 2:
            raise ValueError(f"Multinomial expects [N, C], got {list(x.shape)}")
        count = int(self.spec.attributes.get("sample_size", 1))
        return (TensorSpec((x.shape[0], count), self.wanted_type(np.dtype(np.int32))),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """By the Gumbel trick: the greatest of log probability and noise."""
        x, (y,) = inputs[0].astype(np.float64), outputs
        generator = self.generator()
        for sample in range(y.shape[1]):
            y[:, sample] = (x + generator.gumbel(size=x.shape)).argmax(axis=1)
