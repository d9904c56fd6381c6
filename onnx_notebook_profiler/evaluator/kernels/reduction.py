"""The ten reductions, with axes from an attribute or, in later opsets, from an input.

float16 and bfloat16 are reduced in float32 and rounded once; integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT64,
    INT64,
    integers,
    normalized_axes,
    operands,
    signature,
    truncated_divide,
    work_type,
)
from onnx_notebook_profiler.evaluator.kernels._sums import add_rows, add_squares, rows_of
from onnx_notebook_profiler.evaluator.registry import register

Axes = tuple[int, ...]
Reduce = Callable[[Array, Axes, bool, Array], None]


def _reduced(
    ufunc: np.ufunc, x: Array, axes: Axes, keep: bool, dtype: np.dtype[Any] | None = None
) -> Array:
    """A fresh array: *ufunc* over *axes* of *x*, computed in *dtype*."""
    reduce: Any = ufunc.reduce
    return np.asarray(reduce(x, axis=axes, dtype=dtype, keepdims=keep))


def _folded(ufunc: np.ufunc, x: Array, axes: Axes, keep: bool, out: Array) -> None:
    """Fill *out* with *ufunc* over *axes* of *x*, in the wider of its and the output's type."""
    wide = work_type(x.dtype)
    if wide == out.dtype:
        ufunc.reduce(x, axis=axes, dtype=wide, out=out, keepdims=keep)
    else:
        np.copyto(out, _reduced(ufunc, x, axes, keep, wide), casting="unsafe")


def _real(x: Array) -> Array:
    """For formulas with roots and logarithms: integers as float64, narrow floats as float32."""
    wide = FLOAT64 if x.dtype.kind in "iu" else work_type(x.dtype)
    return x.astype(wide, copy=False)


def _widened(x: Array) -> Array:
    return x.astype(work_type(x.dtype), copy=False)


def _sum(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    rows = rows_of(x, axes)
    if rows is not None:
        add_rows(rows, out.reshape(-1))
    else:
        _folded(np.add, x, axes, keep, out)


def _prod(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    _folded(np.multiply, x, axes, keep, out)


def _l1(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    _folded(np.add, np.absolute(_widened(x)), axes, keep, out)


def _sum_square(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    rows = rows_of(x, axes)
    if rows is not None:
        add_squares(rows, out.reshape(-1))
    else:
        _folded(np.add, np.square(_widened(x)), axes, keep, out)


def _max(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    np.maximum.reduce(x, axis=axes, out=out, keepdims=keep)


def _min(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    np.minimum.reduce(x, axis=axes, out=out, keepdims=keep)


def _mean(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    count = x.size // out.size
    rows = rows_of(x, axes)
    if rows is not None:
        add_rows(rows, out.reshape(-1))
        np.divide(out, count, out)
        return
    if x.dtype.kind in "iu":
        wide = np.dtype(np.uint64) if x.dtype.kind == "u" else INT64
        total = _reduced(np.add, x, axes, keep, wide)
        mean = np.empty_like(total)
        truncated_divide(total, count, mean)
    else:
        total = _reduced(np.add, x, axes, keep, work_type(x.dtype))
        mean = np.divide(total, count, out=total)
    np.copyto(out, mean, casting="unsafe")


def _l2(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    rows = rows_of(x, axes)
    if rows is not None:
        add_squares(rows, out.reshape(-1))
        np.sqrt(out, out)
        return
    total = _reduced(np.add, np.square(_real(x)), axes, keep)
    np.copyto(out, np.sqrt(total), casting="unsafe")


def _log_sum(x: Array, axes: Axes, keep: bool, out: Array) -> None:
    total = _reduced(np.add, _real(x), axes, keep)
    np.copyto(out, np.log(total), casting="unsafe")


def _log_sum_exp(x: Array, axes: Axes, _: bool, out: Array) -> None:
    """The largest element is taken out of the sum, so that no exponential overflows."""
    real = _real(x)
    top = _reduced(np.maximum, real, axes, keep=True)
    top[~np.isfinite(top)] = 0
    total = _reduced(np.add, np.exp(real - top), axes, keep=True)
    np.copyto(out, (np.log(total) + top).reshape(out.shape), casting="unsafe")


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _minus_infinity(dtype: np.dtype[Any]) -> Any:
    """The logarithm of an empty sum; integers have none, and get 0."""
    return 0 if dtype.kind in "iu" else -np.inf


def _not_a_number(dtype: np.dtype[Any]) -> Any:
    """The mean of nothing, which the specification leaves open."""
    return 0 if dtype.kind in "iu" else np.nan


def _zero(_: np.dtype[Any]) -> Any:
    return 0


def _one(_: np.dtype[Any]) -> Any:
    return 1


# operator: how it reduces, and what an empty set of values gives
_REDUCTIONS: Final[Mapping[str, tuple[Reduce, Callable[[np.dtype[Any]], Any]]]] = {
    "ReduceL1": (_l1, _zero),
    "ReduceL2": (_l2, _zero),
    "ReduceLogSum": (_log_sum, _minus_infinity),
    "ReduceLogSumExp": (_log_sum_exp, _minus_infinity),
    "ReduceMax": (_max, _lowest),
    "ReduceMean": (_mean, _not_a_number),
    "ReduceMin": (_min, _highest),
    "ReduceProd": (_prod, _one),
    "ReduceSum": (_sum, _zero),
    "ReduceSumSquare": (_sum_square, _zero),
}


_REMEMBERED = 64


class Reduction(Kernel):
    """Reduces over some axes, over all, or with ``noop_with_empty_axes`` over none."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._reduce, self._empty = _REDUCTIONS[spec.op_type]
        self._given: list[int] | None = spec.attributes.get("axes")
        self._keep = bool(spec.attributes.get("keepdims", 1))
        self._known: dict[Any, Axes] = {}
        self._noop = bool(spec.attributes.get("noop_with_empty_axes", 0))

    def _axes(self, inputs: Sequence[Array | None], rank: int) -> Axes:
        """The axes to reduce over; remembered for the last few inputs."""
        key = (rank, signature(inputs, 1))
        axes = self._known.get(key)
        if axes is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            given = integers(inputs, 1) or self._given
            unnamed = () if self._noop else tuple(range(rank))
            axes = normalized_axes(self.spec, given, rank) if given else unnamed
            self._known[key] = axes
        return axes

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape, with 1 or nothing in place of the reduced dimensions."""
        x = operands(self.spec, inputs, 1)[0]
        axes = frozenset(self._axes(inputs, x.ndim))
        if self._keep:
            shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        else:
            shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Reduce; of an empty tensor each result is that of an empty set."""
        x, out = inputs[0], outputs[0]
        if x.size == 0:
            out.fill(self._empty(out.dtype))
        else:
            self._reduce(x, self._axes(inputs, x.ndim), self._keep, out)


for _name in _REDUCTIONS:
    register(_name, since_version=1)(Reduction)
