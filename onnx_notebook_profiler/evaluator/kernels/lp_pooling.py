"""LpPool, GlobalLpPool, MaxUnpool and Col2Im: windows over the spatial axes, to and fro.

https://onnx.ai/onnx/operators/ under these names. Scratch: for LpPool the powers of a block of planes, for narrow
floats in float32; Col2Im adds up in the output, float16 in a float32 copy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import per_block, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import integers, operands
from onnx_notebook_profiler.evaluator.kernels._windows import pool_windows, taps
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Col2Im", "GlobalLpPool", "LpPool", "MaxUnpool"]


@register("LpPool", since_version=1)
class LpPool(Kernel):
    """The p-norm of each window of X [N, C, D1, ...]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._p = float(spec.attributes.get("p", 2))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One number for each window."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec((*x.shape[:2], *pool_windows(self.spec, x).counts), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Add the powers tap by tap, then take the root."""
        x, (y,) = inputs[0], outputs
        windows = pool_windows(self.spec, x)
        whole = tuple(slice(0, count) for count in windows.counts)
        planes, norms = x.reshape(-1, *windows.sizes), y.reshape(-1, *windows.counts)
        found = taps(windows, whole)
        wide = row_type(x.dtype)

        def apply(part: slice) -> None:
            powers = np.abs(planes[part].astype(wide, copy=False)) ** self._p
            total = np.zeros((powers.shape[0], *windows.counts), wide)
            for tap in found:
                view = total[(slice(None), *tap.windows)]
                np.add(view, powers[(slice(None), *tap.values)], out=view)
            np.copyto(norms[part], total ** (1 / self._p), casting="unsafe")

        per_block(planes.shape[0], math.prod(windows.sizes), apply)


@register("GlobalLpPool", since_version=1)
class GlobalLpPool(Kernel):
    """The p-norm of each channel of X [N, C, D1, ...]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, C, 1, ...]."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim < 2:
            raise ValueError(f"GlobalLpPool expects X [N, C, ...], got {list(x.shape)}")
        return (TensorSpec((*x.shape[:2], *[1] * (x.ndim - 2)), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One reduction."""
        x, (y,) = inputs[0], outputs
        p = float(self.spec.attributes.get("p", 2))
        powers = np.abs(x.astype(row_type(x.dtype), copy=False)) ** p
        total = powers.sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
        np.copyto(y, total, casting="unsafe")


@register("MaxUnpool", since_version=9)
class MaxUnpool(Kernel):
    """X [N, C, ...] put back to the places that I names, zeros elsewhere; output_shape is the third input."""

    value_inputs: ClassVar[tuple[int, ...]] = (2,)

    def _natural(self, x: Array) -> tuple[int, ...]:
        """The shape that the pool's windows ask for."""
        attributes = self.spec.attributes
        kernel = list(attributes["kernel_shape"])
        strides = list(attributes.get("strides") or [1] * len(kernel))
        pads = list(attributes.get("pads") or [0] * 2 * len(kernel))
        sizes = [
            (count - 1) * stride - pads[axis] - pads[axis + len(kernel)] + kernel[axis]
            for axis, (count, stride) in enumerate(zip(x.shape[2:], strides, strict=True))
        ]
        return (*x.shape[:2], *sizes)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The given shape, or what the windows ask for."""
        x, places = operands(self.spec, inputs, 2)
        if x.shape != places.shape:
            raise ValueError(f"MaxUnpool: X {list(x.shape)} and I {list(places.shape)} differ")
        given = integers(inputs, 2)
        shape = self._natural(x) if given is None else tuple(given)
        if len(shape) != x.ndim:
            raise ValueError(
                f"MaxUnpool: output_shape {list(shape)} has another rank than X {list(x.shape)}"
            )
        return (TensorSpec(shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Zeros, then one assignment; the places count in the natural shape."""
        x, places, (y,) = inputs[0], inputs[1].reshape(-1), outputs
        natural = self._natural(x)
        y.fill(0)
        if places.size and not 0 <= int(places.min()) <= int(places.max()) < math.prod(natural):
            raise ValueError(f"MaxUnpool: places are from 0 to {math.prod(natural) - 1}")
        if y.shape == natural:
            y.reshape(-1)[places] = x.reshape(-1)
        else:
            y[np.unravel_index(places, natural)] = x.reshape(-1)


@register("Col2Im", since_version=18)
class Col2Im(Kernel):
    """Columns [N, C * block, L] added up as the images [N, C, D1, ...] that they were cut out of."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2)

    def _geometry(self, inputs: Sequence[Any]) -> tuple[list[int], list[int], list[range]]:
        """Sizes, block, and where the blocks start along each axis."""
        image, block = integers(inputs, 1) or [], integers(inputs, 2) or []
        rank = len(image)
        attributes = self.spec.attributes
        strides = list(attributes.get("strides") or [1] * rank)
        dilations = list(attributes.get("dilations") or [1] * rank)
        pads = list(attributes.get("pads") or [0] * 2 * rank)
        starts = [
            range(-pads[a], image[a] + pads[a + rank] - dilations[a] * (block[a] - 1), strides[a])
            for a in range(rank)
        ]
        return image, block, starts

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The images' shape."""
        x = operands(self.spec, inputs, 3)[0]
        image, block, starts = self._geometry(inputs)
        columns = math.prod(map(len, starts))
        if x.ndim != 3 or x.shape[1] % math.prod(block) or x.shape[2] != columns:
            raise ValueError(
                f"Col2Im: columns {list(x.shape)} do not fit blocks of {block} at {columns} places of {image}"
            )
        return (TensorSpec((x.shape[0], x.shape[1] // math.prod(block), *image), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One addition of a strided range for each element of the block."""
        x, (y,) = inputs[0], outputs
        image, block, starts = self._geometry(inputs)
        dilations = list(self.spec.attributes.get("dilations") or [1] * len(image))
        columns = x.reshape(*y.shape[:2], *block, *map(len, starts))
        total = np.zeros(y.shape, row_type(y.dtype)) if y.dtype.char == "e" else y
        total.fill(0)
        for position in itertools.product(*map(range, block)):
            to, source = [], []
            for axis, offset in enumerate(position):
                first, step = starts[axis].start + offset * dilations[axis], starts[axis].step
                low = max(0, -(first // step))
                high = min(len(starts[axis]), (image[axis] - 1 - first) // step + 1)
                source.append(slice(low, max(low, high)))
                to.append(slice(first + low * step, first + max(low, high) * step, step))
            piece = columns[(slice(None), slice(None), *position, *source)]
            if piece.size:
                place = [
                    slice(one.start, one.start + (n - 1) * one.step + 1, one.step)
                    for one, n in zip(to, piece.shape[2:], strict=True)
                ]
                view = total[(slice(None), slice(None), *place)]
                np.add(view, piece, out=view)
        if total is not y:
            np.copyto(y, total, casting="unsafe")
