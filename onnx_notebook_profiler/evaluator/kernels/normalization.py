"""Normalisations of rows: Layer, Simplified, RMS, Instance, Group, MeanVariance, Lp, and LRN over channels.

https://onnx.ai/onnx/operators/ (LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
MeanVarianceNormalization, LpNormalization, LRN); SimplifiedLayerNormalization is what onnxruntime calls
RMSNormalization. float16 and bfloat16 are computed in float32. Scratch: a few numbers for each row, a float32 block for
those types; MeanVarianceNormalization and LpNormalization hold a tensor of the size of X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import normalize_rows, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import (
    element_type,
    given,
    normalized_axes,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LocalResponseNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
]

_GROUP_SCALES_CHANNELS = 21


@register("LayerNormalization", since_version=1)
@register("RMSNormalization", since_version=23)
@register("SimplifiedLayerNormalization", since_version=1)
@register("SimplifiedLayerNormalization", since_version=1, domain="com.microsoft")
class LayerNormalization(Kernel):
    """Rows over all axes from ``axis`` on; Mean and InvStdDev are optional outputs [..., 1, ...]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._axis = int(attributes.get("axis", -1))
        self._epsilon = float(attributes.get("epsilon", 1e-5))
        self._stash = element_type(int(attributes.get("stash_type", 1)))
        self._centers = spec.op_type == "LayerNormalization"

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X; the statistics have ones in the place of the normalised axes."""
        x, scale = operands(self.spec, inputs, 2)
        axis = normalized_axis(self.spec, self._axis, x.ndim)
        for name, value in (("Scale", scale), ("B", given(inputs, 2))):
            if value is not None and not _fits(value.shape, x.shape):
                raise ValueError(
                    f"{self.spec.op_type}: {name} of shape {value.shape} does not broadcast to X {x.shape}"
                )
        kept = (*x.shape[:axis], *[1] * (x.ndim - axis))
        statistics = TensorSpec(kept, self._stash)
        return (TensorSpec(x.shape, scale.dtype), *[statistics] * (len(self.spec.wanted) - 1))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Row by row, in blocks."""
        x, scale, bias = inputs[0], inputs[1], given(inputs, 2)
        axis = self._axis % x.ndim
        shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        y = outputs[0]
        mean, inverse = None, given(outputs, 1)
        if self._centers:
            mean, inverse = given(outputs, 1), given(outputs, 2)
        wide = row_type(x.dtype)
        normalize_rows(
            x.reshape(shape),
            y.reshape(shape),
            self._epsilon,
            center=self._centers,
            mean=None if mean is None else mean.reshape(-1),
            inverse=None if inverse is None else inverse.reshape(-1),
            scale=_factor(scale, x.shape, axis, wide),
            bias=None if bias is None else _factor(bias, x.shape, axis, wide),
        )


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _factor(value: Array, shape: tuple[int, ...], axis: int, dtype: np.dtype[Any]) -> Array:
    """*value*, which broadcasts to *shape*, as [width], or as [rows, width] where the rows have their own."""
    value = value.astype(dtype, copy=False)
    own = value.ndim > len(shape) - axis and math.prod(value.shape[: axis - len(shape)]) > 1
    if own:
        whole: Array = np.broadcast_to(value, shape).reshape(-1, math.prod(shape[axis:]))
        return whole
    value = value.reshape(value.shape[max(0, value.ndim - (len(shape) - axis)) :])
    return np.broadcast_to(value, shape[axis:]).reshape(-1)


@register("InstanceNormalization", since_version=1)
class InstanceNormalization(Kernel):
    """Each channel of each item of X [N, C, D1, ...] by itself; scale and B [C]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-5))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        x, scale, bias = operands(self.spec, inputs, 3)
        if x.ndim < 2 or scale.shape != (x.shape[1],) or bias.shape != scale.shape:
            raise ValueError(
                f"InstanceNormalization expects X [N, C, ...] and scale, B [C], got {x.shape}, {scale.shape}, "
                f"{bias.shape}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A row for each channel."""
        x, scale, bias = inputs
        wide, items = row_type(x.dtype), x.shape[0]
        shape = (items * x.shape[1], math.prod(x.shape[2:]))
        normalize_rows(
            x.reshape(shape),
            outputs[0].reshape(shape),
            self._epsilon,
            scale=np.tile(scale.astype(wide), items)[:, None],
            bias=np.tile(bias.astype(wide), items)[:, None],
        )


@register("GroupNormalization", since_version=18)
class GroupNormalization(Kernel):
    """Each group of channels of each item of X [N, C, ...] by itself; scale and bias [C], before opset 21 [groups]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-5))
        self._groups = int(spec.attributes["num_groups"])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        x, scale, bias = operands(self.spec, inputs, 3)
        if x.ndim < 2 or self._groups < 1 or x.shape[1] % self._groups:
            raise ValueError(
                f"GroupNormalization: X {x.shape} has no channels for {self._groups} equal groups"
            )
        expected = x.shape[1] if self.spec.opset >= _GROUP_SCALES_CHANNELS else self._groups
        if scale.shape != (expected,) or bias.shape != (expected,):
            raise ValueError(
                f"GroupNormalization expects scale and bias [{expected}], got {scale.shape}, {bias.shape}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A row for each group, then one factor and offset for each channel."""
        x, scale, bias = inputs
        (y,) = outputs
        wide, channels = row_type(x.dtype), x.shape[1]
        rows = (x.shape[0] * self._groups, channels // self._groups * math.prod(x.shape[2:]))
        if scale.shape[0] != channels:
            scale, bias = (np.repeat(one, channels // self._groups) for one in (scale, bias))
        grid = (x.shape[0], channels, math.prod(x.shape[2:]))
        factor, offset = (one.astype(wide)[:, None] for one in (scale, bias))
        if x.dtype == wide:
            normalize_rows(x.reshape(rows), y.reshape(rows), self._epsilon)
            np.multiply(y.reshape(grid), factor, y.reshape(grid))
            np.add(y.reshape(grid), offset, y.reshape(grid))
            return
        for item in range(x.shape[0]):
            part = x[item].astype(wide)
            normalize_rows(
                part.reshape(self._groups, -1), part.reshape(self._groups, -1), self._epsilon
            )
            flat = part.reshape(grid[1:])
            np.multiply(flat, factor, flat)
            np.add(flat, offset, flat)
            np.copyto(y[item], part, casting="unsafe")


@register("MeanVarianceNormalization", since_version=9)
class MeanVarianceNormalization(Kernel):
    """(X - mean) / (deviation + 1e-9), both over ``axes``."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axes = tuple(spec.attributes.get("axes", (0, 2, 3)))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        (x,) = operands(self.spec, inputs, 1)
        normalized_axes(self.spec, self._axes, x.ndim)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Center, then scale."""
        x = inputs[0]
        wide = x.astype(row_type(x.dtype), copy=False)
        axes = normalized_axes(self.spec, self._axes, x.ndim)
        part = outputs[0] if x.dtype == wide.dtype else np.empty_like(wide)
        np.subtract(wide, wide.mean(axis=axes, keepdims=True), part)
        deviation = np.sqrt(np.square(part).mean(axis=axes, keepdims=True)) + 1e-9
        np.divide(part, deviation.astype(part.dtype), outputs[0], casting="unsafe")


@register("LpNormalization", since_version=1)
class LpNormalization(Kernel):
    """X divided by its norm of order 1 or 2 along an axis; rows of norm 0 stay 0."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis = int(spec.attributes.get("axis", -1))
        self._order = int(spec.attributes.get("p", 2))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        (x,) = operands(self.spec, inputs, 1)
        normalized_axis(self.spec, self._axis, x.ndim)
        if self._order not in {1, 2}:
            raise ValueError(f"LpNormalization expects p to be 1 or 2, got {self._order}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One norm for each row."""
        x = inputs[0].astype(row_type(inputs[0].dtype), copy=False)
        if self._order == 1:
            norm = np.abs(x).sum(axis=self._axis, keepdims=True)
        else:
            norm = np.sqrt(np.square(x).sum(axis=self._axis, keepdims=True))
        norm[norm == 0] = 1
        np.divide(x, norm, outputs[0], casting="unsafe")


@register("LRN", since_version=1)
class LocalResponseNormalization(Kernel):
    """X / (bias + alpha / size * sum of squares of ``size`` neighbouring channels) ** beta, for X [N, C, ...]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._size = int(attributes["size"])
        self._alpha = float(attributes.get("alpha", 1e-4))
        self._beta = float(attributes.get("beta", 0.75))
        self._bias = float(attributes.get("bias", 1.0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim < 2 or self._size < 1:
            raise ValueError(
                f"LRN expects X [N, C, ...] and size 1 or more, got {x.shape}, {self._size}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The windows' sums, item by item, for ranges of places that stay in the cache."""
        x, y = inputs[0], outputs[0]
        channels, places = x.shape[1], math.prod(x.shape[2:])
        grid = (x.shape[0], channels, places)
        source, target = x.reshape(grid), y.reshape(grid)
        below, above = (self._size - 1) // 2, self._size // 2
        width = max(1, 2**17 // max(channels, 1))
        for item in range(x.shape[0]):
            for start in range(0, places, width):
                part = source[item, :, start : start + width].astype(row_type(x.dtype), copy=False)
                squares = np.square(part)
                total = squares.copy()
                for shift in range(1, max(below, above) + 1):
                    if shift <= above:
                        total[:-shift] += squares[shift:]
                    if shift <= below:
                        total[shift:] += squares[:-shift]
                total *= self._alpha / self._size
                total += self._bias
                np.power(total, -self._beta, total)
                np.multiply(part, total, target[item, :, start : start + width], casting="unsafe")
