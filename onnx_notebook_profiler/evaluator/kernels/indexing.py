"""Gather, GatherElements, GatherND, Scatter, ScatterElements and ScatterND.

All index a flat or two-dimensional view of the data by positions in it. Scratch: the positions; where floats narrower
than float32 are combined, the whole output in float32, which is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    normalized_axis,
    operands,
    same_type,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register

_FEW: Final = 64
_COMBINE: Final[Mapping[str, np.ufunc | None]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "none": None,
}


def check_indices(spec: NodeSpec, indices: Array, size: int, axis: int) -> None:
    """Whether all *indices* lie in a dimension of *size*, counted from either end.

    Raises:
        ValueError: One does not; the message names it and the dimension.
    """
    if indices.size == 0:
        return
    if indices.size <= _FEW:  # small lists are faster than two reductions
        listed = indices.reshape(-1).tolist()
        low, high = min(listed), max(listed)
    else:
        low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        raise ValueError(
            f"{spec.op_type}: index {low if low < -size else high} is out of range "
            f"for dimension {axis}, which has {size} elements"
        )


def _from_front(indices: Array, size: int) -> Array:
    """A fresh array of *indices*, negative ones counted from the end."""
    result = indices.astype(np.intp)
    np.add(result, size, result, where=result < 0)
    return result


def _element_positions(spec: NodeSpec, shape: tuple[int, ...], indices: Array, axis: int) -> Array:
    """Where in the flat data each entry of *indices* points to: it moves along *axis* only."""
    check_indices(spec, indices, shape[axis], axis)
    positions = _from_front(indices, shape[axis])
    positions *= math.prod(shape[axis + 1 :])
    for other, size in enumerate(indices.shape):
        if other != axis:
            steps = np.arange(size) * math.prod(shape[other + 1 :])
            positions += steps.reshape((-1,) + (1,) * (indices.ndim - other - 1))
    return positions


def _row_positions(spec: NodeSpec, shape: tuple[int, ...], indices: Array, first: int = 0) -> Array:
    """Which row each index tuple means: the last axis of *indices* runs over dimensions of *shape*.

    The first *first* dimensions of both are counted along, not looked up.
    """
    width = indices.shape[-1]
    positions = np.zeros(indices.shape[:-1], np.intp)
    for column in range(width):
        size = shape[first + column]
        check_indices(spec, indices[..., column], size, first + column)
        positions *= size
        positions += _from_front(indices[..., column], size)
    if first:
        batches = np.arange(math.prod(shape[:first])) * math.prod(shape[first : first + width])
        positions += batches.reshape(shape[:first] + (1,) * (positions.ndim - first))
    return positions


@register("Gather", since_version=1)
class Gather(Kernel):
    """Slices along an axis, in the order of the indices."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis: int = spec.attributes.get("axis", 0)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The indices' shape in place of the axis."""
        data, indices = operands(self.spec, inputs, 2)
        axis = normalized_axis(self.spec, self._axis, data.ndim)
        shape = data.shape[:axis] + indices.shape + data.shape[axis + 1 :]
        return (TensorSpec(shape, data.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call: numpy counts checked negative indices from the end when it wraps them."""
        data, indices = inputs[0], inputs[1]
        axis = self._axis % data.ndim
        check_indices(self.spec, indices, data.shape[axis], axis)
        np.take(data, indices, axis=axis, out=outputs[0], mode="wrap")


@register("GatherElements", since_version=11)
class GatherElements(Kernel):
    """Single elements, each moved along one axis by its index."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis: int = spec.attributes.get("axis", 0)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The indices' shape."""
        data, indices = operands(self.spec, inputs, 2)
        axis = normalized_axis(self.spec, self._axis, data.ndim)
        _check_cover(self.spec, data.shape, indices.shape, axis)
        return (TensorSpec(indices.shape, data.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Take from the flat data."""
        data, indices = inputs[0], inputs[1]
        positions = _element_positions(self.spec, data.shape, indices, self._axis % data.ndim)
        np.take(data.reshape(-1), positions, out=outputs[0], mode="wrap")


def _check_cover(
    spec: NodeSpec, data: tuple[int, ...], indices: tuple[int, ...], axis: int
) -> None:
    """Whether every entry of the indices has its place in the data.

    Raises:
        ValueError: The ranks differ, or the indices reach beyond the data in another dimension.
    """
    if len(data) != len(indices) or any(
        wanted > size
        for other, (size, wanted) in enumerate(zip(data, indices, strict=True))
        if other != axis
    ):
        raise ValueError(f"{spec.op_type}: indices of shape {indices} do not fit data of {data}")


@register("GatherND", since_version=11)
class GatherND(Kernel):
    """Elements or slices at index tuples, within each of the leading batch dimensions."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._batch: int = spec.attributes.get("batch_dims", 0)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The indices' shape without its last size, and the dimensions that no tuple reaches."""
        data, indices = operands(self.spec, inputs, 2)
        batch = self._batch
        if not 0 <= batch < min(data.ndim, indices.ndim):
            raise ValueError(
                f"GatherND: batch_dims {batch} does not fit data of shape {data.shape} "
                f"and indices of {indices.shape}"
            )
        width = indices.shape[-1]
        if data.shape[:batch] != indices.shape[:batch] or not 1 <= width <= data.ndim - batch:
            raise ValueError(
                f"GatherND: indices of shape {indices.shape} do not fit data of {data.shape}"
            )
        return (TensorSpec(indices.shape[:-1] + data.shape[batch + width :], data.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Take rows of the data as a matrix: one row for each tuple that can be."""
        data, indices, out = inputs[0], inputs[1], outputs[0]
        split = self._batch + indices.shape[-1]
        rows = _row_positions(self.spec, data.shape, indices, self._batch).reshape(-1)
        if out.size == 0:
            return
        width = math.prod(data.shape[split:])
        np.take(data.reshape(-1, width), rows, axis=0, out=out.reshape(-1, width), mode="wrap")


class _Scatter(Kernel):
    """A copy of the data with some elements replaced by, or combined with, updates."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        reduction = spec.attributes.get("reduction", "none")
        if reduction not in _COMBINE:
            raise ValueError(
                f"{spec.op_type} knows the reductions {sorted(_COMBINE)}, got {reduction!r}"
            )
        self._combine = _COMBINE[reduction]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of the data."""
        data, indices, updates = operands(self.spec, inputs, 3)
        dtype = same_type(self.spec, (data, updates))
        if dtype.kind == "O" and self._combine is not None:
            raise ValueError(f"{self.spec.op_type} combines no strings")
        self.check(data.shape, indices.shape, updates.shape)
        return (TensorSpec(data.shape, dtype),)

    def check(
        self, data: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...]
    ) -> None:
        """Raise ValueError where the shapes do not fit."""
        raise NotImplementedError

    def put(self, target: Array, positions: Array, updates: Array) -> None:
        """Write *updates* to *positions* along the first axis of *target*."""
        if self._combine is None:
            target[positions] = updates
            return
        wide = work_type(target.dtype)
        if wide == target.dtype:
            self._combine.at(target, positions, updates)
            return
        total = target.astype(wide)
        self._combine.at(total, positions, updates.astype(wide))
        np.copyto(target, total, casting="unsafe")


@register("Scatter", since_version=9, until_version=11)
@register("ScatterElements", since_version=11)
class ScatterElements(_Scatter):
    """Single elements, each placed along one axis by its index."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis: int = spec.attributes.get("axis", 0)

    def check(
        self, data: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...]
    ) -> None:
        """Indices and updates have one shape, which the data covers."""
        axis = normalized_axis(self.spec, self._axis, len(data))
        _check_cover(self.spec, data, indices, axis)
        if updates != indices:
            raise ValueError(
                f"{self.spec.op_type}: updates of shape {updates} for indices of {indices}"
            )

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy, then write into the flat output."""
        data, indices, updates = inputs[:3]
        out = outputs[0]
        positions = _element_positions(self.spec, data.shape, indices, self._axis % data.ndim)
        np.copyto(out, data)
        self.put(out.reshape(-1), positions.reshape(-1), updates.reshape(-1))


@register("ScatterND", since_version=11)
class ScatterND(_Scatter):
    """Elements or slices, placed at index tuples."""

    def check(
        self, data: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...]
    ) -> None:
        """The updates have a slice of the data for each index tuple."""
        if not indices or indices[-1] > len(data):
            raise ValueError(f"ScatterND: indices of shape {indices} do not fit data of {data}")
        expected = indices[:-1] + data[indices[-1] :]
        if updates != expected:
            raise ValueError(f"ScatterND expects updates of shape {expected}, got {updates}")

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy, then write rows of the output as a matrix."""
        data, indices, updates = inputs[:3]
        out = outputs[0]
        rows = _row_positions(self.spec, data.shape, indices).reshape(-1)
        np.copyto(out, data)
        if updates.size:
            width = math.prod(data.shape[indices.shape[-1] :])
            self.put(out.reshape(-1, width), rows, updates.reshape(-1, width))
