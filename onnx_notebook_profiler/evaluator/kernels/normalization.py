"""Normalisations of rows: Layer, Simplified, RMS, MeanVariance and Lp; and LRN over channels.

https://onnx.ai/onnx/operators/ (LayerNormalization, RMSNormalization, MeanVarianceNormalization, LpNormalization, LRN);
SimplifiedLayerNormalization is what onnxruntime calls RMSNormalization. float16 and bfloat16 are computed in float32.
Scratch: a few numbers for each row, a block or two; MeanVarianceNormalization takes one or two tensors of the size of X
where the axes that it keeps are no neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._channels import (
    channel_statistics,
    far_center,
    scale_channels,
)
from onnx_notebook_profiler.evaluator.kernels._rows import normalize_rows, row_type, unbuffered
from onnx_notebook_profiler.evaluator.kernels._shared import (
    element_type,
    given,
    normalized_axes,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels.softmax import row_blocks
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "LayerNormalization",
    "LocalResponseNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
]


_TINY: Final = 1e-9
_SMALL: Final = 2**12
"""Up to so many elements the whole at once costs less than statistics in blocks."""


@register("LayerNormalization", since_version=1)
@register("RMSNormalization", since_version=23)
@register("SimplifiedLayerNormalization", since_version=1)
@register("SimplifiedLayerNormalization", since_version=1, domain="com.microsoft")
class LayerNormalization(Kernel):
    """Rows over all axes from ``axis`` on; Mean and InvStdDev are optional outputs [..., 1, ...]."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

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
        if not x.size:
            return
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
    if value.dtype != dtype:
        value = value.astype(dtype)
    if value.shape == shape[axis:]:
        return value if value.ndim == 1 else value.reshape(-1)
    own = value.ndim > len(shape) - axis and math.prod(value.shape[: axis - len(shape)]) > 1
    if own:
        whole: Array = np.broadcast_to(value, shape).reshape(-1, math.prod(shape[axis:]))
        return whole
    value = value.reshape(value.shape[max(0, value.ndim - (len(shape) - axis)) :])
    return np.broadcast_to(value, shape[axis:]).reshape(-1)


@register("MeanVarianceNormalization", since_version=9)
class MeanVarianceNormalization(Kernel):
    """(X - mean) / (deviation + 1e-9), both over ``axes``."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axes = tuple(spec.attributes.get("axes", (0, 2, 3)))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        (x,) = operands(self.spec, inputs, 1)
        normalized_axes(self.spec, self._axes, x.ndim)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Statistics, then one factor and offset for each set; or center and scale the whole."""
        x, y = inputs[0], outputs[0]
        axes = normalized_axes(self.spec, self._axes, x.ndim)
        if not x.size:
            return
        grid = _kept_between(x.shape, frozenset(axes)) if x.size > _SMALL else None
        wide = row_type(x.dtype)
        if grid is not None:
            mean, variance = channel_statistics(x.reshape(grid))
            factor = 1 / (np.sqrt(variance) + _TINY)
            center = far_center(mean, variance, wide)
            offset = -(mean if center is None else mean - center) * factor
            scale_channels(
                x.reshape(grid), factor.astype(wide), offset.astype(wide), y.reshape(grid), center
            )
            return
        count = math.prod(x.shape[axis] for axis in axes)
        part = x.astype(wide, copy=False)
        mean = np.add.reduce(part, axis=axes, keepdims=True) / wide.type(count)
        part = np.subtract(part, mean, y if y.dtype == wide else None)
        mean = np.add.reduce(part, axis=axes, keepdims=True) / wide.type(count)
        np.subtract(part, mean, part)  # what the rounding of the first mean left
        power = np.add.reduce(np.square(part), axis=axes, keepdims=True)
        deviation = np.sqrt(power / wide.type(count)) + wide.type(_TINY)
        np.divide(part, deviation, y, casting="unsafe")


def _kept_between(shape: tuple[int, ...], axes: frozenset[int]) -> tuple[int, int, int] | None:
    """*shape* as [N, C, P] where C are the axes that are kept and N and P those of the sets; None where it is none."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    first, stop = (kept[0], kept[-1] + 1) if kept else (0, 0)
    if stop - first != len(kept):
        return None
    return (math.prod(shape[:first]), math.prod(shape[first:stop]), math.prod(shape[stop:]))


@register("LpNormalization", since_version=1)
class LpNormalization(Kernel):
    """X divided by its norm of order 1 or 2 along an axis; rows of norm 0 stay 0."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

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
        """One norm for each row, block by block."""
        x, y = inputs[0], outputs[0]
        axis, shape = self._axis % x.ndim, x.shape
        if x.size <= _SMALL:
            self._divide(x, y, axis)
            return
        grid = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        x, y = x.reshape(grid), y.reshape(grid)

        def work() -> None:
            for block in row_blocks(grid):
                self._divide(x[block], y[block], 1)

        unbuffered(work, x.size)

    def _divide(self, x: Array, y: Array, axis: int) -> None:
        part = x.astype(row_type(x.dtype), copy=False)
        if self._order == 1:
            norm = np.add.reduce(np.absolute(part), axis=axis, keepdims=True)
        else:
            norm = np.add.reduce(np.square(part), axis=axis, keepdims=True)
            np.sqrt(norm, norm)
        norm[norm == 0] = 1
        np.divide(part, norm, y, casting="unsafe")


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
