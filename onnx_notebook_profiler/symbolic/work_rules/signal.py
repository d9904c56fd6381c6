"""Fourier transforms and what goes with them. A transform of n complex numbers is 5 n ⌈log2 n⌉ FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.costs import cost
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import MS, Work, flops, rule

__all__: list[str] = []

_AXIS_INPUT_OPSET = 20
_WINDOWS: Final[Mapping[str, int]] = {"BlackmanWindow": 2, "HammingWindow": 1, "HannWindow": 1}


def _transform(node: PricedNode, length: Expr, *, halved: bool) -> int:
    """FLOPs of one transform of *length*; half of them where one half of the numbers says all."""
    full = 5 * length.value * node.bits(length, "n") if length.is_constant else 0
    if not length.is_constant:
        node.bits(length, "n")
    return full // 2 if halved else full


def _axis(node: PricedNode) -> int:
    if node.opset < _AXIS_INPUT_OPSET:
        return int(node.attribute("axis", 1))
    axis = node.number(2) if node.has(2) else -2
    if axis is None:
        raise UnknownWork("the axis is computed by the model")
    return int(axis)


@rule("DFT")
def _dft(node: PricedNode) -> Work:
    """5 n ⌈log2 n⌉ for each transform, half of it where one side is left out; unknown for a symbolic n."""
    shape, result = node.shape(0), node.output().shape
    axis = _axis(node) % len(shape)
    halved = bool(node.attribute("onesided", 0))
    length = result[axis]
    if halved and not node.attribute("inverse", 0):
        length = _given_length(node, 1) or shape[axis]
    count = Expr.product(size for place, size in enumerate(shape[:-1]) if place != axis)
    return flops(count * _transform(node, length, halved=halved))


def _given_length(node: PricedNode, position: int) -> Expr | None:
    """The length that an input gives; None where there is no such input."""
    if not node.has(position):
        return None
    number = node.number(position)
    if number is None:
        raise UnknownWork("the length is computed by the model")
    return Expr.constant(int(number))


@rule("STFT")
def _stft(node: PricedNode) -> Work:
    """For each frame a product with the window for each number, then as DFT."""
    length = node.shape(2, 1)[0] if node.has(2) else _given_length(node, 3)
    if length is None:
        raise UnknownWork("neither a window nor frame_length is given")
    batch, frames = node.output().shape[:2]
    transform = _transform(node, length, halved=bool(node.attribute("onesided", 1)))
    return flops(batch * frames * (length * int(node.has(2)) + transform))


@rule("Irfft", "Rfft", domain=MS)
def _real_transforms(node: PricedNode) -> Work:
    """Half of 5 n ⌈log2 n⌉ for each signal, n being all its numbers over ``signal_ndim`` axes; n has to be fixed."""
    axes = int(node.attribute("signal_ndim", 1))
    real = node.shape(0) if node.op_type == "Rfft" else node.output().shape
    if len(real) < axes or axes < 1:
        raise UnknownWork(f"the signal has {len(real)} axes, expected {axes}")
    signal = Expr.product(real[-axes:])
    count = Expr.product(real[:-axes])
    return flops(count * _transform(node, signal, halved=True))


@rule(*_WINDOWS)
def _window(node: PricedNode) -> Work:
    """For each output element a cosine, a product and a sum, Blackman's twice; and the angle."""
    return flops(node.made * (_WINDOWS[node.op_type] * (cost("Cos") + 2) + 1))


@rule("MelWeightMatrix")
def _mel(node: PricedNode) -> Work:
    """4 for each output element: a slope is a difference, a division and two comparisons."""
    return flops(node.made * 4)
