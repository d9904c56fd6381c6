"""Add, Sub, Mul, Div, Pow, Mod and the variadic Max, Min, Sum, Mean.

The binary operators are here from opset 7 (Mod: 10) on, where they broadcast as numpy does; before
that they had attributes ``axis`` and ``broadcast``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT64,
    INT64,
    Elementwise,
    broadcast_shape,
    operands,
    truncated_divide,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register

_BINARY: Final[Mapping[str, np.ufunc]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
_VARIADIC: Final[Mapping[str, np.ufunc]] = {
    "Max": np.maximum,
    "Mean": np.add,
    "Min": np.minimum,
    "Sum": np.add,
}


@register("Add", since_version=7)
@register("Mul", since_version=7)
@register("Sub", since_version=7)
class Arithmetic(Elementwise):
    """A binary operation that numpy has as ONNX means it; integers wrap around."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = _BINARY[spec.op_type]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], inputs[1], outputs[0])


@register("Div", since_version=7)
class Division(Elementwise):
    """Quotient; of integers it is rounded toward zero."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Floats divide in one call."""
        out = outputs[0]
        if out.dtype.kind in "iu":
            # the quotient is made in several steps, which read the operands again
            a, b = (one.copy() if one is out else one for one in inputs)
            truncated_divide(a, b, out)
        else:
            np.divide(inputs[0], inputs[1], out)


@register("Mod", since_version=10)
class Modulo(Elementwise):
    """Remainder with the divisor's sign, or with ``fmod`` the dividend's."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = np.fmod if spec.attributes.get("fmod") else np.remainder

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], inputs[1], outputs[0])


def _integer_power(x: Array, y: Array, out: Array) -> None:
    """Powers of integers, exact and wrapping; one with a negative exponent is a rounded reciprocal.

    0 to a negative power has no value: it is 0 here.
    """
    if y.dtype.kind == "u":
        y = np.minimum(y, np.iinfo(np.int64).max)
    base = x.astype(INT64, copy=False)
    exponent = np.asarray(y).astype(INT64, copy=False)
    result = np.power(base, np.maximum(exponent, 0))
    negative = exponent < 0
    if np.any(negative):
        sign = np.where(base == -1, 1 - 2 * (exponent & 1), 0)
        result = np.where(negative, np.where(base == 1, 1, sign), result)
    np.copyto(out, result, casting="unsafe")


@register("Pow", since_version=7)
class Power(Kernel):
    """x to the y; the result has the base's type, whatever type the exponent has."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The broadcast shape and the type of the base."""
        values = operands(self.spec, inputs, 2)
        return (TensorSpec(broadcast_shape(self.spec, values), values[0].dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Mixed types meet in float64, integers in int64; squares are products."""
        x, y = inputs[0], inputs[1]
        out = outputs[0]
        integer = x.dtype.kind in "iu"
        if integer and y.dtype.kind in "iu":
            _integer_power(x, y, out)
        elif not integer and y.size == 1 and y.reshape(())[()] == 2:
            np.square(x, out)
        elif x.dtype == y.dtype:
            np.power(x, y, out)
        else:
            wide = np.power(x.astype(FLOAT64, copy=False), y.astype(FLOAT64, copy=False))
            np.copyto(out, wide, casting="unsafe")


@register("Max", since_version=1)
@register("Mean", since_version=1)
@register("Min", since_version=1)
@register("Sum", since_version=1)
class Variadic(Elementwise):
    """A binary operation folded over any number of inputs; a NaN stays one."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = _VARIADIC[spec.op_type]
        self._rounds = spec.op_type in {"Mean", "Sum"}
        self._averages = spec.op_type == "Mean"

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fold into the output; narrow floats are summed in float32 and rounded once."""
        out = outputs[0]
        if self._rounds and work_type(out.dtype) != out.dtype:
            total = np.empty(out.shape, work_type(out.dtype))
            np.copyto(total, inputs[0])
            for value in inputs[1:]:
                np.add(total, value, total)
        else:
            total = out
            if len(inputs) == 1:
                np.copyto(total, inputs[0])
            else:
                self._ufunc(inputs[0], inputs[1], out=total)
                for value in inputs[2:]:
                    self._ufunc(total, value, out=total)
        if self._averages:
            np.divide(total, len(inputs), total)
        if total is not out:
            np.copyto(out, total, casting="unsafe")
