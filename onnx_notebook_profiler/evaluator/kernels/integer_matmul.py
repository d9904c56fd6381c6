"""Products of quantised matrices: MatMulInteger, QLinearMatMul, and those that onnxruntime's quantiser writes.

https://onnx.ai/onnx/operators/onnx__MatMulInteger.html, onnx__QLinearMatMul.html; ContribOperators.md of onnxruntime
(MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm, MatMulInteger16). Scratch: A as float32, 4 MiB of B as float32, and
the product of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._convert import CastRules, convert
from onnx_notebook_profiler.evaluator.kernels._integer_product import centered, integer_product
from onnx_notebook_profiler.evaluator.kernels._quantized import INTEGER_RANGES, rounded
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.kernels.matmul import product_shape
from onnx_notebook_profiler.evaluator.kernels.quantization import dynamic_range, quantize_dynamic
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "QGemm",
    "QLinearMatMul",
    "multiply_integers",
]

_INT32 = np.dtype(np.int32)


def _row_zero(zero: Any, a: Array) -> Any:
    """A zero point of A, one for each row, as a column."""
    if zero is None or zero.size == 1 or zero.ndim > 1:
        return None if zero is None else zero if zero.ndim > 1 else zero.reshape(())
    return zero.reshape(-1, 1) if a.ndim > 1 else zero


def multiply_integers(
    a: Array, b: Array, out: Array, a_zero: Any = None, b_zero: Any = None
) -> None:
    """Out = (A - a_zero) (B - b_zero), with numpy's rules for vectors and stacks."""
    left = centered(a, _row_zero(a_zero, a))
    left = left if a.ndim > 1 else left[None]
    right = b if b.ndim > 1 else b[:, None]
    if b_zero is not None and b_zero.size == 1:
        b_zero = b_zero.reshape(())
    if right.ndim == 2 and left.ndim > 2:
        left = left.reshape(-1, left.shape[-1])
        integer_product(left, right, b_zero, out.reshape(left.shape[0], right.shape[1]))
        return
    shape = (
        *np.broadcast_shapes(left.shape[:-2], right.shape[:-2]),
        left.shape[-2],
        right.shape[-1],
    )
    integer_product(left, right, b_zero, out.reshape(shape))


@register("MatMulInteger", since_version=10)
@register("MatMulInteger16", since_version=1, domain="com.microsoft")
class MatMulInteger(Kernel):
    """(A - a_zero_point) (B - b_zero_point) as int32."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of the product."""
        a, b = operands(self.spec, inputs, 2)
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), _INT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Exact, with wrap-around."""
        multiply_integers(inputs[0], inputs[1], outputs[0], given(inputs, 2), given(inputs, 3))


@register("QLinearMatMul", since_version=10)
class QLinearMatMul(Kernel):
    """The product of A and B, each with scale and zero point, quantised with those of Y."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of the product, the type of y_zero_point."""
        a, _, _, b, _, _, _, zero = operands(self.spec, inputs, 8)
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), zero.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As int32, then by one factor."""
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
        (y,) = outputs
        total = np.empty(y.shape, FLOAT32)
        multiply_integers(a, b, total, a_zero, b_zero)
        factor = _row_zero(a_scale.astype(FLOAT32), a) * _column(b_scale.astype(FLOAT32))
        factor = factor / _column(y_scale.astype(FLOAT32))
        if a.ndim == 1 or b.ndim == 1:
            factor = factor.reshape(total.shape if factor.size > 1 else ())
        np.multiply(total, factor, total)
        if y.dtype.name in INTEGER_RANGES:
            rounded(total, y, _column(y_zero))
        else:
            convert(total, y, CastRules())


def _column(value: Array) -> Array:
    return value.reshape(()) if value.size == 1 else value


@register("MatMulIntegerToFloat", since_version=1, domain="com.microsoft")
class MatMulIntegerToFloat(Kernel):
    """The integer product times both scales, plus a bias [N]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of the product, the type of the scales."""
        a, b, scale, _ = operands(self.spec, inputs, 4)
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), scale.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The product in float32, which holds it exactly, then one factor for each column."""
        a, b, a_scale, b_scale = inputs[:4]
        (y,) = outputs
        total = y if y.dtype == FLOAT32 else np.empty(y.shape, FLOAT32)
        multiply_integers(a, b, total, given(inputs, 4), given(inputs, 5))
        np.multiply(total, _row_zero(a_scale, a) * _column(b_scale), total)
        bias = given(inputs, 6)
        if bias is not None:
            np.add(total, bias, total)
        if total is not y:
            np.copyto(y, total, casting="unsafe")


@register("DynamicQuantizeMatMul", since_version=1, domain="com.microsoft")
class DynamicQuantizeMatMul(Kernel):
    """A quantised by its own range, times B, as float32, plus a bias [N]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of the product."""
        a, b, _ = operands(self.spec, inputs, 3)
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As the three operators that it stands for."""
        a, b, b_scale = inputs[:3]
        (y,) = outputs
        scale, zero = dynamic_range(a)
        small = np.empty(a.shape, np.uint8)
        quantize_dynamic(a, small, scale, zero)
        multiply_integers(small, b, y, np.asarray(zero), given(inputs, 3))
        np.multiply(y, scale * _column(b_scale), y)
        bias = given(inputs, 4)
        if bias is not None:
            np.add(y, bias, y)


@register("QGemm", since_version=1, domain="com.microsoft")
class QGemm(Kernel):
    """alpha * A B + C for quantised A and B, as float32, or quantised where Y has a scale."""

    value_inputs: ClassVar[tuple[int, ...]] = ()

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[M, N]."""
        a, _, _, b, _, _ = operands(self.spec, inputs, 6)
        a, b = self._turned(a, b)
        zero = given(inputs, 8)
        dtype = FLOAT32 if zero is None else zero.dtype
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), dtype),)

    def _turned(self, a: Array, b: Array) -> tuple[Array, Array]:
        attributes = self.spec.attributes
        return a.T if attributes.get("transA") else a, b.T if attributes.get("transB") else b

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The integer product, C in its units, one factor for each column."""
        a, b = self._turned(inputs[0], inputs[3])
        (y,) = outputs
        total = np.empty(y.shape, np.float64)
        exact = np.empty(y.shape, np.int32)
        multiply_integers(a, b, exact, inputs[2], inputs[5])
        np.copyto(total, exact)
        bias = given(inputs, 6)
        if bias is not None:
            np.add(total, bias, total)
        factor = (
            float(self.spec.attributes.get("alpha", 1.0)) * _column(inputs[1]) * _column(inputs[4])
        )
        np.multiply(total, factor, total)
        y_scale = given(inputs, 7)
        if y_scale is None:
            np.copyto(y, total, casting="unsafe")
            return
        np.divide(total, y_scale.reshape(()), total)
        rounded(total.astype(FLOAT32), y, _column(inputs[8]))
