"""Operators whose output is their input under another shape; `compute` makes the copy.

The evaluator may hand out a view instead wherever nothing forbids it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    integers,
    normalized_axes,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register


class _View(Kernel):
    """Keeps the elements of the first input in their order."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The new shape and the input's type."""
        x = operands(self.spec, inputs, 1)[0]
        return (TensorSpec(self.shape(x.shape, inputs), x.dtype),)

    def shape(self, shape: tuple[int, ...], inputs: Sequence[Array | None]) -> tuple[int, ...]:
        """The output's shape for an input of *shape*."""
        raise NotImplementedError

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy."""
        np.copyto(outputs[0].reshape(-1), inputs[0].reshape(-1))


@register("Reshape", since_version=1)
class Reshape(_View):
    """To the shape of the second input, or in opset 1 of an attribute."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._given: list[int] | None = spec.attributes.get("shape")
        self._allow_zero = bool(spec.attributes.get("allowzero", 0))

    def shape(self, shape: tuple[int, ...], inputs: Sequence[Array | None]) -> tuple[int, ...]:
        """0 keeps a dimension (unless ``allowzero``), and one -1 takes what is left."""
        wanted = integers(inputs, 1)
        if wanted is None:
            wanted = self._given
        if wanted is None:
            raise ValueError("Reshape needs a shape, as second input or as attribute")
        problem = f"Reshape: a tensor of shape {shape} cannot take the shape {wanted}"
        zero_kept = not self._allow_zero
        if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
            raise ValueError(problem)
        if zero_kept and any(size == 0 for size in wanted[len(shape) :]):
            raise ValueError(problem)
        result = [
            shape[axis] if size == 0 and zero_kept else size for axis, size in enumerate(wanted)
        ]
        total = math.prod(shape)
        if -1 in result:
            known = math.prod(size for size in result if size != -1)
            if known == 0 or total % known:
                raise ValueError(problem)
            result[result.index(-1)] = total // known
        if math.prod(result) != total:
            raise ValueError(problem)
        return tuple(result)


@register("Squeeze", since_version=1)
class Squeeze(_View):
    """Without the given axes of size 1, or without all of these."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def shape(self, shape: tuple[int, ...], inputs: Sequence[Array | None]) -> tuple[int, ...]:
        """What is left."""
        axes = integers(inputs, 1)
        if axes is None:
            axes = self.spec.attributes.get("axes")
        if axes is None:
            return tuple(size for size in shape if size != 1)
        dropped = normalized_axes(self.spec, axes, len(shape))
        for axis in dropped:
            if shape[axis] != 1:
                raise ValueError(f"Squeeze: axis {axis} of shape {shape} is not of size 1")
        return tuple(size for axis, size in enumerate(shape) if axis not in dropped)


@register("Unsqueeze", since_version=1)
class Unsqueeze(_View):
    """With new axes of size 1, counted in the output."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def shape(self, shape: tuple[int, ...], inputs: Sequence[Array | None]) -> tuple[int, ...]:
        """The input's dimensions around the new ones."""
        axes = integers(inputs, 1)
        if axes is None:
            axes = self.spec.attributes.get("axes")
        if axes is None:
            raise ValueError("Unsqueeze needs axes, as second input or as attribute")
        rank = len(shape) + len(axes)
        added = frozenset(normalized_axes(self.spec, axes, rank))
        old = iter(shape)
        return tuple(1 if axis in added else next(old) for axis in range(rank))


@register("Flatten", since_version=1)
class Flatten(_View):
    """As a matrix: the dimensions before the axis times those from it on."""

    def shape(self, shape: tuple[int, ...], inputs: Sequence[Array | None]) -> tuple[int, ...]:  # noqa: ARG002
        """Two sizes."""
        axis = self.spec.attributes.get("axis", 1)
        if not -len(shape) <= axis <= len(shape):
            raise ValueError(f"Flatten: axis {axis} does not exist in the shape {shape}")
        axis += len(shape) if axis < 0 else 0
        return (math.prod(shape[:axis]), math.prod(shape[axis:]))


@register("Identity", since_version=1)
class Identity(_View):
    """The tensor as it is; sequences and optional values are left to others."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of the input.

        Raises:
            UnsupportedOperatorError: The input is no tensor.
        """
        x: Any = inputs[0]
        if not isinstance(x, np.ndarray):
            raise UnsupportedOperatorError("Identity of a value that is no tensor")
        return (TensorSpec(x.shape, x.dtype),)
