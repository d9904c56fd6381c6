"""ConvInteger and QLinearConv, com.microsoft's included: convolutions of quantised tensors, exact.

https://onnx.ai/onnx/operators/onnx__ConvInteger.html, onnx__QLinearConv.html; ContribOperators.md of onnxruntime
(``channels_last``). They run as Conv on the centered integers, in float32 where no sum of products can reach 2 ** 24,
else in float64. Scratch: one item of X and of the result in that type, W in it, and what Conv takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._quantized import INTEGER_RANGES, rounded
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64, operands
from onnx_notebook_profiler.evaluator.kernels.convolution import Conv
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ConvInteger", "QLinearConv"]

_EXACT: Final = 2**24


class _IntegerConv(Kernel):
    """Shapes of Conv, sums of integers."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._last = bool(spec.attributes.get("channels_last", 0))
        self._conv = Conv(
            dataclasses.replace(spec, op_type="Conv", domain="", wanted=(True,), input_count=2)
        )

    def _shape(self, x: Array, w: Array) -> tuple[int, ...]:
        x = np.moveaxis(x, -1, 1) if self._last else x
        small = np.broadcast_to(np.float32(0), x.shape), np.broadcast_to(np.float32(0), w.shape)
        (spec,) = self._conv.infer(small)
        shape = spec.shape
        return (shape[0], *shape[2:], shape[1]) if self._last else shape

    def _sums(self, x: Array, x_zero: Any, w: Array, w_zero: Any) -> Any:
        """The sums [1, M, ...] of one item after the other, in a float type that holds them exactly."""
        offset = 0 if w_zero is None else w_zero.astype(np.int32).reshape(-1, *[1] * (w.ndim - 1))
        filters = w.astype(np.int32) - offset
        shift = 0 if x_zero is None else int(x_zero.reshape(-1)[0])
        low, high = INTEGER_RANGES[x.dtype.name]
        reach = max(abs(low - shift), abs(high - shift))
        weight = int(np.abs(filters).reshape(w.shape[0], -1).sum(axis=1).max(initial=0))
        wide = FLOAT32 if weight * reach < _EXACT else FLOAT64
        w = filters.astype(wide)
        for item in range(x.shape[0]):
            one = x[item : item + 1]
            one = np.moveaxis(one, -1, 1) if self._last else one
            centered = np.ascontiguousarray(one, dtype=wide)
            if shift:
                np.subtract(centered, shift, centered)
            (spec,) = self._conv.infer((centered, w))
            total = np.empty(spec.shape, wide)
            self._conv.compute((centered, w), (total,))
            yield item, total


@register("ConvInteger", since_version=10)
class ConvInteger(_IntegerConv):
    """The sums as int32."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As Conv."""
        x, w = operands(self.spec, inputs, 2)
        return (TensorSpec(self._shape(x, w), np.dtype(np.int32)),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Item by item."""
        zeros = [*inputs[2:], None, None]
        for item, total in self._sums(inputs[0], zeros[0], inputs[1], zeros[1]):
            np.copyto(outputs[0][item], total[0], casting="unsafe")


@register("QLinearConv", since_version=10)
@register("QLinearConv", since_version=1, domain="com.microsoft")
class QLinearConv(_IntegerConv):
    """(sums + B) * x_scale * w_scale / y_scale, rounded half to even, plus y_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As Conv, in the type of y_zero_point."""
        given = operands(self.spec, inputs, 8)
        return (TensorSpec(self._shape(given[0], given[3]), given[7].dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Item by item; scales and bias have one number for each filter, or one for all."""
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
        (y,) = outputs
        line = (-1, *[1] * (w.ndim - 2))
        factor = (x_scale.reshape(-1) * w_scale.reshape(-1) / y_scale.reshape(-1)).reshape(line)
        bias = inputs[8] if len(inputs) > 8 else None
        for item, total in self._sums(x, x_zero, w, w_zero):
            value = total[0]
            if bias is not None:
                np.add(value, bias.reshape(line), value, casting="unsafe")
            value = value.astype(FLOAT32, copy=False)
            np.multiply(value, factor, value)
            target = np.moveaxis(y[item], -1, 0) if self._last else y[item]
            rounded(value, target, y_zero)
