"""Interpolation on grids: axis by axis, a sum of products of the taps of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div, maximum
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import ZERO, Work, flops, macs, rule

__all__: list[str] = []

_TAPS: Final = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


def _taps(mode: str) -> int:
    """Taps along one axis; 0 for nearest, which only moves data."""
    if mode != "nearest" and mode not in _TAPS:
        raise UnknownWork(f"the mode is {mode[:20]!r}, expected nearest, linear or cubic")
    return _TAPS.get(mode, 0)


def _folded(taps: Sequence[Expr | int]) -> Expr:
    """FLOPs for one result: the last axis first, each of its sums for every combination of taps of the axes before."""
    total, combinations = ZERO, Expr.constant(1)
    for count in taps:
        combinations = combinations * count
        total = total + combinations * 2
    return total


@rule("Upsample", domain="com.microsoft.nchwc")
@rule("Resize", "Upsample")
def _resize(node: PricedNode) -> Work:
    """Nearest none; else for each output element 2 (t1 + t1 t2 + …), over the taps t of the axes whose size changes.

    Linear has 2 taps, cubic 4, and with antialias as many times more as the axis shrinks.
    """
    count = _taps(str(node.attribute("mode", "nearest")))
    if not count:
        return flops(0)
    pairs = list(zip(node.shape(0), node.output().shape, strict=True))
    wide = bool(node.attribute("antialias", 0))
    taps = [
        maximum(count, ceil_div(old * count, new)) if wide else count
        for old, new in pairs
        if old != new
    ]
    return flops(node.made * _folded(taps))


@rule("GridSample", domain="com.microsoft")
@rule("GridSample")
def _grid_sample(node: PricedNode) -> Work:
    """3 for each number of the grid, then as Resize over all spatial axes for each output element."""
    count = _taps(str(node.attribute("mode", "linear")))
    taps = [count] * (len(node.shape(0)) - 2) if count else []
    return flops(node.size(1) * 3 + node.made * _folded(taps))


@rule("AffineGrid")
def _affine_grid(node: PricedNode) -> Work:
    """For each number of the grid n + 1 MACs, n being the number of spatial axes."""
    return macs(node.made * node.shape(0, 3)[2])
