"""com.microsoft's Range, ExpandDims, Unique, GatherND, Pad, TorchEmbedding and UnfoldTensor.

ContribOperators.md of onnxruntime. GatherND and Pad are as in the default domain. Each element is copied once; Unique
sorts, which takes a few arrays of the input's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import (
    AdoptingKernel,
    Array,
    Kernel,
    NodeSpec,
    TensorSpec,
)
from onnx_notebook_profiler.evaluator.kernels._shared import INT64, normalized_axis, operands
from onnx_notebook_profiler.evaluator.kernels.generators import Range
from onnx_notebook_profiler.evaluator.kernels.indexing import GatherND
from onnx_notebook_profiler.evaluator.kernels.pad import Pad
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ContribRange", "ContribUnique", "ExpandDims", "TorchEmbedding", "UnfoldTensor"]

_MS: Final = "com.microsoft"

register("GatherND", since_version=1, domain=_MS)(GatherND)
register("Pad", since_version=1, domain=_MS)(Pad)


@register("Range", since_version=1, domain=_MS)
class ContribRange(Range):
    """From ``start`` up to ``limit`` in steps of ``delta``, which is 1 where it is left out."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The number of elements before the limit."""
        return super().infer(_with_step(inputs))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As Range of the default domain."""
        super().compute(_with_step(inputs), outputs)


def _with_step(inputs: Sequence[Any]) -> Sequence[Any]:
    if len(inputs) > 2 and inputs[2] is not None:
        return inputs
    return (*inputs[:2], np.ones((), inputs[0].dtype))


@register("ExpandDims", since_version=1, domain=_MS)
class ExpandDims(Kernel):
    """The input with one more axis of size 1, counted in the output."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's dimensions around the new one."""
        x, axis = operands(self.spec, inputs, 2)
        if axis.size != 1:
            raise ValueError(f"ExpandDims expects one axis, got {axis.size}")
        place = normalized_axis(self.spec, int(axis.reshape(-1)[0]), x.ndim + 1)
        return (TensorSpec((*x.shape[:place], 1, *x.shape[place:]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A copy."""
        np.copyto(outputs[0].reshape(-1), inputs[0].reshape(-1))


@register("Unique", since_version=1, domain=_MS)
class ContribUnique(AdoptingKernel):
    """Distinct elements of a vector in the order in which they appear, where each is one of them, and their counts.

    Every NaN is distinct.
    """

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """Sort, then order by first appearance."""
        x = inputs[0]
        if x.ndim != 1:
            raise ValueError(f"Unique expects a vector, got shape {list(x.shape)}")
        _, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        order = np.argsort(first)
        places = np.empty(order.size, INT64)
        places[order] = np.arange(order.size)
        results = (x[first[order]], places[inverse.reshape(-1)], counts[order].astype(INT64))
        return results[: len(self.spec.wanted)]


@register("TorchEmbedding", since_version=1, domain=_MS)
class TorchEmbedding(Kernel):
    """Rows of weight [N, M] at indices [...] -> [..., M]; what the other inputs say is for gradients only."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """A row for each index."""
        weight, indices = operands(self.spec, inputs, 2)
        if weight.ndim != 2:
            raise ValueError(f"TorchEmbedding expects weight [N, M], got {list(weight.shape)}")
        return (TensorSpec((*indices.shape, weight.shape[1]), weight.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call."""
        weight, indices = inputs[:2]
        if indices.size and not 0 <= indices.min() <= indices.max() < len(weight):
            raise ValueError(
                f"TorchEmbedding: indices go from 0 to {len(weight) - 1}, got {indices.min()} to {indices.max()}"
            )
        np.take(weight, indices, axis=0, out=outputs[0], mode="clip")


@register("UnfoldTensor", since_version=1, domain=_MS)
class UnfoldTensor(Kernel):
    """All slices of ``size`` along ``dim``, one every ``step``: X [..., L, ...] -> [..., count, ..., size]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._size = int(spec.attributes["size"])
        self._step = int(spec.attributes.get("step", 1))
        if self._size < 1 or self._step < 1:
            raise ValueError(
                f"UnfoldTensor expects a size and a step of 1 or more, got {self._size} and {self._step}"
            )

    def _axis(self, rank: int) -> int:
        return normalized_axis(self.spec, int(self.spec.attributes.get("dim", -1)), rank)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As many slices as begin early enough."""
        (x,) = operands(self.spec, inputs, 1)
        axis = self._axis(x.ndim)
        if x.shape[axis] < self._size:
            raise ValueError(
                f"UnfoldTensor: axis {axis} has {x.shape[axis]} elements, fewer than a slice of {self._size}"
            )
        count = (x.shape[axis] - self._size) // self._step + 1
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], self._size)
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One copy."""
        x = inputs[0]
        axis = self._axis(x.ndim)
        slices = np.lib.stride_tricks.sliding_window_view(x, self._size, axis=axis)
        np.copyto(outputs[0], slices[(*[slice(None)] * axis, slice(None, None, self._step))])
