"""Softmax, LogSoftmax and Hardmax, over one axis, or before opset 13 over all axes from one on.

https://onnx.ai/onnx/operators/onnx__Softmax.html, onnx__LogSoftmax.html, onnx__Hardmax.html. Blocks of rows that stay
in the cache; scratch is two numbers for each row of a block. Every step is rounded to the type of the input, as the
expected values of onnx's tests are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import normalized_axis, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Hardmax", "Softmax", "log_softmax", "softmax"]

_ONE_AXIS: Final = 13
_BLOCK: Final = 2**16
"""Elements of a block."""


def _blocks(shape: tuple[int, int, int]) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of [outer, n, inner] with whole rows along n."""
    outer, n, inner = shape
    width = min(inner, max(1, _BLOCK // max(n, 1)))
    height = max(1, _BLOCK // max(n * width, 1)) if width == inner else 1
    for start in range(0, outer, height):
        for column in range(0, inner, width):
            yield slice(start, start + height), slice(None), slice(column, column + width)


def softmax(x: Array, out: Array) -> None:
    """exp(x - max) / sum along the middle axis of x [outer, n, inner], which may be *out*; both of one float type."""
    top = np.maximum.reduce(x, axis=1, keepdims=True)
    np.subtract(x, top, out)
    np.exp(out, out)
    np.divide(out, np.add.reduce(out, axis=1, keepdims=True), out)


def log_softmax(x: Array, out: Array) -> None:
    """X - max - log(sum(exp(x - max))) along the middle axis of x [outer, n, inner]."""
    top = np.maximum.reduce(x, axis=1, keepdims=True)
    np.subtract(x, top, out)
    total = np.add.reduce(np.exp(out), axis=1, keepdims=True)
    np.subtract(out, np.log(total), out)


class _AlongAxis(Kernel):
    """One output that looks like the input, made row by row."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        old = spec.opset < _ONE_AXIS
        self._axis = int(spec.attributes.get("axis", 1 if old else -1))
        self._flattens = old

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape and type."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim or self._axis not in {-1, 0}:
            normalized_axis(self.spec, self._axis, x.ndim + self._flattens)
        return (TensorSpec(x.shape, x.dtype),)

    def rows(self, x: Array) -> tuple[int, int, int]:
        """*x* as [outer, n, inner], with the rows along n."""
        if not x.ndim:
            return (1, 1, 1)
        axis = self._axis % x.ndim if self._axis < x.ndim else x.ndim
        if self._flattens:
            return (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]), 1)
        return (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))


@register("Softmax", since_version=1)
@register("LogSoftmax", since_version=1)
class Softmax(_AlongAxis):
    """The exponentials of a row divided by their sum, or the logarithm of that."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._formula = softmax if spec.op_type == "Softmax" else log_softmax

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        shape = self.rows(inputs[0])
        x, y = inputs[0].reshape(shape), outputs[0].reshape(shape)
        if not x.size:
            return
        if x.size <= _BLOCK:
            self._formula(x, y)
            return
        for block in _blocks(shape):
            self._formula(x[block], y[block])


@register("Hardmax", since_version=1)
class Hardmax(_AlongAxis):
    """One at the first greatest element of a row, zero elsewhere."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Zeros, then a one for each row."""
        shape = self.rows(inputs[0])
        x, y = inputs[0].reshape(shape), outputs[0].reshape(shape)
        y.fill(0)
        if x.size:
            np.put_along_axis(y, x.argmax(axis=1, keepdims=True), y.dtype.type(1), axis=1)
