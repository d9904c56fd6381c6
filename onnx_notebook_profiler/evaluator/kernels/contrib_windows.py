"""com.microsoft's MaxpoolWithMask and ConvTransposeWithDynamicPads.

ContribOperators.md of onnxruntime and maxpool_with_mask.h there. Scratch: an array of a block of windows, and what
ConvTranspose takes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, INT64, given, operands
from onnx_notebook_profiler.evaluator.kernels._windows import (
    Box,
    Windows,
    boxes,
    sliding,
    taps,
)
from onnx_notebook_profiler.evaluator.kernels.transposed_convolution import ConvTranspose
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ConvTransposeWithDynamicPads", "MaxpoolWithMask"]

_MS: Final = "com.microsoft"
_WINDOWS: Final = 2**16


@register("MaxpoolWithMask", since_version=1, domain=_MS)
class MaxpoolWithMask(Kernel):
    """The largest value of each window of X [N, C, D1, ...] before a 0 in mask M [n, c, D1, ...].

    Each row of a window, along the last axis, ends at the first 0 of its own. In more than one dimension the very first
    element is never masked. The mask of plane p begins ``p * (elements of a plane) mod (n * c)`` into M, as in
    onnxruntime: so a mask of one plane serves all of them.
    """

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y [N, C, windows...]."""
        x, mask = operands(self.spec, inputs, 2)
        if x.dtype != FLOAT32:
            raise UnsupportedOperatorError(f"MaxpoolWithMask is for float32, got {x.dtype}")
        kernel = self.spec.attributes.get("kernel_shape") or ()
        if not 3 <= x.ndim <= 5 or len(kernel) != x.ndim - 2:
            raise ValueError(
                f"MaxpoolWithMask expects X [N, C, D1, ...] with 1 to 3 spatial axes and kernel_shape for them, "
                f"got {list(x.shape)} and {list(kernel)}"
            )
        no_planes = math.prod(x.shape[:2]) > 0 and math.prod(mask.shape[:2]) == 0
        if mask.ndim != x.ndim or mask.shape[2:] != x.shape[2:] or no_planes:
            raise ValueError(
                f"MaxpoolWithMask: a mask of {list(mask.shape)} does not fit X of {list(x.shape)}"
            )
        return (TensorSpec((*x.shape[:2], *self._windows(x).counts), x.dtype),)

    def _windows(self, x: Array) -> Windows:
        return sliding(self.spec, x.shape[2:], self.spec.attributes["kernel_shape"])

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Tap by tap, for blocks of windows: of one plane, or of several under one mask."""
        x, mask = inputs[:2]
        (y,) = outputs
        windows = self._windows(x)
        if not y.size:
            return
        planes, largest = x.reshape(-1, *windows.sizes), y.reshape(-1, *windows.counts)
        flat, size = mask.reshape(-1), math.prod(windows.sizes)
        masks = math.prod(mask.shape[:2])
        together = max(1, _WINDOWS // math.prod(windows.counts)) if size % masks == 0 else 1
        for plane in range(0, len(planes), together):
            start = plane * size % masks
            kept = flat[start : start + size].reshape(windows.sizes) != 0
            if kept.ndim > 1:
                kept.reshape(-1)[:1] = True
            part = slice(plane, plane + together)
            for box in boxes(windows.counts, _WINDOWS):
                _fold(planes[part], kept, largest[(part, *box)], windows, box)


def _fold(x: Array, kept: Array, largest: Array, windows: Windows, box: Box) -> None:
    """Fold largest [plane, window...] with the maxima of the windows in *box*, a NaN being none.

    A row of taps goes on where all before it are kept.
    """
    lowest = np.finfo(largest.dtype).min
    largest.fill(lowest)
    going = np.empty(largest.shape[1:], np.bool_)
    row = None
    for tap in taps(windows, box):
        if tap.position[:-1] != row:
            row = tap.position[:-1]
            going.fill(True)
        part, target = going[tap.windows], largest[(slice(None), *tap.windows)]
        part &= kept[tap.values]
        values = x[(slice(None), *tap.values)]
        np.fmax(target, values if part.all() else np.where(part, values, lowest), target)


@register("ConvTransposeWithDynamicPads", since_version=1, domain=_MS)
class ConvTransposeWithDynamicPads(Kernel):
    """ConvTranspose of X, W and B whose pads are an input, the third; without it they are 0."""

    value_inputs: ClassVar[tuple[int, ...]] = (2,)

    def _inner(self, inputs: Sequence[Any]) -> tuple[ConvTranspose, list[Any]]:
        """The kernel for these pads, and its inputs."""
        x, w = operands(self.spec, inputs, 2)
        pads, bias = given(inputs, 2), given(inputs, 3)
        attributes = {**self.spec.attributes}
        if pads is not None:
            if pads.size != 2 * (x.ndim - 2):
                raise ValueError(
                    f"ConvTransposeWithDynamicPads expects {2 * (x.ndim - 2)} pads, got {pads.size}"
                )
            attributes["pads"] = pads.astype(INT64).reshape(-1).tolist()
        kernel = ConvTranspose(dataclasses.replace(self.spec, attributes=attributes))
        return kernel, [x, w] if bias is None else [x, w, bias]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Sizes follow the strides, less the pads."""
        kernel, values = self._inner(inputs)
        return kernel.infer(values)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As ConvTranspose."""
        kernel, values = self._inner(inputs)
        kernel.compute(values, outputs)
