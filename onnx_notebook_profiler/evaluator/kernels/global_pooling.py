"""Pooling over all spatial axes: X [N, C, D1, D2, ...] -> Y [N, C, 1, 1, ...], whatever the rank.

https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, work_type
from onnx_notebook_profiler.evaluator.kernels._sums import add_rows, rows_of
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GlobalAveragePool", "GlobalMaxPool"]


class _GlobalPool(Kernel):
    def infer(self, inputs: Sequence[Any]) -> list[TensorSpec]:
        """Batch and channels stay, every spatial axis becomes 1."""
        (x,) = inputs
        if x.ndim < 2:
            raise ValueError(f"X has batch and channel axes first, so rank 2 or more, not {x.ndim}")
        return [TensorSpec((*x.shape[:2], *[1] * (x.ndim - 2)), x.dtype)]


@register("GlobalAveragePool", since_version=1)
class GlobalAveragePool(_GlobalPool):
    """Mean over the spatial axes."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One sum for each channel, divided by how many elements it has."""
        x, y = inputs[0], outputs[0]
        axes = tuple(range(2, x.ndim))
        rows = rows_of(x, axes)
        if rows is None:
            wide = work_type(y.dtype) if y.dtype.char != "e" else FLOAT32
            mean = np.add.reduce(x, axis=axes, dtype=wide, keepdims=True)
            np.copyto(y, mean / math.prod(x.shape[2:]), casting="unsafe")
            return
        add_rows(rows, y.reshape(-1))
        np.divide(y, rows.shape[1], y)


@register("GlobalMaxPool", since_version=1)
class GlobalMaxPool(_GlobalPool):
    """Maximum over the spatial axes."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One reduction, into the output."""
        axes = tuple(range(2, inputs[0].ndim))
        np.amax(inputs[0], axis=axes, keepdims=True, out=outputs[0])
