"""ConvTranspose: X [N, C, D1, ...] with W [C, M / group, k1, ...] and B [M] -> Y [N, M, E1, ...].

https://onnx.ai/onnx/operators/onnx__ConvTranspose.html. Scratch: products of :data:`ROOM` bytes, or of one row of X;
float16 and bfloat16 are added up in float32 and rounded once, which takes W and one item of X and Y in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32
from onnx_notebook_profiler.evaluator.kernels._windows import clipped
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ROOM", "ConvTranspose"]

ROOM: Final = 2**19
"""Bytes of products that are made at a time."""


@register("ConvTranspose", since_version=1)
class ConvTranspose(Kernel):
    """A matrix product for all places of the window, each added into the output where it falls."""

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
        """One item and group after the other."""
        x, w = inputs[:2]
        y = outputs[0]
        if not y.size:
            return
        group, batch = self._group, x.shape[0]
        bias = inputs[2] if len(inputs) > 2 else np.zeros(y.shape[1], y.dtype)
        offsets = bias.reshape(group, -1, *[1] * (x.ndim - 2))
        given = x.reshape(batch, group, x.shape[1] // group, *x.shape[2:])
        made = y.reshape(batch, group, w.shape[1], *y.shape[2:])
        narrow = y.dtype.char not in "fd"
        wide = w.astype(FLOAT32) if narrow else w
        weights = wide.reshape(group, w.shape[0] // group, *w.shape[1:])
        for item, part in itertools.product(range(batch), range(group)):
            target = made[item, part]
            if not narrow:
                self._fill(given[item, part], weights[part], offsets[part], target)
                continue
            total = np.empty(target.shape, FLOAT32)
            self._fill(given[item, part].astype(FLOAT32), weights[part], offsets[part], total)
            np.copyto(target, total, casting="unsafe")

    def _fill(self, x: Array, w: Array, bias: Array, y: Array) -> None:
        """Y [M, E1, ...] from X [C, D1, ...], W [C, M, k1, ...] and a bias [M, 1, ...].

        Where windows do not overlap, each element is written once; else they are added into the bias.
        """
        strides, dilations = self._steps(x.ndim - 1)
        kernel, sizes = w.shape[2:], x.shape[1:]
        _, begins = self._sizes(sizes, kernel)
        reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        apart = all(reach <= stride for reach, stride in zip(reaches, strides, strict=True))
        covered = apart and all(
            k == stride and not begin and made == size * stride
            for k, stride, begin, made, size in zip(
                kernel, strides, begins, y.shape[1:], sizes, strict=True
            )
        )
        if not covered or not x.size:
            y[...] = bias
        if not x.size or not w.size:
            return
        taps, row = math.prod(kernel), math.prod(sizes[1:])
        filters = max(1, min(w.shape[1], ROOM // (taps * row * y.itemsize)))
        rows = max(1, min(sizes[0], ROOM // (taps * row * y.itemsize * filters)))
        scratch = np.empty(filters * taps * rows * row, w.dtype)
        flat, matrix = x.reshape(x.shape[0], -1), w.reshape(w.shape[0], w.shape[1], taps)
        for top, first in itertools.product(
            range(0, sizes[0], rows), range(0, w.shape[1], filters)
        ):
            band = slice(top, min(top + rows, sizes[0]))
            part = slice(first, min(first + filters, w.shape[1]))
            turned = matrix[:, part].reshape(w.shape[0], -1).T
            found = scratch[: turned.shape[0] * (band.stop - top) * row].reshape(len(turned), -1)
            np.matmul(turned, flat[:, top * row : band.stop * row], found)
            products = found.reshape(-1, taps, band.stop - top, *sizes[1:])
            firsts = [
                [
                    offset * dilation - begin + (top * stride if axis == 0 else 0)
                    for offset in range(k)
                ]
                for axis, (k, dilation, begin, stride) in enumerate(
                    zip(kernel, dilations, begins, strides, strict=True)
                )
            ]
            _place(products, y[part], firsts, strides, bias[part] if apart else None)


def _place(
    products: Array,
    y: Array,
    firsts: Sequence[Sequence[int]],
    strides: Sequence[int],
    bias: Array | None,
) -> None:
    """Put products [M, tap, D1, ...] where they fall in y [M, E1, ...]: with a *bias* over what is there, else on top.

    *firsts* has for each axis and tap where the first product falls; what falls outside is cut off.
    """
    for number, corner in enumerate(itertools.product(*firsts)):
        kept = [
            clipped(first, stride, count, size)
            for first, stride, count, size in zip(
                corner, strides, products.shape[2:], y.shape[1:], strict=True
            )
        ]
        seen = [ranges for ranges in kept if ranges is not None]
        if len(seen) < len(kept):
            continue
        source: tuple[Any, ...] = (slice(None), number, *(of for of, _ in seen))
        into = y[(slice(None), *(to for _, to in seen))]
        np.add(products[source], into if bias is None else bias, into)
