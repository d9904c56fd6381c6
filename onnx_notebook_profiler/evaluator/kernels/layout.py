"""Operators that place whole pieces of their inputs: Transpose, Expand, Tile, Concat, Split, Slice.

They work on elements of every type.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    integers,
    normalized_axes,
    normalized_axis,
    operands,
    same_type,
    signature,
)
from onnx_notebook_profiler.evaluator.kernels._turning import turn_of
from onnx_notebook_profiler.evaluator.registry import register


@register("Transpose", since_version=1)
class Transpose(Kernel):
    """Dimensions in another order, by default the reverse one."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._order: list[int] | None = spec.attributes.get("perm")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The dimensions in their new order."""
        x = operands(self.spec, inputs, 1)[0]
        order = self._order
        if order is None:
            return (TensorSpec(x.shape[::-1], x.dtype),)
        if len(order) != x.ndim or len(normalized_axes(self.spec, order, x.ndim)) != x.ndim:
            raise ValueError(f"Transpose: perm {order} does not order the shape {x.shape}")
        return (TensorSpec(tuple(x.shape[axis] for axis in order), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy a transposed view."""
        x = inputs[0]
        order = self._order
        places = range(x.ndim)[::-1] if order is None else [axis % x.ndim for axis in order]
        turn_of(x.shape, tuple(places), x.itemsize).copy(x, outputs[0])


@register("Expand", since_version=8)
class Expand(Kernel):
    """Repeats along dimensions of size 1, so that the result broadcasts with a given shape."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape to which the input's and the given one broadcast."""
        x = operands(self.spec, inputs, 2)[0]
        wanted = tuple(integers(inputs, 1) or ())
        try:
            shape = np.broadcast_shapes(x.shape, wanted)
        except ValueError as error:
            raise ValueError(f"Expand: the shapes {x.shape} and {wanted} do not fit") from error
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy; numpy repeats."""
        np.copyto(outputs[0], inputs[0])


@register("Tile", since_version=6)
class Tile(Kernel):
    """Copies side by side, as many along each dimension as the second input says."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Each dimension times its number of copies."""
        x = operands(self.spec, inputs, 2)[0]
        repeats = integers(inputs, 1) or []
        if len(repeats) != x.ndim or min(repeats, default=0) < 0:
            raise ValueError(f"Tile: repeats {repeats} do not fit the shape {x.shape}")
        shape = tuple(size * times for size, times in zip(x.shape, repeats, strict=True))
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Split each output dimension into (copies, size) and let numpy repeat over the former."""
        x, out = inputs[0], outputs[0]
        if out.size == 0:
            return
        repeats = integers(inputs, 1) or []
        pairs = [part for pair in zip(repeats, x.shape, strict=True) for part in pair]
        single = [part for size in x.shape for part in (1, size)]
        np.copyto(out.reshape(pairs), x.reshape(single))


@register("Concat", since_version=1)
class Concat(Kernel):
    """Tensors one after the other along an axis."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis: int = spec.attributes.get("axis", 1)  # the default of opset 1

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The sum of the sizes along the axis; all others are equal."""
        values = operands(self.spec, inputs, max(1, len(inputs)))
        dtype = same_type(self.spec, values)
        first = values[0].shape
        axis = normalized_axis(self.spec, self._axis, len(first))
        for value in values[1:]:
            shape = value.shape
            if len(shape) != len(first) or any(
                a != b for i, (a, b) in enumerate(zip(shape, first, strict=True)) if i != axis
            ):
                raise ValueError(f"Concat: the shapes {first} and {shape} do not fit at {axis}")
        total = sum(value.shape[axis] for value in values)
        return (TensorSpec((*first[:axis], total, *first[axis + 1 :]), dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call."""
        np.concatenate(inputs, axis=self._axis, out=outputs[0])


@register("Split", since_version=1)
class Split(Kernel):
    """Consecutive pieces along an axis: of given sizes, or as equal as can be."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axis: int = spec.attributes.get("axis", 0)
        self._given: list[int] | None = spec.attributes.get("split")
        self._uneven = "num_outputs" in spec.attributes
        self._count: int = spec.attributes.get("num_outputs", len(spec.wanted))
        if self._count < 1:
            raise ValueError(f"Split expects one output or more, got {self._count}")

    def _sizes(self, total: int, inputs: Sequence[Array | None]) -> list[int]:
        sizes = integers(inputs, 1)
        if sizes is None:
            sizes = self._given
        if sizes is None:
            if total % self._count and not self._uneven:
                raise ValueError(f"Split: {total} does not divide into {self._count} equal parts")
            largest = -(-total // self._count)
            starts = [min(total, largest * i) for i in range(self._count + 1)]
            sizes = [end - start for start, end in itertools.pairwise(starts)]
        if sum(sizes) != total or min(sizes, default=0) < 0 or len(sizes) < len(self.spec.wanted):
            raise ValueError(f"Split: the sizes {sizes} do not divide {total}")
        return sizes

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One output for each piece that the node names."""
        x = operands(self.spec, inputs, 1)[0]
        axis = normalized_axis(self.spec, self._axis, x.ndim)
        sizes = self._sizes(x.shape[axis], inputs)[: len(self.spec.wanted)]
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        return [TensorSpec((*before, size, *after), x.dtype) for size in sizes]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array | None]) -> None:
        """Copy each piece that has a buffer."""
        x = inputs[0]
        axis = self._axis % x.ndim
        before = (slice(None),) * axis
        start = 0
        for size, out in zip(self._sizes(x.shape[axis], inputs), outputs, strict=False):
            if out is not None:
                np.copyto(out, x[(*before, slice(start, start + size))])
            start += size


_REMEMBERED = 64


def _bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """First position and number of elements of a slice of *size*, clamped as the operator says."""
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        start, end = min(max(start, 0), size), min(max(end, 0), size)
        return start, max(0, -((start - end) // step))
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return start, max(0, -((end - start) // -step))


@register("Slice", since_version=1)
class Slice(Kernel):
    """A range with a step along some axes, from inputs or, before opset 10, from attributes."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._known: dict[Any, list[tuple[int, int, int]]] = {}

    def _index(
        self, shape: tuple[int, ...], inputs: Sequence[Array | None]
    ) -> list[tuple[int, int, int]]:
        """(first position, count, step) for each dimension; remembered for the last few inputs."""
        key = (shape, signature(inputs, 1))
        index = self._known.get(key)
        if index is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            index = self._known[key] = self._read(shape, inputs)
        return index

    def _read(
        self, shape: tuple[int, ...], inputs: Sequence[Array | None]
    ) -> list[tuple[int, int, int]]:
        found = self.spec.attributes
        starts = found.get("starts") if "starts" in found else integers(inputs, 1)
        ends = found.get("ends") if "ends" in found else integers(inputs, 2)
        axes = found.get("axes") if "axes" in found else integers(inputs, 3)
        if starts is None or ends is None:
            raise ValueError("Slice needs starts and ends")
        axes = range(len(starts)) if axes is None else axes
        steps = integers(inputs, 4) or [1] * len(starts)
        if not len(starts) == len(ends) == len(axes) == len(steps):
            raise ValueError(
                "Slice expects as many starts as ends, axes and steps, got "
                f"{len(starts)}, {len(ends)}, {len(axes)}, {len(steps)}"
            )
        index = [(0, size, 1) for size in shape]
        places = normalized_axes(self.spec, axes, len(shape))
        for axis, start, end, step in zip(places, starts, ends, steps, strict=True):
            if step == 0:
                raise ValueError(f"Slice: the step along axis {axis} is 0")
            index[axis] = (*_bounds(shape[axis], start, end, step), step)
        return index

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The number of positions taken along each dimension."""
        x = operands(self.spec, inputs, 1)[0]
        shape = tuple(count for _, count, _ in self._index(x.shape, inputs))
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy a strided view."""
        x, out = inputs[0], outputs[0]
        if out.size == 0:
            return
        pieces = []
        for start, count, step in self._index(x.shape, inputs):
            end = start + count * step
            pieces.append(slice(start, end if end >= 0 else None, step))
        np.copyto(out, x[tuple(pieces)])
