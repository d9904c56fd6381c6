"""com.microsoft's operators on quantised tensors: QLinearAdd, Mul, Concat, Where, activations, pools, means.

ContribOperators.md of onnxruntime. Each result is that of the operator on the real numbers, quantised once. A function
of one tensor is a table of its 256 values. Scratch: blocks in float32, for pools and means the tensor in float32.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._quantized import (
    Rounding,
    rounded,
    scalar,
)
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    broadcast_shape,
    given,
    normalized_axes,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels.pooling import AveragePool
from onnx_notebook_profiler.evaluator.kernels.softmax import softmax
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["QLinearActivation", "QLinearBinary", "QLinearConcat", "QLinearPool", "QLinearWhere"]

_MS: Final = "com.microsoft"


def _real(x: Array, scale: Any, zero: Any) -> Array:
    """(x - zero) * scale as float32; scale and zero are tensors of one element, or None."""
    wide = x.astype(FLOAT32)
    shift = scalar(zero)
    if shift:
        np.subtract(wide, shift, wide)
    np.multiply(wide, np.float32(scalar(scale, 1)), wide)
    return wide


def _store(value: Array, y: Array, scale: Any, zero: Any) -> None:
    """Quantise the float32 *value*, which is overwritten."""
    np.divide(value, np.float32(scalar(scale, 1)), value)
    rounded(value, y, scalar(zero))


def _table(x: np.dtype[Any], scale: Any, zero: Any) -> Array:
    """The real number of each value of an 8-bit type, in the order of its bits."""
    return _real(np.arange(256, dtype=np.uint8).view(x), scale, zero)


@register("QLinearAdd", since_version=1, domain=_MS)
@register("QLinearMul", since_version=1, domain=_MS)
class QLinearBinary(Kernel):
    """A op B, with broadcasting; inputs A, A_scale, A_zero_point, the same for B, and C_scale, C_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The common shape, the type of A."""
        a, b = operands(self.spec, (inputs[0], inputs[3]), 2)
        return (TensorSpec(broadcast_shape(self.spec, (a, b)), a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Tables of real numbers, already divided by C_scale, looked up, combined and rounded in blocks."""
        (y,) = outputs
        a, b = inputs[0], inputs[3]
        scale = np.float32(scalar(inputs[6], 1))
        left = _table(a.dtype, inputs[1], inputs[2]) / scale
        right = _table(b.dtype, inputs[4], inputs[5])
        combine: np.ufunc = np.multiply
        if self.spec.op_type == "QLinearAdd":
            right, combine = right / scale, np.add
        a, b = np.broadcast_arrays(a, b)
        rounding = Rounding(y.dtype, scalar(given(inputs, 7)))
        a, b, target = (np.atleast_1d(one) for one in (a, b, y))
        height = max(1, 2**15 // max(math.prod(target.shape[1:]), 1))
        for start in range(0, target.shape[0], height):
            part = slice(start, start + height)
            value = np.take(left, _bits(a[part]))
            combine(value, np.take(right, _bits(b[part])), out=value)
            rounding(value, target[part])


def _bits(x: Array) -> Array:
    """The bits of an 8-bit tensor as uint8."""
    return x if x.dtype == np.uint8 else np.ascontiguousarray(x).view(np.uint8)


def _sigmoid(x: Array, _: NodeSpec) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _leaky(x: Array, spec: NodeSpec) -> Array:
    return np.where(x >= 0, x, x * np.float32(spec.attributes.get("alpha", 0.01)))


_FUNCTIONS: Final[dict[str, Callable[[Array, NodeSpec], Array]]] = {
    "QLinearSigmoid": _sigmoid,
    "QLinearLeakyRelu": _leaky,
}


@register("QLinearSigmoid", since_version=1, domain=_MS)
@register("QLinearLeakyRelu", since_version=1, domain=_MS)
class QLinearActivation(Kernel):
    """A function of each element; inputs X, X_scale, X_zero_point, Y_scale, Y_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A table of 256 results."""
        x, scale, zero, y_scale = inputs[:4]
        value = _FUNCTIONS[self.spec.op_type](_table(x.dtype, scale, zero), self.spec)
        table = np.empty(256, x.dtype)
        _store(value.astype(FLOAT32), table, y_scale, given(inputs, 4))
        np.take(table, _bits(x), out=outputs[0], mode="clip")


@register("QLinearSoftmax", since_version=1, domain=_MS)
class QLinearSoftmax(Kernel):
    """Softmax along an axis, before opset 13 of the default domain over all axes from it on."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        normalized_axis(self.spec, int(self.spec.attributes.get("axis", -1)), x.ndim)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In float32."""
        x = inputs[0]
        axis = int(self.spec.attributes.get("axis", -1)) % x.ndim
        inner = math.prod(x.shape[axis + 1 :])
        shape = (math.prod(x.shape[:axis]), x.shape[axis], inner)
        if int(self.spec.attributes["opset"]) < 13:
            shape = (shape[0], shape[1] * inner, 1)
        value = _real(x, inputs[1], given(inputs, 2)).reshape(shape)
        softmax(value, value)
        _store(value, outputs[0].reshape(shape), inputs[3], given(inputs, 4))


@register("QLinearConcat", since_version=1, domain=_MS)
class QLinearConcat(Kernel):
    """Inputs Y_scale, Y_zero_point, then X, scale and zero point of each part."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The parts one after the other along the axis."""
        parts = [one for one in inputs[2::3] if one is not None]
        axis = normalized_axis(self.spec, int(self.spec.attributes["axis"]), parts[0].ndim)
        shape = list(parts[0].shape)
        shape[axis] = sum(one.shape[axis] for one in parts)
        return (TensorSpec(tuple(shape), parts[0].dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One table for each part."""
        (y,) = outputs
        axis = int(self.spec.attributes["axis"]) % y.ndim
        stop = 0
        for x, scale, zero in zip(inputs[2::3], inputs[3::3], inputs[4::3], strict=True):
            start, stop = stop, stop + x.shape[axis]
            table = np.empty(256, y.dtype)
            _store(_table(x.dtype, scale, zero), table, inputs[0], inputs[1])
            y[(*[slice(None)] * axis, slice(start, stop))] = table[_bits(x)]


@register("QLinearWhere", since_version=1, domain=_MS)
class QLinearWhere(Kernel):
    """Inputs condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The common shape, the type of X."""
        chosen = [one for one in (inputs[0], inputs[1], inputs[4]) if one is not None]
        return (TensorSpec(broadcast_shape(self.spec, chosen), chosen[1].dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Both through tables, then chosen."""
        condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = inputs
        tables = []
        for dtype, scale, zero in ((x.dtype, x_scale, x_zero), (y.dtype, y_scale, y_zero)):
            table = np.empty(256, outputs[0].dtype)
            _store(_table(dtype, scale, zero), table, z_scale, z_zero)
            tables.append(table)
        np.copyto(outputs[0], tables[1][_bits(y)])
        np.copyto(outputs[0], tables[0][_bits(x)], where=condition)


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
            self._pool = AveragePool(inner)

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
        if self._last:
            x, y = np.moveaxis(x, -1, 1), np.moveaxis(y, -1, 1)
        value = _real(np.ascontiguousarray(x), inputs[1], given(inputs, 2))
        if self._pool is None:
            mean = value.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
        else:
            mean = np.empty(y.shape, FLOAT32)
            self._pool.compute((value,), (mean,))
        _store(mean, y, inputs[3], given(inputs, 4))


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
        value = _real(inputs[0], inputs[1], given(inputs, 2))
        mean = np.asarray(value.mean(axis=self._axes(value.ndim), dtype=np.float64), FLOAT32)
        _store(mean.reshape(outputs[0].shape), outputs[0], inputs[3], given(inputs, 4))
