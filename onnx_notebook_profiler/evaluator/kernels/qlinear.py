"""com.microsoft's operators on quantised tensors, element by element: QLinearAdd, Mul, Concat, Where, and others.

ContribOperators.md of onnxruntime. A function of one tensor is a table of its 256 values. Numbers are rounded where
onnxruntime's kernels round them. Scratch: blocks, for QLinearWhere the values of X and Y.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._byte_maps import (
    ByteMap,
    all_bytes,
    bits_of,
    combined,
)
from onnx_notebook_profiler.evaluator.kernels._quantized import (
    Rounding,
    real,
    scalar,
    store,
)
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    FLOAT64,
    broadcast_shape,
    given,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["QLinearActivation", "QLinearBinary", "QLinearConcat", "QLinearWhere"]

_MS: Final = "com.microsoft"


def _table(x: np.dtype[Any], scale: Any, zero: Any) -> Array:
    """The real number of each value of an 8-bit type, in the order of its bits."""
    return real(all_bytes(x), scale, zero)


@register("QLinearAdd", since_version=1, domain=_MS)
@register("QLinearMul", since_version=1, domain=_MS)
class QLinearBinary(Kernel):
    """A op B, with broadcasting; inputs A, A_scale, A_zero_point, the same for B, and C_scale, C_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The common shape, the type of A."""
        a, b = operands(self.spec, (inputs[0], inputs[3]), 2)
        return (TensorSpec(broadcast_shape(self.spec, (a, b)), a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Pair by pair, or for large tensors through a table of all pairs."""
        (y,) = outputs
        inputs = [*inputs, None, None][:8]
        make = _product
        if self.spec.op_type == "QLinearAdd":
            make = _sum
            if _repeats(inputs[0].shape, inputs[3].shape):
                inputs = [*inputs[3:6], *inputs[:3], *inputs[6:]]
        combined(inputs[0], inputs[3], y, make(inputs, y.dtype))


def _repeats(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """True where broadcasting repeats single elements of a, not of b: onnxruntime swaps the two then."""
    width = max(len(a), len(b))
    a, b = ((1,) * (width - len(shape)) + shape for shape in (a, b))
    for left, right in zip(reversed(a), reversed(b), strict=True):
        if (left, right) != (1, 1):
            return left == 1
    return False


def _sum(inputs: Sequence[Any], dtype: np.dtype[Any]) -> Callable[[Array, Array, Array], None]:
    """A s + (B t + rest), where s and t are scales divided by C_scale; each sum with its product is rounded once."""
    c_scale = np.float32(scalar(inputs[6], 1))
    by = [np.float32(scalar(scale, 1)) / c_scale for scale in (inputs[1], inputs[4])]
    shifts = [np.float32(scalar(zero)) for zero in (inputs[2], inputs[5])]
    shifted = by[0].astype(FLOAT64) * shifts[0] + by[1] * shifts[1]
    rest = np.float32(scalar(inputs[7])) - shifted.astype(FLOAT32)
    left, right = (
        all_bytes(x.dtype).astype(FLOAT64) * factor.astype(FLOAT64)
        for x, factor in zip((inputs[0], inputs[3]), by, strict=True)
    )
    right = (right + rest).astype(FLOAT32).astype(FLOAT64)
    rounding = Rounding(dtype)

    def combine(a: Array, b: Array, out: Array) -> None:
        value = np.add(np.take(left, a), np.take(right, b))
        rounding(np.asarray(value).astype(FLOAT32), out)

    return combine


def _product(inputs: Sequence[Any], dtype: np.dtype[Any]) -> Callable[[Array, Array, Array], None]:
    """The product of the integers, by one factor, plus C_zero_point, rounded."""
    factor = np.float32(scalar(inputs[1], 1)) * np.float32(scalar(inputs[4], 1))
    factor /= np.float32(scalar(inputs[6], 1))
    left, right = (
        all_bytes(x.dtype).astype(FLOAT32) - np.float32(scalar(zero))
        for x, zero in ((inputs[0], inputs[2]), (inputs[3], inputs[5]))
    )
    shift = np.float32(scalar(inputs[7]))
    rounding = Rounding(dtype)

    def combine(a: Array, b: Array, out: Array) -> None:
        value = np.asarray(np.multiply(np.take(left, a), np.take(right, b)))
        np.multiply(value, factor, value)
        np.add(value, shift, value)
        rounding(value, out)

    return combine


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
        store(value.astype(FLOAT32), table, y_scale, given(inputs, 4))
        ByteMap(table, x.size)(x, outputs[0])


@register("QLinearSoftmax", since_version=1, domain=_MS)
class QLinearSoftmax(Kernel):
    """Softmax along an axis, before opset 13 of the default domain over all axes from it on."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        normalized_axis(self.spec, int(self.spec.attributes.get("axis", -1)), x.ndim)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """From a table of exp in whole numbers, with the scale of Y as a whole number of parts."""
        x, scale, _, y_scale = inputs[:4]
        axis = int(self.spec.attributes.get("axis", -1)) % x.ndim
        inner = math.prod(x.shape[axis + 1 :])
        shape = (math.prod(x.shape[:axis]), x.shape[axis], inner)
        if int(self.spec.attributes["opset"]) < 13:
            shape = (shape[0], shape[1] * inner, 1)
        if not x.size:
            return
        unit = min((2**32 - 1) / shape[1], 2**23 - 1)
        table = np.exp((np.arange(256.0) - 255) * float(np.float32(scalar(scale, 1))))
        table = np.rint(table * unit).astype(FLOAT32)
        parts = np.floor(np.float32(1) / np.float32(scalar(y_scale, 1)))
        flip = np.uint8(0 if x.dtype == np.uint8 else 128)
        rounding = Rounding(x.dtype, scalar(given(inputs, 4)))
        source, target = bits_of(x).reshape(shape), outputs[0].reshape(shape)
        height = max(1, 2**15 // math.prod(shape[1:]))
        for start in range(0, shape[0], height):
            rows = slice(start, start + height)
            index = np.bitwise_xor(source[rows], flip)
            np.add(index, 255 - index.max(axis=1, keepdims=True), index)
            value = np.take(table, index)
            total = value.sum(axis=1, keepdims=True, dtype=FLOAT64).astype(FLOAT32)
            np.multiply(value, parts, value)
            np.divide(value, total, value)
            rounding(value, target[rows])


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
        outer = math.prod(y.shape[:axis])
        whole = y.reshape(outer, -1) if y.size else y.reshape(outer, 0)
        stop = 0
        for x, scale, zero in zip(inputs[2::3], inputs[3::3], inputs[4::3], strict=True):
            if not x.size:
                continue
            table = np.empty(256, y.dtype)
            store(_table(x.dtype, scale, zero), table, inputs[0], inputs[1])
            mapped = ByteMap(table, x.size)
            start, stop = stop, stop + x.size // outer
            if outer == 1:
                mapped(x, whole[:, start:stop])
                continue
            rows = x.reshape(outer, -1)
            height = max(1, 2**16 // rows.shape[1])
            for first in range(0, outer, height):
                part = np.empty(rows[first : first + height].shape, y.dtype)
                mapped(rows[first : first + height], part)
                whole[first : first + height, start:stop] = part


@register("QLinearWhere", since_version=1, domain=_MS)
class QLinearWhere(Kernel):
    """Inputs condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The common shape, the type of X."""
        chosen = [one for one in (inputs[0], inputs[1], inputs[4]) if one is not None]
        return (TensorSpec(broadcast_shape(self.spec, chosen), chosen[1].dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Both through tables, then chosen by their bits."""
        condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = inputs
        result = bits_of(outputs[0])
        found = []
        for value, scale, zero in ((x, x_scale, x_zero), (y, y_scale, y_zero)):
            table = np.empty(256, result.dtype).view(outputs[0].dtype)
            store(_table(value.dtype, scale, zero), table, z_scale, z_zero)
            found.append(np.empty(value.shape, result.dtype))
            ByteMap(table, value.size)(value, found[-1])
        np.bitwise_xor(found[0], found[1], out=result)
        np.bitwise_and(result, np.negative(condition.view(np.int8)).view(np.uint8), out=result)
        np.bitwise_xor(result, found[1], out=result)
