"""Softmax, LogSoftmax and Hardmax, over one axis, or before opset 13 over all axes from one on.

https://onnx.ai/onnx/operators/onnx__Softmax.html, onnx__LogSoftmax.html, onnx__Hardmax.html. Blocks of rows that stay
in the cache; float16 and bfloat16 are computed in float32: Softmax rounds after each step, LogSoftmax once. Scratch is
some numbers for each row of a block, and a block or two where the input is narrower or is the output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import (
    BLOCK,
    ones_for,
    row_sums,
    row_type,
    unbuffered,
)
from onnx_notebook_profiler.evaluator.kernels._shared import normalized_axis, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "Hardmax",
    "LogSoftmax",
    "Softmax",
    "exponential_sums",
    "log_softmax",
    "log_softmax_at_once",
    "row_blocks",
    "softmax",
    "softmax_in_steps",
]

_ONE_AXIS: Final = 13
_SMALL: Final = 2**10
_FEW: Final = 16
_LEAST: Final = 1e-10
_LARGEST: Final = 1e30

Shape3 = tuple[int, int, int]


def row_blocks(shape: Shape3) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of [outer, n, inner] with whole rows along n."""
    outer, n, inner = shape
    width = min(inner, max(1, BLOCK // max(n, 1)))
    height = max(1, BLOCK // max(n * width, 1)) if width == inner else 1
    for start in range(0, outer, height):
        for column in range(0, inner, width):
            yield slice(start, start + height), slice(None), slice(column, column + width)


def _tops(x: Array) -> Array:
    """The greatest of each row [outer, 1, inner] of x [outer, n, inner]; numpy is slow where rows are short."""
    n = x.shape[1]
    if n > _FEW or x.size <= _SMALL:
        return np.asarray(np.maximum.reduce(x, axis=1, keepdims=True))
    top = x[:, :1].copy()
    for number in range(1, n):
        np.maximum(top, x[:, number : number + 1], out=top)
    return top


def _totals(x: Array) -> Array:
    """The sum of each row [outer, 1, inner] of x [outer, n, inner], as a product with ones for all but small blocks."""
    outer, n, inner = x.shape
    if x.size <= _SMALL:
        return np.asarray(np.add.reduce(x, axis=1, keepdims=True))
    if inner == 1:
        rows = x.reshape(outer, n)
        return row_sums(rows, ones_for(outer, n, x.dtype)).reshape(outer, 1, 1)
    if inner < _FEW and x.flags.c_contiguous:
        total = np.matmul(x.reshape(outer, n * inner), _every(n, inner, x.dtype))
        return np.asarray(total.reshape(outer, 1, inner))
    return np.asarray(np.matmul(np.ones((1, n), x.dtype), x))


def _every(n: int, inner: int, dtype: np.dtype[Any]) -> Array:
    """[n * inner, inner]: one where the position modulo *inner* is the column, else zero."""
    return np.tile(np.eye(inner, dtype=dtype), (n, 1))


def _scale_rows(out: Array, factor: Array) -> None:
    """Multiply the rows of out [outer, n, inner] by finite factors [outer, 1, inner]."""
    outer, n, inner = out.shape
    if 1 < inner < _FEW and out.size > _SMALL and out.flags.c_contiguous:
        spread = np.matmul(factor.reshape(outer, inner), _every(n, inner, out.dtype).T)
        flat = out.reshape(outer, n * inner)
        np.multiply(flat, spread, flat)
    else:
        np.multiply(out, factor, out)


def _without_maximum(x: Array, out: Array) -> bool:
    """The softmax of x [outer, n, inner] where exp(x) itself neither overflows nor vanishes; else False.

    That spares the rows' maxima, which would be most of the time. Sums far from both ends of float32 show that exp has
    lost neither digits nor all of a row.
    """
    powers = np.empty_like(x) if np.may_share_memory(x, out) else out
    np.exp(x, powers)
    total = _totals(powers)
    if not (total.min() >= _LEAST and total.max() <= _LARGEST):
        return False
    np.reciprocal(total, total)
    if powers is out:
        _scale_rows(out, total)
    else:
        np.multiply(powers, total, out)
    return True


def softmax(x: Array, out: Array) -> None:
    """exp(x - max) / sum along the middle axis of x [outer, n, inner], which may be *out*.

    Both are a block of one type, float32 or float64.
    """
    if x.size > _SMALL:
        if _without_maximum(x, out):
            return
        np.subtract(x, _tops(x), out)
        np.exp(out, out)
        np.divide(out, _totals(out), out)
        return
    np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True), out)
    np.exp(out, out)
    np.divide(out, np.add.reduce(out, axis=1, keepdims=True), out)


def softmax_in_steps(x: Array, out: Array) -> None:
    """The softmax of x [outer, n, inner], float16 or bfloat16, rounded after each step as the operator's function is.

    Long rows are added up in float32: narrow sums stop growing. https://onnx.ai/onnx/operators/onnx__Softmax.html
    """
    narrow = x.dtype
    wide = x.astype(np.float32)
    np.subtract(wide, _tops(wide), wide)
    wide = wide.astype(narrow).astype(np.float32)
    powers = np.exp(wide, wide).astype(narrow)
    wide = powers.astype(np.float32)
    few = x.shape[1] <= _FEW
    total = np.add.reduce(powers, axis=1, keepdims=True) if few else _totals(wide).astype(narrow)
    np.divide(wide, total.astype(np.float32), wide)
    np.copyto(out, wide, casting="unsafe")


def exponential_sums(x: Array, powers: Array) -> tuple[Array, Array]:
    """Each row's maximum and the logarithm of the sum of exp(x - maximum), both [outer, 1, inner].

    Args:
        x: A block [outer, n, inner] of float32 or float64.
        powers: Scratch that looks like it.
    """
    top = _tops(x)
    np.subtract(x, top, powers)
    np.exp(powers, powers)
    total = _totals(powers)
    return top, np.log(total, total)


def log_softmax(x: Array, out: Array) -> None:
    """X - max - log(sum(exp(x - max))) along the middle axis of x [outer, n, inner], which may be *out*."""
    top = _tops(x)
    np.subtract(x, top, out)
    total = _totals(np.exp(out))
    np.subtract(out, np.log(total, total), out)


def log_softmax_at_once(x: Array, out: Array) -> None:
    """The same for float16 and bfloat16, rounded once."""
    wide = x.astype(np.float32)
    log_softmax(wide, wide)
    np.copyto(out, wide, casting="unsafe")


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

    def rows(self, x: Array) -> Shape3:
        """*x* as [outer, n, inner], with the rows along n."""
        shape = x.shape
        if not shape:
            return (1, 1, 1)
        axis = self._axis % x.ndim if self._axis < x.ndim else x.ndim
        if self._flattens:
            return (math.prod(shape[:axis]), math.prod(shape[axis:]), 1)
        return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


@register("Softmax", since_version=1)
class Softmax(_AlongAxis):
    """The exponentials of a row divided by their sum."""

    in_place: ClassVar[tuple[int, ...]] = (0,)
    formula = staticmethod(softmax)
    narrow_formula = staticmethod(softmax_in_steps)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        shape = self.rows(inputs[0])
        x, y = inputs[0].reshape(shape), outputs[0].reshape(shape)
        if not x.size:
            return
        formula = self.formula if x.dtype == row_type(x.dtype) else self.narrow_formula
        if x.size <= _SMALL:
            formula(x, y)
            return

        def work() -> None:
            for block in row_blocks(shape):
                formula(x[block], y[block])

        unbuffered(work, x.size)


@register("LogSoftmax", since_version=1)
class LogSoftmax(Softmax):
    """The logarithm of the softmax."""

    formula = staticmethod(log_softmax)
    narrow_formula = staticmethod(log_softmax_at_once)


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
