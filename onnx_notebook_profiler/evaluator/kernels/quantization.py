"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, those of com.microsoft included.

https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html, onnx__DequantizeLinear.html, onnx__DynamicQuantizeLinear.html;
ContribOperators.md of onnxruntime. Scale and zero point are one number, one for each index of an axis, or one for each
block along it. Scratch: one block of elements in float32; a tensor in blocks is put together in a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._convert import CastRules
from onnx_notebook_profiler.evaluator.kernels._quantized import (
    INTEGER_RANGES,
    Rounding,
    dequantize,
    float_type,
    parts_of,
    quantize,
)
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    FLOAT32,
    FLOAT64,
    element_type,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"]

_UINT8: Final = np.dtype(np.uint8)
_SMALL_FLOATS: Final = ("float8", "float6", "float4")
_FLOAT16: Final = np.dtype(np.float16)


class _Linear(Kernel):
    """What the two directions share."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._axis = int(attributes.get("axis", 1))
        self._block = int(attributes.get("block_size", 0))
        self._wanted = int(attributes.get("output_dtype", 0))
        self._precision = int(attributes.get("precision", 0))
        self._rules = CastRules(saturate=bool(attributes.get("saturate", 1)))

    def _checked(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array | None]:
        x, scale = operands(self.spec, inputs, 2)
        zero = inputs[2] if len(inputs) > 2 else None
        if zero is not None and zero.shape != scale.shape and (zero.size, scale.size) != (1, 1):
            raise ValueError(
                f"{self.spec.op_type}: the zero point has shape {zero.shape}, the scale {scale.shape}"
            )
        parts_of(x.shape, scale, zero, self._axis, self._block)
        return x, scale, zero


@register("QuantizeLinear", since_version=10)
@register("QuantizeLinear", since_version=1, domain="com.microsoft")
class QuantizeLinear(_Linear):
    """saturate(round(x / y_scale) + y_zero_point), halves to even."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of x, the type of the zero point, or of ``output_dtype``, or uint8."""
        x, _, zero = self._checked(inputs)
        dtype = _UINT8
        if zero is not None:
            dtype = zero.dtype
        elif self._wanted:
            dtype = element_type(self._wanted)
        if dtype.name not in INTEGER_RANGES and not dtype.name.startswith(_SMALL_FLOATS):
            raise ValueError(f"{self.spec.op_type} cannot quantise to {dtype}")
        return (TensorSpec(x.shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In blocks."""
        x, scale, zero = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
        parts = parts_of(x.shape, scale, zero, self._axis, self._block)
        quantize(x, outputs[0], parts, self._quotient_type(x.dtype, scale.dtype), self._rules)

    def _quotient_type(self, x: np.dtype[Any], scale: np.dtype[Any]) -> np.dtype[Any]:
        """``precision``, or since opset 23 the type of the scale, where that can divide."""
        if self._precision:
            return element_type(self._precision)
        if scale.kind == "i":
            return FLOAT64
        if self.spec.opset >= 23 and scale in (_FLOAT16, BFLOAT16):
            return scale
        return float_type(x, scale)


@register("DequantizeLinear", since_version=10)
@register("DequantizeLinear", since_version=1, domain="com.microsoft")
class DequantizeLinear(_Linear):
    """(x - x_zero_point) * x_scale."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of x, the type of the scale or of ``output_dtype``."""
        x, scale, _ = self._checked(inputs)
        return (TensorSpec(x.shape, element_type(self._wanted) if self._wanted else scale.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In blocks."""
        x, scale, zero = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
        parts = parts_of(x.shape, scale, zero, self._axis, self._block)
        dequantize(x, outputs[0], parts, float_type(outputs[0].dtype, scale.dtype))


@register("DynamicQuantizeLinear", since_version=11)
class DynamicQuantizeLinear(Kernel):
    """x as uint8 with the scale and zero point that its own range, with 0 in it, asks for."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """y, y_scale and y_zero_point."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, _UINT8), TensorSpec((), FLOAT32), TensorSpec((), _UINT8))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The range, then the values."""
        y, *others = outputs
        scale, zero = dynamic_range(inputs[0])
        for output, value in zip(others, (scale, zero), strict=False):
            if output is not None:
                output[...] = value
        if y is not None:
            quantize_dynamic(inputs[0], y, scale, zero)


def dynamic_range(x: Array) -> tuple[np.float32, int]:
    """Scale and zero point of x as uint8."""
    low = np.fmin.reduce(x, axis=None, initial=np.float32(0))
    high = np.fmax.reduce(x, axis=None, initial=np.float32(0))
    if low == high:
        return np.float32(1), 0
    scale = np.float32((high - low) / np.float32(255))
    zero = np.fmax(np.fmin(np.rint(-low / scale), 255), 0)
    return scale, int(zero)


def quantize_dynamic(x: Array, y: Array, scale: np.float32, zero: int) -> None:
    """X / scale + zero as uint8, in blocks."""
    source, target = x.reshape(-1), y.reshape(-1)
    block = 2**15
    rounding = Rounding(y.dtype, zero)
    for start in range(0, source.size, block):
        rounding(np.divide(source[start : start + block], scale), target[start : start + block])
