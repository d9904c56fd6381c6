"""Operators of opsets 1 to 6 whose second operand is aligned by the attributes ``broadcast`` and ``axis``.

https://onnx.ai/onnx/operators/onnx__Add.html and neighbours, at the foot of each page. They run on the kernels of opset
7 once the second operand has the shape that numpy's rules need. Tile 1 and Cast 1 name what later became inputs and
numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import normalized_axis, operands
from onnx_notebook_profiler.evaluator.kernels.cast import Cast
from onnx_notebook_profiler.evaluator.registry import find_kernel, register

__all__ = ["OldBinary", "OldCast", "OldGemm", "OldPRelu", "OldPower", "OldTile"]

_TODAY = 7


def _of_today(spec: NodeSpec) -> Any:
    """The kernel that opset 7 has for the operator."""
    found = find_kernel("", spec.op_type, _TODAY)
    assert found is not None
    return found(dataclasses.replace(spec, opset=_TODAY))


class _Wrapped(Kernel):
    """Runs another kernel on operands that are seen in another shape."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._inner: Kernel = _of_today(spec)

    def aligned(self, inputs: Sequence[Any]) -> list[Any]:
        """The operands as the inner kernel takes them."""
        return list(inputs)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As the inner kernel says."""
        return self._inner.infer(self.aligned(inputs))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Hand over."""
        self._inner.compute(self.aligned(inputs), outputs)


@register("Add", since_version=1)
@register("Sub", since_version=1)
@register("Mul", since_version=1)
@register("Div", since_version=1)
@register("And", since_version=1)
@register("Or", since_version=1)
@register("Xor", since_version=1)
@register("Equal", since_version=1)
@register("Greater", since_version=1)
@register("Less", since_version=1)
class OldBinary(_Wrapped):
    """A and B of one shape, or with ``broadcast`` B along the axes of A from ``axis`` on, by default the last ones."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of A, to which B has to fit."""
        a, b = operands(self.spec, inputs, 2)
        specs = super().infer(inputs)
        if specs[0].shape != a.shape:
            raise ValueError(
                f"{self.spec.op_type} of opset {self.spec.opset} broadcasts B to A, got {list(a.shape)} and "
                f"{list(b.shape)}"
            )
        return specs

    def aligned(self, inputs: Sequence[Any]) -> list[Any]:
        """B with ones for the axes of A that come after its own."""
        a, b = operands(self.spec, inputs, 2)
        if not self.spec.attributes.get("broadcast", 0):
            if a.shape != b.shape:
                raise ValueError(
                    f"{self.spec.op_type} of opset {self.spec.opset} expects equal shapes without broadcast, got "
                    f"{list(a.shape)} and {list(b.shape)}"
                )
            return [a, b]
        axis = self.spec.attributes.get("axis")
        if axis is None:
            return [a, b]
        first = normalized_axis(self.spec, int(axis), a.ndim)
        missing = a.ndim - first - b.ndim
        return [a, b if missing <= 0 else b.reshape(*b.shape, *[1] * missing)]


@register("Pow", since_version=1)
class OldPower(OldBinary):
    """As the others; exponents are read again after the first results."""

    in_place: ClassVar[tuple[int, ...]] = (0,)


@register("PRelu", since_version=1)
class OldPRelu(_Wrapped):
    """X [N, C, ...] with one slope, or one for each channel."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def aligned(self, inputs: Sequence[Any]) -> list[Any]:
        """The slopes as a column."""
        x, slope = operands(self.spec, inputs, 2)
        if slope.ndim == 1 and slope.size > 1 and x.ndim > 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        return [x, slope]


@register("Gemm", since_version=1)
class OldGemm(_Wrapped):
    """C is broadcast where ``broadcast`` says so, which numpy's rules cover."""


@register("Tile", since_version=1)
class OldTile(_Wrapped):
    """``tiles`` copies along one axis."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2)

    def aligned(self, inputs: Sequence[Any]) -> list[Any]:
        """A repetition for each axis."""
        x, tiles, axis = operands(self.spec, inputs, 3)
        repeats = np.ones(x.ndim, np.int64)
        repeats[normalized_axis(self.spec, int(axis.reshape(-1)[0]), x.ndim)] = int(
            tiles.reshape(-1)[0]
        )
        return [x, repeats]


@register("Cast", since_version=1)
class OldCast(Cast):
    """The type that ``to`` names as text, such as FLOAT."""

    def __init__(self, spec: NodeSpec) -> None:
        name = str(spec.attributes.get("to", "")).upper()
        if name not in TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
            raise ValueError(f"Cast does not know the type {name!r}")
        number = TensorProto.DataType.Value(name)
        super().__init__(dataclasses.replace(spec, attributes={**spec.attributes, "to": number}))
