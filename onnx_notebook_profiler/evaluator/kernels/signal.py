"""Signals: DFT, STFT, the windows Blackman, Hamming and Hann, MelWeightMatrix; com.microsoft's Rfft and Irfft.

https://onnx.ai/onnx/operators/ under these names. Transforms are numpy's fft; complex numbers are the last axis of 2,
and the work is in complex arrays of the signal's precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    element_type,
    integers,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["DFT", "STFT", "MelWeightMatrix", "RealTransform", "Window"]

_AXIS_AS_INPUT: Final = 20
_MS: Final = "com.microsoft"


def _complex(x: Array) -> Array:
    """[..., 1] or [..., 2] as numbers [...]: real, or complex."""
    wide = x.astype(row_type(x.dtype), copy=False)
    if x.shape[-1] == 1:
        return wide[..., 0]
    kind = np.complex128 if wide.dtype == np.float64 else np.complex64
    return np.ascontiguousarray(wide).view(kind)[..., 0]


def _store(value: Array, out: Array) -> None:
    """Complex or real numbers [...] into [..., 2] or [..., 1]."""
    np.copyto(out[..., 0], value.real, casting="unsafe")
    if out.shape[-1] == 2:
        np.copyto(out[..., 1], value.imag, casting="unsafe")


@register("DFT", since_version=17)
class DFT(Kernel):
    """The discrete Fourier transform of X [..., 1 or 2] along an axis; inverse, one-sided, of another length."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._inverse = bool(spec.attributes.get("inverse", 0))
        self._onesided = bool(spec.attributes.get("onesided", 0))

    def _plan(self, inputs: Sequence[Any]) -> tuple[int, int]:
        """Axis and length."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim < 2 or x.shape[-1] not in {1, 2}:
            raise ValueError(f"DFT expects X [..., 1] or [..., 2], got {list(x.shape)}")
        if self.spec.opset >= _AXIS_AS_INPUT:
            given = integers(inputs, 2)
            axis = -2 if given is None else given[0]
        else:
            axis = int(self.spec.attributes.get("axis", 1))
        axis = normalized_axis(self.spec, axis, x.ndim)
        if axis == x.ndim - 1:
            raise ValueError("DFT: the last axis holds real and imaginary parts")
        length = integers(inputs, 1)
        if length is not None:
            return axis, length[0]
        if self._inverse and self._onesided:
            return axis, 2 * (x.shape[axis] - 1)
        return axis, x.shape[axis]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The length of the transform along the axis, half of it and one where it is one-sided."""
        axis, length = self._plan(inputs)
        (x,) = operands(self.spec, inputs, 1)
        if length < 1:
            raise ValueError(f"DFT expects a length of 1 or more, got {length}")
        shape = list(x.shape)
        shape[axis] = length // 2 + 1 if self._onesided and not self._inverse else length
        shape[-1] = 1 if self._onesided and self._inverse else 2
        return (TensorSpec(tuple(shape), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of numpy's fft."""
        axis, length = self._plan(inputs)
        x = _complex(inputs[0])
        value: Any
        if self._inverse and self._onesided:
            value = np.fft.irfft(x, length, axis=axis)
        elif self._inverse:
            value = np.fft.ifft(x, length, axis=axis)
        elif self._onesided and not np.iscomplexobj(x):
            value = np.fft.rfft(x, length, axis=axis)
        else:
            value = np.fft.fft(x, length, axis=axis)
            value = np.take(value, range(outputs[0].shape[axis]), axis=axis)
        _store(value, outputs[0])


@register("STFT", since_version=17)
class STFT(Kernel):
    """signal [N, L, 1 or 2] -> [N, frames, bins, 2]: the transform of each windowed frame."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 3)

    def _plan(self, inputs: Sequence[Any]) -> tuple[int, int, int]:
        """Frame step, frame length and number of frames."""
        signal, step = operands(self.spec, inputs, 2)
        window: Any = inputs[2] if len(inputs) > 2 else None
        given = integers(inputs, 3)
        if given is None and window is None:
            raise ValueError("STFT needs a window or a frame_length")
        length = given[0] if given is not None else window.shape[0]
        hop = int(step.reshape(-1)[0])
        if hop < 1 or not 1 <= length <= signal.shape[1]:
            raise ValueError(
                f"STFT: frames of {length} every {hop} do not fit a signal of {signal.shape[1]}"
            )
        return hop, length, (signal.shape[1] - length) // hop + 1

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Half of the bins and one where it is one-sided."""
        (signal,) = operands(self.spec, inputs, 1)
        _, length, frames = self._plan(inputs)
        bins = length // 2 + 1 if self.spec.attributes.get("onesided", 1) else length
        return (TensorSpec((signal.shape[0], frames, bins, 2), signal.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Frames as a view, times the window, transformed at once."""
        hop, length, frames = self._plan(inputs)
        x = _complex(inputs[0] if inputs[0].ndim == 3 else inputs[0][..., None])
        view = np.lib.stride_tricks.sliding_window_view(x, length, axis=1)[:, ::hop][:, :frames]
        window = inputs[2] if len(inputs) > 2 else None
        if window is not None:
            gap = length - window.shape[0]
            window = np.pad(window, (gap // 2, gap - gap // 2)) if gap > 0 else window
            view = view * window.astype(x.real.dtype)
        bins = outputs[0].shape[2]
        if np.iscomplexobj(view) or bins == length:
            value = np.fft.fft(view, axis=2)[:, :, :bins]
        else:
            value = np.fft.rfft(view, axis=2)
        _store(value, outputs[0])


_COEFFICIENTS: Final = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}


@register("BlackmanWindow", since_version=17)
@register("HammingWindow", since_version=17)
@register("HannWindow", since_version=17)
class Window(Kernel):
    """A sum of cosines over ``size`` places; periodic, or symmetric."""

    value_inputs: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[size]."""
        size = (integers(inputs, 0) or [0])[0]
        dtype = element_type(int(self.spec.attributes.get("output_datatype", 1)))
        return (TensorSpec((size,), dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """In float64."""
        (y,) = outputs
        period = len(y) if self.spec.attributes.get("periodic", 1) else len(y) - 1
        angle = np.arange(len(y)) * (2 * math.pi / max(period, 1))
        total = np.zeros(len(y))
        for order, coefficient in enumerate(_COEFFICIENTS[self.spec.op_type]):
            total += coefficient * np.cos(order * angle)
        np.copyto(y, total, casting="unsafe")


@register("MelWeightMatrix", since_version=17)
class MelWeightMatrix(Kernel):
    """Triangular filters on the mel scale [dft_length / 2 + 1, bins]."""

    value_inputs: ClassVar[tuple[int, ...]] = (0, 1)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One column for each filter."""
        bins, length = ((integers(inputs, position) or [0])[0] for position in (0, 1))
        dtype = element_type(int(self.spec.attributes.get("output_datatype", 1)))
        return (TensorSpec((length // 2 + 1, bins), dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Corners equally spaced in mel up to one step below the upper edge, rounded down to places."""
        (y,) = outputs
        length, rate = int(inputs[1]), int(inputs[2])
        low, high = (2595 * np.log10(1 + float(edge) / 700) for edge in inputs[3:5])
        mels = low + np.arange(y.shape[1] + 2) * ((high - low) / (y.shape[1] + 2))
        corners = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
        y.fill(0)
        for number, (left, middle, right) in enumerate(
            zip(corners, corners[1:], corners[2:], strict=False)
        ):
            if middle == left:
                y[middle, number] = 1
            else:
                rising = np.arange(left, middle + 1)
                y[rising, number] = (rising - left) / (middle - left)
            if right > middle:
                falling = np.arange(middle, right)
                y[falling, number] = (right - falling) / (right - middle)


@register("Rfft", since_version=1, domain=_MS)
@register("Irfft", since_version=1, domain=_MS)
class RealTransform(Kernel):
    """Rfft: X [..., L] -> [..., L / 2 + 1, 2] over the last ``signal_ndim`` axes; Irfft is its inverse."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._axes = int(spec.attributes.get("signal_ndim", 1))
        self._norm: Any = "ortho" if spec.attributes.get("normalized", 0) else None

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One side of the spectrum, or the signal."""
        (x,) = operands(self.spec, inputs, 1)
        if self.spec.op_type == "Rfft":
            return (TensorSpec((*x.shape[:-1], x.shape[-1] // 2 + 1, 2), x.dtype),)
        return (TensorSpec((*x.shape[:-2], 2 * (x.shape[-2] - 1)), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of numpy's fft."""
        (y,) = outputs
        axes = range(-self._axes, 0)
        if self.spec.op_type == "Rfft":
            x = inputs[0].astype(FLOAT32 if inputs[0].dtype.char == "e" else inputs[0].dtype)
            _store(np.fft.rfftn(x, axes=axes, norm=self._norm), y)
        else:
            value = _complex(inputs[0])
            sizes = y.shape[-self._axes :]
            np.copyto(y, np.fft.irfftn(value, sizes, axes=axes, norm=self._norm), casting="unsafe")
