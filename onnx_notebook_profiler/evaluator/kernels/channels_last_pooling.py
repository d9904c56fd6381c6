"""Pools over X [N, D1, ..., C], with the channels last: NhwcMaxPool of com.microsoft and those of com.ms.internal.nhwc.

ContribOperators.md of onnxruntime, and https://onnx.ai/onnx/operators/onnx__MaxPool.html for what they compute. Scratch
as for the pools with channels second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._fused_activations import fused_activation
from onnx_notebook_profiler.evaluator.kernels._shared import BFLOAT16, FLOAT32, operands
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, pool_windows, with_channels
from onnx_notebook_profiler.evaluator.kernels.pooling import fold_largest, fold_means
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "ChannelsLastAveragePool",
    "ChannelsLastGlobalAveragePool",
    "ChannelsLastGlobalMaxPool",
    "ChannelsLastMaxPool",
]

_NHWC: Final = "com.ms.internal.nhwc"


class _Pool(Kernel):
    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._activate = fused_activation(spec)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The windows in place of the spatial axes."""
        x = operands(self.spec, inputs, 1)[0]
        self._check(x.dtype)
        return (
            TensorSpec(
                (x.shape[0], *pool_windows(self.spec, x, channels_last=True).counts, x.shape[-1]),
                x.dtype,
            ),
        )

    def _check(self, dtype: np.dtype[Any]) -> None:
        if dtype.char not in "efd" and dtype != BFLOAT16:
            raise UnsupportedOperatorError(f"{self.spec.op_type} is for floats, got {dtype}")

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fold the windows, with the channels as one more axis."""
        x, y = inputs[0], outputs[0]
        if y.size:
            self._fold(
                x, y, with_channels(pool_windows(self.spec, x, channels_last=True), x.shape[-1])
            )
            if self._activate is not None:
                self._activate(y)

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        raise NotImplementedError


@register("NhwcMaxPool", since_version=1, domain="com.microsoft")
@register("MaxPool", since_version=1, domain=_NHWC)
class ChannelsLastMaxPool(_Pool):
    """The largest value of each window."""

    def _check(self, dtype: np.dtype[Any]) -> None:
        if any(self.spec.wanted[1:]):
            raise UnsupportedOperatorError(f"{self.spec.op_type} with Indices")
        if dtype.kind not in "fiu" and dtype != BFLOAT16:
            raise UnsupportedOperatorError(f"{self.spec.op_type} is for numbers, got {dtype}")

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        fold_largest(x, y, windows)


@register("AveragePool", since_version=7, domain=_NHWC)
class ChannelsLastAveragePool(_Pool):
    """The mean of each window; float16 and bfloat16 are added up in float32."""

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        fold_means(x, y, windows, padding=bool(self.spec.attributes.get("count_include_pad", 0)))


class _GlobalPool(Kernel):
    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Every spatial axis becomes 1."""
        x = operands(self.spec, inputs, 1)[0]
        if x.ndim < 3:
            raise ValueError(f"{self.spec.op_type} expects X [N, D1, ..., C], got shape {x.shape}")
        return (TensorSpec((x.shape[0], *[1] * (x.ndim - 2), x.shape[-1]), x.dtype),)


@register("GlobalAveragePool", since_version=1, domain=_NHWC)
class ChannelsLastGlobalAveragePool(_GlobalPool):
    """The mean over all places."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One sum; float16 and bfloat16 are added up in float32."""
        x, y = inputs[0], outputs[0]
        axes = tuple(range(1, x.ndim - 1))
        wide = y.dtype if y.dtype.char in "fd" else FLOAT32
        total = np.add.reduce(x, axis=axes, dtype=wide, keepdims=True)
        np.copyto(y, total / wide.type(math.prod(x.shape[1:-1])), casting="unsafe")


@register("GlobalMaxPool", since_version=1, domain=_NHWC)
class ChannelsLastGlobalMaxPool(_GlobalPool):
    """The largest value over all places."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One reduction, into the output."""
        x = inputs[0]
        np.maximum.reduce(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True, out=outputs[0])
