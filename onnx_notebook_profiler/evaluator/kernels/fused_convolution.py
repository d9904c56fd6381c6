"""Convolutions that onnxruntime's optimiser writes: with a sum and an activation, and with channels last.

FusedConv, NhwcConv and NhwcFusedConv of com.microsoft (ContribOperators.md of onnxruntime), Conv of
com.ms.internal.nhwc. X is [N, C, D1, ...], or [N, D1, ..., C] with channels last; W is [M, C / group, K1, ...] in both;
B [M] and Z, which looks like Y, are added before the activation. Scratch: as for Conv; with channels last W in another
order comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._channels_last import (
    After,
    convolve_each_channel,
    convolve_last,
)
from onnx_notebook_profiler.evaluator.kernels._finish import Activate, Finish
from onnx_notebook_profiler.evaluator.kernels._fused_activations import fused_activation
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands, same_type
from onnx_notebook_profiler.evaluator.kernels._windows import sliding
from onnx_notebook_profiler.evaluator.kernels.convolution import check_operands, convolution
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ChannelsLastConv", "FusedConv", "finishing"]

_MS: Final = "com.microsoft"


class _Fused(Kernel):
    """What both layouts share: operands, and an addend that looks like the result."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._group: int = spec.attributes.get("group", 1)
        self._activate = fused_activation(spec)

    def _inferred(self, inputs: Sequence[Array | None], x: Array) -> tuple[int, ...]:
        """Y's batch, filters and windows, for *x* with its channels second."""
        w = operands(self.spec, inputs, 2)[1]
        bias = inputs[2] if len(inputs) > 2 else None
        check_operands(self.spec, x, w, bias, self._group)
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        return (x.shape[0], w.shape[0], *windows.counts)

    def _output(
        self, inputs: Sequence[Array | None], shape: tuple[int, ...]
    ) -> Sequence[TensorSpec]:
        x, w = operands(self.spec, inputs, 2)
        addend = inputs[3] if len(inputs) > 3 else None
        dtype = same_type(self.spec, (x, w) if addend is None else (x, w, addend))
        if addend is not None and addend.shape != shape:
            raise ValueError(f"{self.spec.op_type}: Z looks like Y {shape}, not {addend.shape}")
        return (TensorSpec(shape, dtype),)


@register("FusedConv", since_version=1, domain=_MS)
class FusedConv(_Fused):
    """Convolution, plus B, plus Z, then an activation, while each piece of the result is in the cache."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As Conv."""
        x = operands(self.spec, inputs, 2)[0]
        return self._output(inputs, self._inferred(inputs, x))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As Conv, with more to do at the end."""
        x, w, bias, addend = (*inputs, None, None)[:4]
        finish = Finish.of(bias, self._group, addend, self._activate)
        windows = sliding(self.spec, x.shape[2:], w.shape[2:])
        convolution(x, w, outputs[0], windows, self._group, finish)


@register("NhwcConv", since_version=1, domain=_MS)
@register("NhwcFusedConv", since_version=1, domain=_MS)
@register("Conv", since_version=1, domain="com.ms.internal.nhwc")
class ChannelsLastConv(_Fused):
    """The same with X [N, D1, ..., C], Y and Z [N, E1, ..., M]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As Conv, with the channels last."""
        x = operands(self.spec, inputs, 2)[0]
        batch, filters, *counts = self._inferred(inputs, np.moveaxis(x, -1, 1))
        return self._output(inputs, (batch, *counts, filters))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Windows as rows of a matrix, one group after the other; or channel by channel where each has one filter."""
        x, w, bias, addend = (*inputs, None, None)[:4]
        y, group = outputs[0], self._group
        if not y.size:
            return
        batch, filters, channels = x.shape[0], w.shape[0], w.shape[1]
        windows = sliding(self.spec, x.shape[1:-1], w.shape[2:])
        if y.dtype.char not in "fd":
            w = w.astype(FLOAT32)
        given = x.reshape(batch, 1, *x.shape[1:])
        made = y.reshape(batch, 1, -1, filters)
        last = np.moveaxis(w, (0, 1), (-1, -2))  # [K1, ..., C / group, M]
        if channels == 1 and filters == group:
            weights = np.ascontiguousarray(last.reshape(1, *w.shape[2:], filters))
            after = finishing(bias, addend, self._activate, (batch, 1, -1, filters))
            convolve_each_channel(given, weights, made, windows, after)
            return
        each = filters // group
        for number in range(group):
            part = slice(number * each, (number + 1) * each)
            matrix = np.ascontiguousarray(last[..., part]).reshape(1, -1, each)
            after = finishing(
                None if bias is None else bias[part],
                None if addend is None else addend[..., part],
                self._activate,
                (batch, 1, -1, each),
            )
            own = given[..., number * channels : (number + 1) * channels]
            convolve_last(own, matrix, made[..., part], windows, after)


def finishing(
    bias: Array | None,
    addend: Array | None,
    activate: Activate | None,
    shape: tuple[int, ...],
) -> After | None:
    """What follows a tile of Y, whose *shape* is [N, block, window, filter]; None where nothing does."""
    if bias is None and addend is None and activate is None:
        return None
    offsets = None if bias is None else bias.reshape(shape[1], 1, shape[3])
    added = None if addend is None else addend.reshape(shape)

    def after(tile: Array, item: int, blocks: slice, places: slice) -> None:
        if offsets is not None:
            np.add(tile, offsets[blocks], tile, casting="unsafe")
        if added is not None:
            np.add(tile, added[item, blocks, places], tile, casting="unsafe")
        if activate is not None:
            activate(tile)

    return after
