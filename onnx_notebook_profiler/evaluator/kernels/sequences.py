"""Sequences: lists of tensors, made, read, changed, joined and split.

https://onnx.ai/onnx/operators/ (Sequence..., ConcatFromSequence, SplitToSequence). An element that a result shares with
an input is copied when the result is adopted: every value has bytes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel
from onnx_notebook_profiler.evaluator.kernels._shared import INT64, normalized_axis
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
]


def _place(inputs: Sequence[Any], position: int, count: int, *, beyond: int = 0) -> int:
    """A position in a sequence of *count* elements, from the front; without the input the last one.

    Raises:
        ValueError: There is no such position.
    """
    given = inputs[position] if position < len(inputs) else None
    if given is None:
        return count - 1 + beyond
    place = int(given.reshape(-1)[0])
    if not -count <= place < count + beyond:
        raise ValueError(f"position {place} does not exist in a sequence of {count}")
    return place + count if place < 0 else place


@register("SequenceConstruct", since_version=11)
class SequenceConstruct(AdoptingKernel):
    """The inputs, as a sequence."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """A list of all."""
        return [list(inputs)]


@register("SequenceEmpty", since_version=11)
class SequenceEmpty(AdoptingKernel):
    """No elements."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:  # noqa: ARG002 - there are none
        """An empty list."""
        assert int(self.spec.attributes.get("dtype", TensorProto.FLOAT)) != TensorProto.UNDEFINED
        return [[]]


@register("SequenceLength", since_version=11)
class SequenceLength(AdoptingKernel):
    """The number of elements, int64 []."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Count."""
        return [np.array(len(inputs[0]), INT64)]


@register("SequenceAt", since_version=11)
class SequenceAt(AdoptingKernel):
    """One element."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Pick; negative positions count from the end."""
        return [inputs[0][_place(inputs, 1, len(inputs[0]))]]


@register("SequenceErase", since_version=11)
class SequenceErase(AdoptingKernel):
    """All but one element, by default the last."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """A list without it."""
        elements = list(inputs[0])
        del elements[_place(inputs, 1, len(elements))]
        return [elements]


@register("SequenceInsert", since_version=11)
class SequenceInsert(AdoptingKernel):
    """One more element, by default at the end."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """A list with it."""
        elements = list(inputs[0])
        elements.insert(_place(inputs, 2, len(elements), beyond=1), inputs[1])
        return [elements]


@register("ConcatFromSequence", since_version=11)
class ConcatFromSequence(AdoptingKernel):
    """The elements one after the other along an axis, or stacked along a new one."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """One new tensor."""
        elements = inputs[0]
        if not elements:
            raise ValueError(
                "ConcatFromSequence expects one element or more, got an empty sequence"
            )
        axis = int(self.spec.attributes["axis"])
        if self.spec.attributes.get("new_axis", 0):
            return [np.stack(elements, axis=axis)]
        return [np.concatenate(elements, axis=axis)]


@register("SplitToSequence", since_version=11)
class SplitToSequence(AdoptingKernel):
    """Pieces along an axis: of one length, of listed lengths, or single slices whose axis ``keepdims`` 0 takes away."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """A copy of each piece."""
        x, split = inputs[0], inputs[1] if len(inputs) > 1 else None
        axis = normalized_axis(self.spec, int(self.spec.attributes.get("axis", 0)), x.ndim)
        size = x.shape[axis]
        if split is None:
            lengths = [1] * size
        elif split.ndim == 0:
            piece = int(split)
            if piece < 1:
                raise ValueError(f"a piece has length 1 or more, got {piece}")
            lengths = [min(piece, size - start) for start in range(0, size, piece)]
        else:
            lengths = [int(one) for one in split.tolist()]
            if sum(lengths) != size or min(lengths, default=0) < 0:
                raise ValueError(f"pieces of {lengths} do not make up the {size} of axis {axis}")
        pieces, start = [], 0
        for length in lengths:
            piece_of = (*[slice(None)] * axis, slice(start, start + length))
            pieces.append(np.array(x[piece_of], order="C"))
            start += length
        if split is None and not self.spec.attributes.get("keepdims", 1):
            pieces = [piece.squeeze(axis).copy() for piece in pieces]
        return [pieces]
