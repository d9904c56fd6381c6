"""The operators of com.microsoft.nchwc, which onnxruntime's optimiser writes for its own processor.

A tensor of shape [N, C, H, W] lies in memory as [N, C / block, H, W, block], with C rounded up to whole blocks.
onnxruntime's block is 16 on processors with AVX-512 and 8 on others; a file does not say which it was written for. Here
it is 16, and 8 where a number of channels is no multiple of that. Filters are stored as [M / block, C / group / block,
KH, KW, block of C, block of M]; as [M / block, C / group, KH, KW, block of M] where X has fewer channels than a block,
and is not blocked then, or where each channel has a filter of its own. nchwc_ops.cc and reorder.cpp of onnxruntime show
the layouts. Scratch: see :mod:`_channels_last`, :mod:`_fold` and :mod:`resize`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._channels_last import (
    convolve_each_channel,
    convolve_last,
)
from onnx_notebook_profiler.evaluator.kernels._fused_activations import fused_activation
from onnx_notebook_profiler.evaluator.kernels._shared import operands, same_type
from onnx_notebook_profiler.evaluator.kernels._windows import Windows, sliding, with_channels
from onnx_notebook_profiler.evaluator.kernels.fused_convolution import finishing
from onnx_notebook_profiler.evaluator.kernels.pooling import fold_largest, fold_means
from onnx_notebook_profiler.evaluator.kernels.resize import Resize
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "BlockedAveragePool",
    "BlockedConv",
    "BlockedGlobalAveragePool",
    "BlockedGlobalMaxPool",
    "BlockedMaxPool",
    "BlockedUpsample",
    "ReorderInput",
    "ReorderOutput",
]

_NCHWC: Final = "com.microsoft.nchwc"
_BLOCKS: Final = (16, 8)


def block_of(*channels: int) -> int:
    """Channels in a block.

    Raises:
        ValueError: The numbers of channels have no block in common.
    """
    for block in _BLOCKS:
        if all(count % block == 0 for count in channels):
            return block
    raise ValueError(f"blocks hold 16 or 8 channels, and do not divide {list(channels)}")


def _checked(spec: NodeSpec, inputs: Sequence[Array | None], count: int) -> list[Array]:
    found = operands(spec, inputs, count)
    if found[0].ndim != 4:
        raise ValueError(f"{spec.op_type} expects X [N, C, H, W], got shape {found[0].shape}")
    if found[0].dtype.char not in "fd":
        raise UnsupportedOperatorError(f"{spec.op_type} for {found[0].dtype}")
    return found


def _blocked(x: Array, block: int) -> Array:
    """X [N, C, H, W] as it lies in memory: [N, C / block, H, W, block]."""
    batch, channels, height, width = x.shape
    return x.reshape(batch, channels // block, height, width, block)


@register("ReorderInput", since_version=1, domain=_NCHWC)
class ReorderInput(Kernel):
    """From [N, C, H, W], or with ``channels_last`` from [N, H, W, C], to blocks; channels that are missing are 0."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The channels rounded up to whole blocks."""
        x = self._channels_second(_checked(self.spec, inputs, 1)[0])
        block = _BLOCKS[0]
        return (TensorSpec((x.shape[0], -(-x.shape[1] // block) * block, *x.shape[2:]), x.dtype),)

    def _channels_second(self, x: Array) -> Array:
        return np.moveaxis(x, -1, 1) if self.spec.attributes.get("channels_last", 0) else x

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Whole blocks in one copy, then what is left."""
        x, y = self._channels_second(inputs[0]), outputs[0]
        block = _BLOCKS[0]
        given, made = np.moveaxis(x, 1, -1), _blocked(y, block)
        whole = x.shape[1] // block
        for number in range(whole):
            np.copyto(made[:, number], given[..., number * block : (number + 1) * block])
        left = x.shape[1] - whole * block
        if left:
            made[:, whole, ..., left:] = 0
            np.copyto(made[:, whole, ..., :left], given[..., whole * block :])


@register("ReorderOutput", since_version=1, domain=_NCHWC)
class ReorderOutput(Kernel):
    """From blocks to [N, C, H, W], or with ``channels_last`` to [N, H, W, C], with the first ``channels`` alone."""

    def _channels(self, x: Array) -> int:
        channels: int = self.spec.attributes.get("channels", 0)
        if not 0 < channels <= x.shape[1]:
            raise ValueError(
                f"ReorderOutput: channels are 1 to {x.shape[1]}, those of X, got {channels}"
            )
        return channels

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The channels that count."""
        x = _checked(self.spec, inputs, 1)[0]
        block_of(x.shape[1])
        channels = self._channels(x)
        if self.spec.attributes.get("channels_last", 0):
            return (TensorSpec((x.shape[0], *x.shape[2:], channels), x.dtype),)
        return (TensorSpec((x.shape[0], channels, *x.shape[2:]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One copy for each block."""
        x, y = inputs[0], outputs[0]
        last = bool(self.spec.attributes.get("channels_last", 0))
        made = y if last else np.moveaxis(y, 1, -1)
        block, channels = block_of(x.shape[1]), self._channels(x)
        given = _blocked(x, block)
        for number, first in enumerate(range(0, channels, block)):
            count = min(block, channels - first)
            np.copyto(made[..., first : first + count], given[:, number, ..., :count])


@register("Conv", since_version=1, domain=_NCHWC)
class BlockedConv(Kernel):
    """Convolution, plus B [M], plus Sum, which looks like Y, then an activation."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._group: int = spec.attributes.get("group", 1)
        self._activate = fused_activation(spec)

    def _plain(self, w: Array) -> bool:
        """Whether X is not blocked: it has fewer channels than a block."""
        return self._group == 1 and w.shape[1] < block_of(w.shape[0])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Batch, filters and windows."""
        x, w = _checked(self.spec, inputs, 2)
        bias, addend = (*inputs, None, None)[2:4]
        dtype = same_type(self.spec, [one for one in inputs if one is not None])
        group, filters = self._group, w.shape[0]
        if w.ndim != 4 or x.shape[1] != w.shape[1] * group or group < 1 or filters % group:
            raise ValueError(f"nchwc Conv: X {x.shape} and W {w.shape} do not fit group {group}")
        if bias is not None and bias.shape != (filters,):
            raise ValueError(
                f"nchwc Conv expects a bias for each of {filters} filters, got {bias.shape}"
            )
        block = block_of(filters)
        each = w.shape[1] == 1 and group == filters
        if not self._plain(w) and not each and (w.shape[1] % block or filters // group % block):
            raise ValueError(f"nchwc Conv: W {w.shape} has no blocks of {block} in {group} groups")
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        shape = (x.shape[0], filters, *windows.counts)
        if addend is not None and addend.shape != shape:
            raise ValueError(f"nchwc Conv: Sum looks like Y {shape}, not {addend.shape}")
        return (TensorSpec(shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Products of windows with the filters of one block after the other."""
        x, w, bias, addend = (*inputs, None, None)[:4]
        y, group = outputs[0], self._group
        if not y.size:
            return
        batch, filters, channels = x.shape[0], w.shape[0], w.shape[1]
        block = block_of(filters)
        count = filters // block
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        made = y.reshape(batch, count, -1, block)
        added = None if addend is None else addend.reshape(made.shape)
        if self._plain(w):
            after = finishing(bias, added, self._activate, made.shape)
            convolve_last(x[..., None], w.reshape(count, -1, block), made, windows, after)
            return
        given = _blocked(x, block)
        if channels == 1:
            after = finishing(bias, added, self._activate, made.shape)
            weights = w.reshape(count, *w.shape[2:], block)
            convolve_each_channel(given, weights, made, windows, after)
            return
        matrix = w.reshape(count, -1, block)
        for number in range(group):
            part = slice(number * count // group, (number + 1) * count // group)
            own = slice(number * channels // block, (number + 1) * channels // block)
            after = finishing(
                None if bias is None else bias[part.start * block : part.stop * block],
                None if added is None else added[:, part],
                self._activate,
                (batch, part.stop - part.start, *made.shape[2:]),
            )
            convolve_last(given[:, own], matrix[part], made[:, part], windows, after)


class _BlockedPool(Kernel):
    def _windows(self, x: Array) -> Windows:
        attributes = self.spec.attributes
        kernel = attributes.get("kernel_shape") or ()
        if len(kernel) != 2:
            raise ValueError(f"nchwc {self.spec.op_type} pools over two axes, got {list(kernel)}")
        return sliding(self.spec, x.shape[2:], kernel, ceil=bool(attributes.get("ceil_mode", 0)))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The windows in place of the spatial axes."""
        x = _checked(self.spec, inputs, 1)[0]
        block_of(x.shape[1])
        return (TensorSpec((*x.shape[:2], *self._windows(x).counts), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fold the windows, with a block's channels as one more axis."""
        x, y = inputs[0], outputs[0]
        if y.size:
            block = block_of(x.shape[1])
            planes = x.reshape(-1, *x.shape[2:], block)
            made = y.reshape(-1, *y.shape[2:], block)
            self._fold(planes, made, with_channels(self._windows(x), block))

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        raise NotImplementedError


@register("MaxPool", since_version=1, domain=_NCHWC)
class BlockedMaxPool(_BlockedPool):
    """The largest value of each window."""

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        fold_largest(x, y, windows)


@register("AveragePool", since_version=1, domain=_NCHWC)
class BlockedAveragePool(_BlockedPool):
    """The mean of each window."""

    def _fold(self, x: Array, y: Array, windows: Windows) -> None:
        fold_means(x, y, windows, padding=bool(self.spec.attributes.get("count_include_pad", 0)))


class _BlockedGlobalPool(Kernel):
    _reduce: ClassVar[np.ufunc]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One place for each channel."""
        x = _checked(self.spec, inputs, 1)[0]
        block_of(x.shape[1])
        return (TensorSpec((*x.shape[:2], 1, 1), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One reduction."""
        x, y = inputs[0], outputs[0]
        block = block_of(x.shape[1])
        made = y.reshape(x.shape[0], -1, block)
        self._reduce.reduce(_blocked(x, block), axis=(2, 3), out=made)
        if self._reduce is np.add:
            np.divide(y, x.shape[2] * x.shape[3], y)


@register("GlobalAveragePool", since_version=1, domain=_NCHWC)
class BlockedGlobalAveragePool(_BlockedGlobalPool):
    """The mean over all places."""

    _reduce = np.add


@register("GlobalMaxPool", since_version=1, domain=_NCHWC)
class BlockedGlobalMaxPool(_BlockedGlobalPool):
    """The largest value over all places."""

    _reduce = np.maximum


@register("Upsample", since_version=1, domain=_NCHWC)
class BlockedUpsample(Kernel):
    """Whole multiples of the height and the width, by nearest or linear interpolation."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        scales = attributes.get("scales") or [1] * 4
        if len(scales) != 4 or list(scales[:2]) != [1, 1] or min(scales) < 1:
            raise ValueError(f"nchwc Upsample expects scales [1, 1, h, w], got {list(scales)}")
        self._scales = np.array([1, *scales[2:], 1], np.float32)
        inner = {
            "mode": attributes.get("mode", "nearest"),
            "coordinate_transformation_mode": attributes.get(
                "coordinate_transformation_mode", "asymmetric"
            ),
            "nearest_mode": "floor",
        }
        self._resize = Resize(
            dataclasses.replace(
                spec, op_type="Resize", domain="", opset=13, attributes=inner, input_count=3
            )
        )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Height and width times their scales."""
        x = _checked(self.spec, inputs, 1)[0]
        block = block_of(x.shape[1])
        (found,) = self._resize.infer(self._planes(x, block))
        return (TensorSpec((*x.shape[:2], *found.shape[1:3]), x.dtype),)

    def _planes(self, x: Array, block: int) -> list[Array | None]:
        return [x.reshape(-1, *x.shape[2:], block), None, self._scales]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Resize, with a block's channels as one more axis."""
        x, y = inputs[0], outputs[0]
        block = block_of(x.shape[1])
        self._resize.compute(self._planes(x, block), [y.reshape(-1, *y.shape[2:], block)])
