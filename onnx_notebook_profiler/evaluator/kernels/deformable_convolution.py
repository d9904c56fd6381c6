"""DeformConv: a convolution each tap of which is read at a place of its own, X [N, C, H, W] -> Y [N, M, OH, OW].

https://onnx.ai/onnx/operators/onnx__DeformConv.html; Dai et al., Deformable Convolutional Networks (2017). Taps are
sampled bilinearly into the columns of a matrix, a range of results at a time. Scratch: columns of 4 MiB, at
least those of one result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.kernels._windows import sliding
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["DeformConv"]

_ROOM: Final = 2**20
"""Numbers in the columns."""


@register("DeformConv", since_version=19)
class DeformConv(Kernel):
    """offset [N, groups * kh * kw * 2, OH, OW] moves each tap, mask [N, groups * kh * kw, OH, OW] weighs it."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._group = int(spec.attributes.get("group", 1))
        self._moves = int(spec.attributes.get("offset_group", 1))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As Conv."""
        x, w, offset = operands(self.spec, inputs, 3)
        if x.ndim != 4 or w.ndim != 4:
            raise UnsupportedOperatorError("DeformConv beyond two spatial axes")
        if (
            x.shape[1] != w.shape[1] * self._group
            or x.shape[1] % self._moves
            or w.shape[0] % self._group
        ):
            raise ValueError(
                f"DeformConv: X {list(x.shape)} and W {list(w.shape)} do not fit group {self._group}"
            )
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        expected = (x.shape[0], self._moves * math.prod(w.shape[2:]) * 2, *windows.counts)
        if offset.shape != expected:
            raise ValueError(
                f"DeformConv: offset has shape {list(offset.shape)}, expected {list(expected)}"
            )
        return (TensorSpec((x.shape[0], w.shape[0], *windows.counts), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Sample, then one product for each group."""
        x, w, offset, bias, mask = [*inputs, None, None][:5]
        (y,) = outputs
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        taps, places = math.prod(w.shape[2:]), math.prod(windows.counts)
        wide = row_type(x.dtype)
        base = _grid(windows)
        matrix = w.astype(wide, copy=False).reshape(self._group, w.shape[0] // self._group, -1)
        width = max(1, _ROOM // max(x.shape[1] * taps, 1))
        for item in range(x.shape[0]):
            image = x[item].astype(wide, copy=False)
            moved = offset[item].reshape(self._moves, taps, 2, places)
            weights = None if mask is None else mask[item].reshape(self._moves, taps, places)
            target = y[item].reshape(self._group, -1, places)
            for start in range(0, places, width):
                part = slice(start, start + width)
                at = base[None, :, :, part] + moved.swapaxes(1, 2)[..., part]
                columns = self._columns(image, at, None if weights is None else weights[..., part])
                total = np.matmul(matrix, columns.reshape(self._group, matrix.shape[2], -1))
                if bias is not None:
                    total += bias.reshape(self._group, -1, 1)
                target[:, :, part] = total

    def _columns(self, image: Array, at: Array, weights: Any) -> Array:
        """[C, taps, results] of the image [C, H, W] at the places [moves, 2, taps, results]."""
        channels, height, width = image.shape
        flat = image.reshape(self._moves, channels // self._moves, height * width)
        columns = np.zeros((self._moves, flat.shape[1], *at.shape[2:]), image.dtype)
        for group in range(self._moves):
            y, x = at[group]
            top, left = np.floor(y), np.floor(x)
            for down in (0, 1):
                for right in (0, 1):
                    row, column = top + down, left + right
                    weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
                    weight *= (row >= 0) & (row < height) & (column >= 0) & (column < width)
                    if weights is not None:
                        weight = weight * weights[group]
                    row, column = np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)
                    index = (row * width + column).astype(np.intp)
                    columns[group] += np.take(flat[group], index, axis=1) * weight
        return columns.reshape(channels, *at.shape[2:])


def _grid(windows: Any) -> Array:
    """Row and column [2, taps, results] that each tap of each result would be read at."""
    axes = []
    for axis in range(2):
        first = np.arange(windows.counts[axis]) * windows.strides[axis] - windows.before[axis]
        steps = np.arange(windows.kernel[axis]) * windows.dilations[axis]
        axes.append(steps[:, None] + first)
    rows = np.broadcast_to(axes[0][:, None, :, None], (*windows.kernel, *windows.counts))
    columns = np.broadcast_to(axes[1][None, :, None, :], (*windows.kernel, *windows.counts))
    taps, places = math.prod(windows.kernel), math.prod(windows.counts)
    return np.stack((rows, columns)).reshape(2, taps, places).astype(np.float64)
