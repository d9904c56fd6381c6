"""com.microsoft's QLinearAveragePool, QLinearGlobalAveragePool and QLinearReduceMean.

ContribOperators.md of onnxruntime. Scratch: the tensor in float32, for global means a block of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._quantized import real, rounded, scalar, store
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    FLOAT64,
    given,
    normalized_axes,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, taps
from onnx_notebook_profiler.evaluator.kernels.pooling import AveragePool, divisors
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["QLinearPool", "QLinearReduceMean"]

_MS: Final = "com.microsoft"


class _WholeWindows(AveragePool):
    """Where padding counts, so does what a last window has beyond it."""

    def _windows(self, x: Array) -> Windows:
        windows = super()._windows(x)
        after = tuple(a + r for a, r in zip(windows.after, windows.reaches, strict=True))
        return dataclasses.replace(windows, after=after)

    def means(self, x: Array, y: Array) -> None:
        """Fill y [N, C, ...] tap after tap, which is the order in which onnxruntime adds."""
        windows = self._windows(x)
        planes, means = x.reshape(-1, *windows.sizes), y.reshape(-1, *windows.counts)
        box = tuple(slice(0, count) for count in windows.counts)
        padding = bool(self.spec.attributes["count_include_pad"])
        count = divisors(windows, box, y.dtype, padding=padding)
        places = taps(windows, box)
        height = max(1, 2**14 // max(1, math.prod(windows.counts)))
        for start in range(0, means.shape[0], height):
            part = slice(start, start + height)
            total = means[part]
            total[...] = 0
            for tap in places:
                into = total[(slice(None), *tap.windows)]
                np.add(into, planes[(part, *tap.values)], into)
            np.divide(total, count, total)


@register("QLinearAveragePool", since_version=1, domain=_MS)
@register("QLinearGlobalAveragePool", since_version=1, domain=_MS)
class QLinearPool(Kernel):
    """The mean of windows, or of all places; inputs X, x_scale, x_zero_point, y_scale, y_zero_point."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._last = bool(spec.attributes.get("channels_last", 0))
        self._pool = None
        if spec.op_type == "QLinearAveragePool":
            attributes = {"ceil_mode": 0, "count_include_pad": 0, **spec.attributes}
            inner = dataclasses.replace(
                spec,
                op_type="AveragePool",
                domain="",
                opset=19,
                attributes=attributes,
                input_count=1,
            )
            self._pool = _WholeWindows(inner)

    def _result(self, x: Array) -> tuple[int, ...]:
        if self._pool is None:
            return (*x.shape[:2], *[1] * (x.ndim - 2))
        (spec,) = self._pool.infer((np.broadcast_to(np.float32(0), x.shape),))
        return spec.shape

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As the pool of real numbers."""
        (x,) = operands(self.spec, inputs, 1)
        if not self._last:
            return (TensorSpec(self._result(x), x.dtype),)
        shape = self._result(np.moveaxis(x, -1, 1))
        return (TensorSpec((shape[0], *shape[2:], shape[1]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In float32."""
        x, y = inputs[0], outputs[0]
        if self._pool is None:
            self._global(inputs, y)
            return
        if self._last:
            x, y = np.moveaxis(x, -1, 1), np.moveaxis(y, -1, 1)
        value = real(np.ascontiguousarray(x), inputs[1], given(inputs, 2))
        mean = np.empty(y.shape, FLOAT32)
        self._pool.means(value, mean)
        np.divide(mean, np.float32(scalar(inputs[3], 1)), mean)
        np.add(mean, np.float32(scalar(given(inputs, 4))), mean)
        rounded(mean, y)

    def _global(self, inputs: Sequence[Any], y: Array) -> None:
        """The sums of the integers, by one factor."""
        x, x_scale, x_zero, y_scale, y_zero = [*inputs, None][:5]
        if not y.size:
            return
        planes = (
            x.reshape(x.shape[0], -1, x.shape[-1])
            if self._last
            else x.reshape(x.shape[0] * x.shape[1], -1, 1)
        )
        total = _sums(planes)
        count = planes.shape[1]
        np.subtract(total, count * scalar(x_zero), total)
        value = total.astype(FLOAT32)
        scale = np.float32(scalar(y_scale, 1)) * np.float32(count)
        np.multiply(value, np.float32(scalar(x_scale, 1)) / scale, value)
        rounded(value, y.reshape(value.shape), scalar(y_zero))


def _sums(x: Array) -> Array:
    """The sums along the middle axis of the 8-bit x [outer, n, inner] as float64, exact."""
    outer, count, inner = x.shape
    total = np.zeros((outer, inner), FLOAT64)
    step = 2**16  # 2 ** 16 numbers of up to 2 ** 8 still add up exactly in float32
    for start in range(0, count, step):
        length = min(step, count - start)
        ones = np.ones((1, length), FLOAT32)
        height = max(1, 2**16 // (length * inner))
        for first in range(0, outer, height):
            part = x[first : first + height, start : start + length].astype(FLOAT32)
            if inner == 1:
                total[first : first + height] += part.reshape(-1, length) @ ones.T
            else:
                total[first : first + height] += np.matmul(ones, part)[:, 0]
    return total


@register("QLinearReduceMean", since_version=1, domain=_MS)
class QLinearReduceMean(Kernel):
    """The mean over ``axes``; inputs as those of a pool."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Ones, or nothing, in the place of the axes."""
        (x,) = operands(self.spec, inputs, 1)
        axes = self._axes(x.ndim)
        keeps = self.spec.attributes.get("keepdims", 1)
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        if not keeps:
            shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return (TensorSpec(tuple(shape), x.dtype),)

    def _axes(self, rank: int) -> tuple[int, ...]:
        return normalized_axes(self.spec, self.spec.attributes.get("axes") or range(rank), rank)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In float32."""
        value = real(inputs[0], inputs[1], given(inputs, 2))
        mean = np.asarray(value.mean(axis=self._axes(value.ndim), dtype=np.float64), FLOAT32)
        store(mean.reshape(outputs[0].shape), outputs[0], inputs[3], given(inputs, 4))
