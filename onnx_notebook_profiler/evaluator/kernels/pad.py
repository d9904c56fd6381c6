"""Pad, in all its modes; a negative number of elements is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import integers, normalized_axes, operands
from onnx_notebook_profiler.evaluator.registry import register

_MODES = ("constant", "reflect", "edge", "wrap")


class _Padding(NamedTuple):
    """Elements to add before and after one dimension; fewer than none are cut off."""

    before: int
    after: int


def _source(inner: slice, border: slice, mode: str) -> slice | Array:
    """What of an axis stands in its *border*, given what is *inner*: one slice, unless the border is the longer one."""
    first, stop = inner.start, inner.stop
    count, size, in_front = border.stop - border.start, stop - first, border.start < first
    if mode == "edge":
        return slice(first, first + 1) if in_front else slice(stop - 1, stop)
    if mode == "wrap" and count <= size:
        return slice(stop - count, stop) if in_front else slice(first, first + count)
    if mode == "reflect" and count < size:
        if in_front:
            return slice(first + count, first, -1)
        end = stop - 2 - count
        return slice(stop - 2, end if end >= 0 else None, -1)
    places = np.arange(border.start - first, border.stop - first)
    if mode == "wrap":
        places %= size
    else:
        period = max(2 * (size - 1), 1)
        places %= period
        places = np.minimum(places, period - places) % size
    return np.asarray(places + first)


@register("Pad", since_version=1)
class Pad(Kernel):
    """Adds elements around a tensor: a constant, its edge, its mirror image, or itself."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 3)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._mode = spec.attributes.get("mode", "constant")
        if self._mode not in _MODES:
            raise ValueError(f"Pad expects one of the modes {_MODES}, got {self._mode!r}")
        self._given: list[int] | None = spec.attributes.get("pads", spec.attributes.get("paddings"))

    def _paddings(self, rank: int, inputs: Sequence[Array | None]) -> list[_Padding]:
        pads = integers(inputs, 1) if self._given is None else self._given
        if pads is None:
            raise ValueError("Pad needs pads, as second input or as attribute")
        listed = integers(inputs, 3)
        axes = range(rank) if listed is None else normalized_axes(self.spec, listed, rank)
        if len(pads) != 2 * len(axes):
            raise ValueError(f"Pad expects {2 * len(axes)} pads for these axes, got {len(pads)}")
        result = [_Padding(0, 0)] * rank
        for position, axis in enumerate(axes):
            result[axis] = _Padding(pads[position], pads[position + len(axes)])
        return result

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Each dimension plus what is added on its two sides."""
        x = operands(self.spec, inputs, 1)[0]
        value = inputs[2] if len(inputs) > 2 else None
        if value is not None and value.size != 1:
            raise ValueError(f"Pad expects a scalar constant, got shape {value.shape}")
        shape = []
        for size, padding in zip(x.shape, self._paddings(x.ndim, inputs), strict=True):
            kept = size + min(padding.before, 0) + min(padding.after, 0)
            added = max(padding.before, 0) + max(padding.after, 0)
            if kept < 0:
                raise ValueError(f"Pad cuts more than the {size} elements that there are")
            if kept == 0 and added and self._mode != "constant":
                raise ValueError(f"Pad in mode {self._mode} has no element to repeat")
            shape.append(kept + added)
        return (TensorSpec(tuple(shape), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Cut and copy, then fill the borders axis by axis, from the last one on, out of what is there."""
        x, out = inputs[0], outputs[0]
        paddings = self._paddings(x.ndim, inputs)
        value = self._constant(inputs, out.dtype) if self._mode == "constant" else None
        source, region = [], []
        for size, padding in zip(x.shape, paddings, strict=True):
            cut, stop = max(-padding.before, 0), size - max(-padding.after, 0)
            first = max(padding.before, 0)
            source.append(slice(cut, stop))
            region.append(slice(first, first + stop - cut))
        np.copyto(out[tuple(region)], x[tuple(source)])
        for axis in reversed(range(x.ndim)):
            self._fill(out, region, axis, value)
            region[axis] = slice(None)

    def _fill(self, out: Array, region: list[slice], axis: int, value: Any) -> None:
        """Both borders along *axis*; *region* is what other axes have so far, and what is inside along this one."""
        inner = region[axis]
        front, behind = tuple(region[:axis]), tuple(region[axis + 1 :])
        for border in (slice(0, inner.start), slice(inner.stop, out.shape[axis])):
            if border.start == border.stop:
                continue
            target = out[(*front, border, *behind)]
            if value is not None:
                np.copyto(target, value)
                continue
            target[...] = out[(*front, _source(inner, border, self._mode), *behind)]

    def _constant(self, inputs: Sequence[Any], dtype: np.dtype[Any]) -> Any:
        if len(inputs) > 2 and inputs[2] is not None:
            return inputs[2].reshape(())
        if dtype.kind == "O":
            return ""
        value: float = self.spec.attributes.get("value", 0)
        return np.asarray(value).astype(dtype)
