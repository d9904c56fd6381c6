"""Operators along one axis: ArgMax, ArgMin, CumSum and CumProd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    INT64,
    normalized_axis,
    operands,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register


@register("ArgMax", since_version=1)
@register("ArgMin", since_version=1)
class ArgExtreme(Kernel):
    """Position of the largest or smallest element, the first or the last of equal ones."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._find = np.argmax if spec.op_type == "ArgMax" else np.argmin
        self._axis: int = spec.attributes.get("axis", 0)
        self._keep = bool(spec.attributes.get("keepdims", 1))
        self._last = bool(spec.attributes.get("select_last_index", 0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """int64, with 1 or nothing in place of the axis."""
        shape = operands(self.spec, inputs, 1)[0].shape
        axis = normalized_axis(self.spec, self._axis, len(shape))
        if shape[axis] == 0 and 0 not in shape[:axis] + shape[axis + 1 :]:
            raise ValueError(f"{self.spec.op_type}: axis {axis} of shape {shape} is empty")
        middle = (1,) if self._keep else ()
        return (TensorSpec(shape[:axis] + middle + shape[axis + 1 :], INT64),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One search; for the last position, one in the reversed order."""
        x, out = inputs[0], outputs[0]
        if out.size == 0:
            return
        if self._last:
            x = np.flip(x, self._axis)
        self._find(x, axis=self._axis, out=out, keepdims=self._keep)
        if self._last:
            np.subtract(x.shape[self._axis] - 1, out, out)


@register("CumProd", since_version=26)
@register("CumSum", since_version=11)
class Cumulative(Kernel):
    """Running sum or product, forward or in reverse, with or without the element itself."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        sums = spec.op_type == "CumSum"
        self._ufunc = np.add if sums else np.multiply
        self._start = 0 if sums else 1
        self._exclusive = bool(spec.attributes.get("exclusive", 0))
        self._reverse = bool(spec.attributes.get("reverse", 0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of the input."""
        x, axis = operands(self.spec, inputs, 2)
        if axis.size != 1:
            raise ValueError(f"{self.spec.op_type} expects one axis, got shape {axis.shape}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Accumulate in views that run along the axis in the wanted direction."""
        x, out = inputs[0], outputs[0]
        axis = normalized_axis(self.spec, int(inputs[1].reshape(())), x.ndim)
        wide = work_type(x.dtype)
        total = out if wide == out.dtype else np.empty(out.shape, wide)
        source, target = np.moveaxis(x, axis, 0), np.moveaxis(total, axis, 0)
        if self._reverse:
            source, target = source[::-1], target[::-1]
        if self._exclusive:
            target[:1] = self._start
            source, target = source[:-1], target[1:]
        if source.size:
            self._ufunc.accumulate(source, axis=0, dtype=wide, out=target)
        if total is not out:
            np.copyto(out, total, casting="unsafe")
