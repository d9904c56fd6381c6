"""TopK: the k greatest or least elements along an axis, with their positions; X [..., n, ...] -> [..., k, ...].

https://onnx.ai/onnx/operators/onnx__TopK.html. Of equal elements the first comes first; NaN counts as greater than any
number. Rows are partitioned, then the chosen part is sorted. Scratch: positions of a block of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import INT64, normalized_axis, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["TopK"]

_BLOCK: Final = 2**18
_K_AS_INPUT: Final = 10
_SHORT: Final = 64
"""A row of so many elements is sorted as a whole."""


@register("TopK", since_version=1)
class TopK(Kernel):
    """Values and Indices; before opset 10 ``k`` is an attribute, before 11 only the greatest, sorted."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._axis = int(attributes.get("axis", -1))
        self._largest = bool(attributes.get("largest", 1))
        self._sorted = bool(attributes.get("sorted", 1))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """K in the place of the axis' length."""
        (x,) = operands(self.spec, inputs, 1)
        if self.spec.opset < _K_AS_INPUT:
            k = int(self.spec.attributes["k"])
        else:
            given = operands(self.spec, inputs, 2)[1]
            if given.size != 1:
                raise ValueError(f"TopK expects one number k, got {given.size}")
            k = int(given.reshape(-1)[0])
        axis = normalized_axis(self.spec, self._axis, x.ndim)
        if not 0 <= k <= x.shape[axis]:
            raise ValueError(f"TopK: k is {k}, axis {axis} has {x.shape[axis]} elements")
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return (TensorSpec(shape, x.dtype), TensorSpec(shape, INT64))[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Blocks of rows."""
        x = inputs[0]
        axis = self._axis % x.ndim
        made = outputs[0] if outputs[0] is not None else outputs[1]
        rows, k = np.moveaxis(x, axis, -1), made.shape[axis]
        targets = [
            None if one is None else np.moveaxis(one, axis, -1) for one in [*outputs, None][:2]
        ]
        if not made.size:
            return
        flat = rows.reshape(-1, rows.shape[-1])
        height = max(1, _BLOCK // rows.shape[-1])
        parts = []
        for start in range(0, flat.shape[0], height):
            part = flat[start : start + height]
            parts.append(self._positions(part, k))
        positions = parts[0] if len(parts) == 1 else np.concatenate(parts)
        shape = (*rows.shape[:-1], k)
        if targets[0] is not None:
            targets[0][...] = np.take_along_axis(flat, positions, axis=1).reshape(shape)
        if targets[1] is not None:
            targets[1][...] = positions.reshape(shape)

    def _positions(self, x: Array, k: int) -> Array:
        """The positions [rows, k] of the chosen elements, in order."""
        keys = _ascending(x, largest=self._largest)
        rows, n = keys.shape
        if k == 1:
            first: Array = np.argmin(keys, axis=1, keepdims=True)
            return first
        if k < n and n > _SHORT:
            edge = np.partition(keys, k - 1, axis=1)[:, k - 1 : k]
            taken = keys <= edge
            if np.count_nonzero(taken) == rows * k:
                chosen = np.nonzero(taken)[1].reshape(rows, k)
            else:  # of the elements that equal the last chosen one some are left out
                chosen = _first_of_equals(keys, edge, k)
            order = np.argsort(np.take_along_axis(keys, chosen, axis=1), axis=1, kind="stable")
            return np.take_along_axis(chosen, order, axis=1)
        return np.argsort(keys, axis=1, kind="stable")[:, :k]


def _ascending(x: Array, *, largest: bool) -> Array:
    """Keys whose least come first, without NaN: x itself, or numbers that fall as x rises."""
    if x.dtype.kind in "iu":
        return np.invert(x) if largest else x
    if x.dtype.kind != "f":
        x = x.astype(np.float32)
    if np.isnan(x).any():
        keys = _ranks(x)
        return np.invert(keys) if largest else keys
    return -x if largest else x


def _ranks(x: Array) -> Array:
    """Integers in the order of the floats *x*, both zeros being 0 and NaN the greatest."""
    bits = (x + x.dtype.type(0)).view(f"i{x.itemsize}")  # -0.0 becomes 0.0
    most = np.iinfo(bits.dtype).max
    ranks: Array = np.where(bits < 0, np.bitwise_xor(bits, most), bits)
    ranks[np.isnan(x)] = most
    return ranks


def _first_of_equals(keys: Array, edge: Array, k: int) -> Array:
    """For each row the positions of all keys below *edge* and of the first that equal it, k in all, ascending."""
    below = keys < edge
    equal = keys == edge
    room = k - below.sum(axis=1, keepdims=True)
    taken = below | (equal & (np.cumsum(equal, axis=1) <= room))
    result: Array = np.nonzero(taken)[1].reshape(keys.shape[0], k)
    return result
