"""Random numbers: RandomNormal, RandomUniform, their Like forms, Multinomial and Bernoulli.

https://onnx.ai/onnx/operators/ under these names. With a ``seed`` each run draws the same numbers, from numpy's PCG64;
without one they are new each time. No other runtime draws the same. Scratch: a block of numbers; for Multinomial the
sums of all probabilities and the draws, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    BLOCK,
    FLOAT32,
    FLOAT64,
    element_type,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Bernoulli", "Multinomial", "RandomTensor"]


class _Random(Kernel):
    repeatable: ClassVar[bool] = False

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


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, BLOCK):
        yield slice(start, min(start + BLOCK, size))


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
            fallback = x.dtype if x.dtype.kind == "f" or x.dtype == BFLOAT16 else FLOAT32
            return (TensorSpec(x.shape, self.wanted_type(fallback)),)
        shape = tuple(int(size) for size in self.spec.attributes["shape"])
        return (TensorSpec(shape, self.wanted_type(FLOAT32)),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """Draw."""
        attributes, generator = self.spec.attributes, self.generator()
        draw: Callable[[float, float, int], Array]
        if "Normal" in self.spec.op_type:
            draw = generator.normal
            first, second = attributes.get("mean", 0.0), attributes.get("scale", 1.0)
        else:
            draw = generator.uniform
            first, second = attributes.get("low", 0.0), attributes.get("high", 1.0)
        target = outputs[0].reshape(-1)
        for part in _blocks(target.size):
            value = draw(first, second, part.stop - part.start)
            np.copyto(target[part], value, casting="unsafe")


@register("Bernoulli", since_version=15)
class Bernoulli(_Random):
    """1 with the probability that the input gives for each place, else 0."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, self.wanted_type(x.dtype)),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Draw and compare."""
        generator, chances, target = self.generator(), inputs[0].reshape(-1), outputs[0].reshape(-1)
        for part in _blocks(target.size):
            drawn = generator.random(part.stop - part.start) < chances[part].astype(FLOAT64)
            np.copyto(target[part], drawn, casting="unsafe")


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
        """Where a draw falls among the sums of the probabilities.

        All rows are searched at once: row r has the numbers from r to r + 1.
        """
        (y,) = outputs
        sums = inputs[0].astype(FLOAT64)
        if not y.size:
            return
        rows, classes = sums.shape
        if not classes:
            raise ValueError("Multinomial expects one class or more, got none")
        sums -= sums.max(axis=1, keepdims=True)
        np.exp(sums, sums)
        np.cumsum(sums, axis=1, out=sums)
        sums /= sums[:, -1:]
        begins = np.arange(rows, dtype=FLOAT64)[:, None]
        sums += begins
        draws: Any = self.generator().random(y.shape)
        draws += begins
        np.minimum(draws, np.nextafter(begins + 1, 0), out=draws)
        found = np.searchsorted(sums.reshape(-1), draws.reshape(-1), side="right")
        y[...] = found.reshape(y.shape) - np.arange(rows)[:, None] * classes
