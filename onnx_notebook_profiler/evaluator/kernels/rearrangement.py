"""Moving elements about: DepthToSpace, SpaceToDepth, ReverseSequence, Trilu, OneHot, TensorScatter, CenterCropPad.

https://onnx.ai/onnx/operators/ under these names. Each element is copied once, straight into the output. Scratch:
ReverseSequence takes positions of short sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._expected import expect
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    INT64,
    chosen_bits,
    integers,
    normalized_axes,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "CenterCropPad",
    "DepthToSpace",
    "OneHot",
    "ReverseSequence",
    "SpaceToDepth",
    "TensorScatter",
    "Trilu",
]

_MS: Final = "com.microsoft"
_ROWS: Final = 32
"""Rows of a triangle that are copied together."""
_PIECE: Final = 4096
_FEW: Final = 8
"""Elements of a sequence, or number of sequences, from which or up to which they are turned round one by one."""


class _Blocks(Kernel):
    """Between channels and places, ``blocksize`` by ``blocksize``."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self.block = int(spec.attributes["blocksize"])
        if self.block < 1:
            raise ValueError(f"{spec.op_type}: blocksize is 1 or more, got {self.block}")
        mode = spec.attributes.get("mode", "DCR")
        if mode not in {"DCR", "CRD"}:
            raise ValueError(f"{spec.op_type} expects mode DCR or CRD, got {mode!r}")
        self.channels_first = mode == "CRD"

    def _image(self, inputs: Sequence[Array | None]) -> Array:
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim != 4:
            raise ValueError(f"{self.spec.op_type} expects X [N, C, H, W], got {list(x.shape)}")
        return x


@register("DepthToSpace", since_version=1)
class DepthToSpace(_Blocks):
    """[N, C, H, W] -> [N, C / b^2, H b, W b]; mode DCR takes the block from the outer channels, CRD from the inner."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Fewer channels, more places."""
        x, b = self._image(inputs), self.block
        n, c, h, w = x.shape
        if c % (b * b):
            raise ValueError(f"DepthToSpace: {c} channels are no multiple of {b * b}")
        return (TensorSpec((n, c // (b * b), h * b, w * b), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One copy."""
        x, (y,), b = inputs[0], outputs, self.block
        n, c, h, w = x.shape
        depth = c // (b * b)
        if self.channels_first:
            source = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            source = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        np.copyto(y.reshape(n, depth, h, b, w, b), source)


@register("SpaceToDepth", since_version=1)
class SpaceToDepth(_Blocks):
    """[N, C, H, W] -> [N, C b^2, H / b, W / b]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """More channels, fewer places."""
        x, b = self._image(inputs), self.block
        n, c, h, w = x.shape
        if h % b or w % b:
            raise ValueError(f"SpaceToDepth: {h} by {w} places are no multiples of {b}")
        return (TensorSpec((n, c * b * b, h // b, w // b), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One copy."""
        x, (y,), b = inputs[0], outputs, self.block
        n, c, h, w = x.shape
        source = x.reshape(n, c, h // b, b, w // b, b)
        if self.channels_first:
            np.copyto(y.reshape(n, c, b, b, h // b, w // b), source.transpose(0, 1, 3, 5, 2, 4))
        else:
            np.copyto(y.reshape(n, b, b, c, h // b, w // b), source.transpose(0, 3, 5, 1, 2, 4))


@register("ReverseSequence", since_version=10)
class ReverseSequence(Kernel):
    """The first sequence_lens[i] steps of each batch item, backwards; the rest as it is."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As the input."""
        x, lengths = operands(self.spec, inputs, 2)
        batch, time = self._axes
        if x.ndim < 2 or {batch, time} != {0, 1} or lengths.shape != (x.shape[batch],):
            raise ValueError(
                f"ReverseSequence expects X of rank 2 or more, axes 0 and 1 in some order and a length for each "
                f"batch item: got {list(x.shape)}, axes {batch} and {time}, {list(lengths.shape)} lengths"
            )
        return (TensorSpec(x.shape, x.dtype),)

    @property
    def _axes(self) -> tuple[int, int]:
        attributes = self.spec.attributes
        return int(attributes.get("batch_axis", 1)), int(attributes.get("time_axis", 0))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Pieces of some size item by item, small ones by their positions, all at once."""
        x, lengths = inputs
        batch, time = self._axes
        steps = x.shape[time]
        listed = lengths.tolist()
        if not 0 <= min(listed, default=0) <= max(listed, default=0) <= steps:
            raise ValueError(f"lengths are from 0 to {steps}, got {listed}")
        width = math.prod(x.shape[2:])
        if width * steps >= _PIECE or lengths.size <= _FEW:
            source, target = (np.moveaxis(it, (batch, time), (0, 1)) for it in (x, outputs[0]))
            for one, length in enumerate(listed):
                target[one, :length] = source[one, :length][::-1]
                target[one, length:] = source[one, length:]
        elif x.size:
            number: Array = np.arange(steps)
            item: Array = np.arange(lengths.size)
            if time:
                item, ends = item[:, None], lengths[:, None]
            else:
                number, ends = number[:, None], lengths
            places = np.where(number < ends, ends - 1 - number, number)
            rows = item * steps + places if time else places * lengths.size + item
            flat = (x.shape[0] * x.shape[1], width)
            np.take(
                x.reshape(flat), rows.reshape(-1), axis=0, out=outputs[0].reshape(flat), mode="clip"
            )


@register("Trilu", since_version=14)
@register("Trilu", since_version=1, domain=_MS)
class Trilu(Kernel):
    """The upper or lower triangle of matrices [..., N, M], zeros elsewhere; ``k`` moves the diagonal."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As the input."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim < 2:
            raise ValueError(f"Trilu expects matrices, got {list(x.shape)}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """By the bits of each element; of large matrices in rectangles, with a mask for the squares on the diagonal."""
        x, (y,) = inputs[0], outputs
        shift = integers(inputs, 1)
        rows, columns = x.shape[-2:]
        k = max(-rows - 1, min(columns + 1, shift[0] if shift else 0))
        upper = bool(self.spec.attributes.get("upper", 1))
        first = k if upper else k + 1  # of the columns beyond the border, in row 0
        if rows * columns <= BLOCK and y.itemsize <= INT64.itemsize and y.dtype.kind != "O":
            mask = np.arange(columns) >= np.arange(first, first + rows)[:, None]
            bits = chosen_bits(mask if upper else ~mask, y.itemsize)
            np.bitwise_and(x.view(bits.dtype), bits, y.view(bits.dtype))
            return
        nothing: Any = "" if y.dtype.kind == "O" else 0
        for start in range(0, rows, _ROWS):
            stop = min(start + _ROWS, rows)
            low, high = (max(0, min(columns, first + row)) for row in (start, stop - 1))
            band, source = y[..., start:stop, :], x[..., start:stop, :]
            left, right = (slice(0, low), slice(high, None))
            kept, dropped = (right, left) if upper else (left, right)
            band[..., dropped] = nothing
            band[..., kept] = source[..., kept]
            if low < high:
                beyond = np.arange(low, high) >= np.arange(start + first, stop + first)[:, None]
                square = band[..., low:high]
                square[...] = nothing
                np.copyto(square, source[..., low:high], where=beyond if upper else ~beyond)


@register("OneHot", since_version=9)
class OneHot(Kernel):
    """indices [...] -> [..., depth, ...]: on_value at the index along the new axis, off_value elsewhere."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One more axis."""
        indices, depth, values = operands(self.spec, inputs, 3)
        if depth.size != 1 or values.shape != (2,):
            raise ValueError(
                f"OneHot expects one depth and two values, got {depth.size} and {list(values.shape)}"
            )
        axis = normalized_axis(
            self.spec, int(self.spec.attributes.get("axis", -1)), indices.ndim + 1
        )
        length = int(depth.reshape(-1)[0])
        if length < 0:
            raise ValueError(f"OneHot expects a depth of 0 or more, got {length}")
        shape = (*indices.shape[:axis], length, *indices.shape[axis:])
        return (TensorSpec(shape, values.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill, then set one element for each index that exists; a negative one counts from the end."""
        indices, _, values = inputs
        (y,) = outputs
        y[...] = values[0]
        axis = int(self.spec.attributes.get("axis", -1)) % y.ndim
        depth = y.shape[axis]
        rows = np.moveaxis(y, axis, -1)
        place = indices.astype(np.int64)
        valid = (place >= -depth) & (place < depth)
        if depth:
            where = np.nonzero(valid)
            rows[(*where, place[where] % depth)] = values[1]


@register("TensorScatter", since_version=24)
class TensorScatter(Kernel):
    """past_cache with ``update`` written along an axis, from write_indices[batch] on; ``circular`` wraps around."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As past_cache."""
        past, update = operands(self.spec, inputs, 2)
        axis = normalized_axis(self.spec, int(self.spec.attributes.get("axis", -2)), past.ndim)
        if update.ndim != past.ndim:
            raise ValueError(
                f"TensorScatter: update {list(update.shape)} and past_cache {list(past.shape)} differ in rank"
            )
        starts = inputs[2] if len(inputs) > 2 else None
        expect(self.spec, "write_indices", starts, past.shape[:1])
        expected = (*past.shape[:axis], update.shape[axis], *past.shape[axis + 1 :])
        if axis == 0 or update.shape != expected or update.shape[axis] > past.shape[axis]:
            raise ValueError(
                f"TensorScatter: update {list(update.shape)} does not fit past_cache {list(past.shape)} along "
                f"axis {axis}, which is not the first"
            )
        return (TensorSpec(past.shape, past.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy, then write item by item."""
        past, update = inputs[:2]
        starts = integers(inputs, 2) or [0] * past.shape[0]
        axis = int(self.spec.attributes.get("axis", -2)) % past.ndim
        (y,) = outputs
        np.copyto(y, past)
        size, count = past.shape[axis], update.shape[axis]
        wraps = self.spec.attributes.get("mode", "linear") == "circular"
        for item, start in enumerate(starts):
            places = np.arange(start, start + count)
            if wraps:
                places %= size
            elif not 0 <= start <= size - count:
                raise ValueError(f"{count} steps from {start} on do not fit a cache of {size}")
            np.moveaxis(y[item], axis - 1, 0)[places] = np.moveaxis(update[item], axis - 1, 0)


@register("CenterCropPad", since_version=18)
class CenterCropPad(Kernel):
    """The middle of the input, cut or surrounded by zeros to the given shape."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def _axes(self, rank: int) -> tuple[int, ...]:
        axes = self.spec.attributes.get("axes")
        return normalized_axes(self.spec, range(rank) if axes is None else axes, rank)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The given lengths along the axes."""
        x, _ = operands(self.spec, inputs, 2)
        wanted, axes = integers(inputs, 1) or [], self._axes(x.ndim)
        if len(wanted) != len(axes) or min(wanted, default=0) < 0:
            raise ValueError(
                f"CenterCropPad expects {len(axes)} lengths of 0 or more, got {list(wanted)}"
            )
        shape = list(x.shape)
        for axis, length in zip(axes, wanted, strict=True):
            shape[axis] = length
        return (TensorSpec(tuple(shape), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Zeros or empty strings, then one copy."""
        x, (y,) = inputs[0], outputs
        y.fill("" if y.dtype.kind == "O" else 0)
        source, target = [], []
        for size, length in zip(x.shape, y.shape, strict=True):
            cut, gap = max(0, size - length) // 2, max(0, length - size) // 2
            common = min(size, length)
            source.append(slice(cut, cut + common))
            target.append(slice(gap, gap + common))
        y[tuple(target)] = x[tuple(source)]
