"""Compress, NonZero and Unique: how much they return, only their data decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array
from onnx_notebook_profiler.evaluator.kernels._shared import INT64, normalized_axis, work_type
from onnx_notebook_profiler.evaluator.registry import register


@register("Compress", since_version=9)
class Compress(AdoptingKernel):
    """Slices along an axis, or elements of the flat input, where the condition is true."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """One array.

        Raises:
            ValueError: The condition is no vector, or true beyond the end.
        """
        x, condition = inputs[0], inputs[1]
        axis = self.spec.attributes.get("axis")
        if condition.ndim != 1:
            raise ValueError(f"Compress expects a vector of bool, got shape {condition.shape}")
        if axis is None:
            x, axis = x.reshape(-1), 0
        else:
            axis = normalized_axis(self.spec, axis, x.ndim)
        places = np.flatnonzero(condition)
        if places.size and places[-1] >= x.shape[axis]:
            raise ValueError(
                f"Compress: index {places[-1]} is out of range for dimension {axis}, "
                f"which has {x.shape[axis]} elements"
            )
        return (x.take(places, axis=axis),)


@register("NonZero", since_version=9)
class NonZero(AdoptingKernel):
    """Positions of the elements other than zero, one row for each dimension."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """One int64 array; a scalar has no dimensions and so no rows."""
        x = inputs[0]
        if x.ndim == 0:
            return (np.empty((0, int(bool(x))), INT64),)
        return (np.stack(np.nonzero(x)).astype(INT64, copy=False),)


@register("Unique", since_version=11)
class Unique(AdoptingKernel):
    """Distinct elements or slices, sorted or as they first appear, and how they map."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """Values, positions of their first appearance, places of the input's, and counts."""
        x = inputs[0]
        axis = self.spec.attributes.get("axis")
        if axis is not None:
            axis = normalized_axis(self.spec, axis, x.ndim)
        source = (
            x.astype(np.str_) if x.dtype.kind == "O" else x.astype(work_type(x.dtype), copy=False)
        )
        _, first, inverse, counts = np.unique(
            source, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        inverse = inverse.reshape(-1)
        if not self.spec.attributes.get("sorted", 1):
            order = np.argsort(first)
            first, counts = first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        values = (x.reshape(-1) if axis is None else x).take(first, axis=axis or 0)
        found = (values, first, inverse, counts)
        results = [values, *(array.astype(INT64, copy=False) for array in found[1:])]
        return results[: len(self.spec.wanted)]
