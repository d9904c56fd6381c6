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


def _positions(size: int, padding: _Padding, mode: str) -> Array:
    """Which of *size* elements each padded position repeats; *padding* cuts nothing off."""
    place = np.arange(-padding.before, size + padding.after)
    if mode == "edge":
        return np.clip(place, 0, size - 1)
    if mode == "wrap":
        return place % size
    period = max(2 * (size - 1), 1)
    place %= period
    return np.minimum(place, period - place) if size > 1 else place


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
        """Cut first; then copy into a filled output, or repeat dimension by dimension."""
        x, out = inputs[0], outputs[0]
        paddings = self._paddings(x.ndim, inputs)
        kept = x[
            tuple(
                slice(max(-padding.before, 0), size - max(-padding.after, 0))
                for size, padding in zip(x.shape, paddings, strict=True)
            )
        ]
        added = [_Padding(max(padding.before, 0), max(padding.after, 0)) for padding in paddings]
        if self._mode == "constant":
            np.copyto(out, self._constant(inputs, out.dtype))
            inner = tuple(
                slice(padding.before, padding.before + size)
                for padding, size in zip(added, kept.shape, strict=True)
            )
            np.copyto(out[inner], kept)
            return
        for axis, padding in enumerate(added):
            if padding.before or padding.after:
                positions = _positions(kept.shape[axis], padding, self._mode)
                kept = kept.take(positions, axis=axis)
        np.copyto(out, kept)

    def _constant(self, inputs: Sequence[Any], dtype: np.dtype[Any]) -> Any:
        if len(inputs) > 2 and inputs[2] is not None:
            return inputs[2].reshape(())
        if dtype.kind == "O":
            return ""
        value: float = self.spec.attributes.get("value", 0)
        return np.asarray(value).astype(dtype)
