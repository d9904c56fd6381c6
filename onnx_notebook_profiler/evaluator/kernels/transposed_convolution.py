"""ConvTranspose: X [N, C, D1, ...] with W [C, M / group, k1, ...] and B [M] -> Y [N, M, E1, ...].

https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ConvTranspose"]


@register("ConvTranspose", since_version=1)
class ConvTranspose(Kernel):
    """One matrix product for each place of the window, added into the output where it falls.

    Scratch: one product, as large as the output divided by the strides.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._group = int(spec.attributes.get("group", 1))

    def infer(self, inputs: Sequence[Any]) -> list[TensorSpec]:
        """Sizes follow the strides, less the pads."""
        x, w = inputs[:2]
        if x.ndim < 3 or w.ndim != x.ndim:
            raise ValueError(
                f"X [N, C, D1, ...] and W [C, M, k1, ...] have one rank of 3 or more, not {x.ndim} and {w.ndim}"
            )
        if x.shape[1] != w.shape[0] or x.shape[1] % self._group:
            raise ValueError(
                f"X has {x.shape[1]} channels, W takes {w.shape[0]}, in {self._group} groups"
            )
        sizes, _ = self._sizes(x.shape[2:], w.shape[2:])
        return [TensorSpec((x.shape[0], w.shape[1] * self._group, *sizes), x.dtype)]

    def _sizes(self, spatial: Sequence[int], window: Sequence[int]) -> tuple[list[int], list[int]]:
        """Size of each spatial axis, and how much is cut off at its beginning."""
        attributes = self.spec.attributes
        rank = len(window)
        strides, dilations = self._steps(rank)
        extra = attributes.get("output_padding") or [0] * rank
        pads = attributes.get("pads") or [0] * (2 * rank)
        auto = attributes.get("auto_pad") or "NOTSET"
        wanted = attributes.get("output_shape")
        if wanted is not None and len(wanted) == rank + 2:
            wanted = wanted[2:]
        if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
            wanted = [size * stride for size, stride in zip(spatial, strides, strict=True)]
        sizes, begins = [], []
        for axis in range(rank):
            reach = (window[axis] - 1) * dilations[axis] + 1
            full = strides[axis] * (spatial[axis] - 1) + extra[axis] + reach
            if wanted is not None:
                total = max(full - wanted[axis], 0)
                begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
                size = wanted[axis]
            elif auto == "VALID":
                begin, size = 0, full
            else:
                begin, size = pads[axis], full - pads[axis] - pads[axis + rank]
            sizes.append(size)
            begins.append(begin)
        return sizes, begins

    def _steps(self, rank: int) -> tuple[list[int], list[int]]:
        attributes = self.spec.attributes
        return (
            attributes.get("strides") or [1] * rank,
            attributes.get("dilations") or [1] * rank,
        )

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The bias first, then each place of the window."""
        x, w = inputs[:2]
        bias = inputs[2] if len(inputs) > 2 else None
        (y,) = outputs
        rank = x.ndim - 2
        y[...] = 0 if bias is None else bias.reshape(1, -1, *[1] * rank)
        if not x.size or not w.size:
            return
        strides, dilations = self._steps(rank)
        _, begins = self._sizes(x.shape[2:], w.shape[2:])
        group, batch = self._group, x.shape[0]
        given = x.reshape(batch, group, x.shape[1] // group, *x.shape[2:])
        made = y.reshape(batch, group, w.shape[1], *y.shape[2:])
        weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        for place in itertools.product(*map(range, w.shape[2:])):
            taken: list[slice] = []
            put: list[slice] = []
            for axis, offset in enumerate(place):
                first = offset * dilations[axis] - begins[axis]
                low = max(0, -(first // strides[axis]))
                high = min(x.shape[2 + axis], (y.shape[2 + axis] - 1 - first) // strides[axis] + 1)
                taken.append(slice(low, high))
                start = low * strides[axis] + first
                put.append(slice(start, start + max(high - low, 0) * strides[axis], strides[axis]))
            if any(one.stop <= one.start for one in taken):
                continue
            read: tuple[Any, ...] = (..., *taken)
            written: tuple[Any, ...] = (..., *put)
            part = given[read]
            matrix = weights[(slice(None), slice(None), slice(None), *place)].transpose(0, 2, 1)
            flat = part.reshape(batch, group, part.shape[2], -1)
            product = np.matmul(np.ascontiguousarray(matrix), flat)
            made[written] += product.reshape(batch, group, w.shape[1], *part.shape[3:])
