"""GridSample and AffineGrid: X [N, C, D1, ...] read at the places that a grid [N, O1, ..., axes] names.

https://onnx.ai/onnx/operators/onnx__GridSample.html, onnx__AffineGrid.html; Jaderberg et al., Spatial Transformer
Networks (2015). Places run from -1 to 1, the last axis first. Scratch: places, weights and one tap for a block of
65,536 results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._resample import cubic_kernel
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["AffineGrid", "GridSample"]

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
_A: Final = -0.75
_BLOCK: Final = 2**16
_FAR: Final = 2.0**40
"""Stands for an infinite place; NaN stands for the first one."""


@register("GridSample", since_version=16)
@register("GridSample", since_version=1, domain="com.microsoft")
class GridSample(Kernel):
    """Nearest, linear or cubic samples; outside are zeros, the border, or a reflection."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        mode = str(attributes.get("mode", "bilinear"))
        self._mode = _MODES.get(mode, mode)
        self._padding = str(attributes.get("padding_mode", "zeros"))
        self._aligned = bool(attributes.get("align_corners", 0))
        if self._mode not in {"nearest", "linear", "cubic"}:
            raise ValueError(f"GridSample knows the modes nearest, linear and cubic, not {mode!r}")
        if self._padding not in {"zeros", "border", "reflection"}:
            raise ValueError(f"padding_mode is zeros, border or reflection, not {self._padding!r}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, C, O1, ...]."""
        x, grid = operands(self.spec, inputs, 2)
        if (
            x.ndim < 3
            or grid.ndim != x.ndim
            or grid.shape[-1] != x.ndim - 2
            or grid.shape[0] != x.shape[0]
        ):
            raise ValueError(
                f"GridSample expects X [N, C, D1, ...] and a grid [N, O1, ..., axes], got {list(x.shape)} and "
                f"{list(grid.shape)}"
            )
        if 0 in x.shape[2:] and 0 not in grid.shape:
            raise ValueError(f"GridSample has no element to sample in X {list(x.shape)}")
        return (TensorSpec((*x.shape[:2], *grid.shape[1:-1]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Item by item, a block of places at a time."""
        x, grid = inputs
        (y,) = outputs
        sizes = x.shape[2:]
        wide = row_type(x.dtype) if x.dtype.kind == "f" else np.dtype(np.float64)
        count = math.prod(grid.shape[1:-1])
        block = max(1, _BLOCK // max(x.shape[1], 1))
        for item in range(x.shape[0]):
            flat = x[item].reshape(x.shape[1], -1)
            places = grid[item].reshape(count, -1)
            target = y[item].reshape(x.shape[1], count)
            for start in range(0, count, block):
                part = places[start : start + block].astype(np.float64)
                if not np.isfinite(part).all():
                    part = np.nan_to_num(part, nan=-1.0, posinf=_FAR, neginf=-_FAR)
                axes = [self._place(part[:, -1 - axis], size) for axis, size in enumerate(sizes)]
                values = self._sample(flat, axes, sizes, wide)
                np.copyto(target[:, start : start + block], values, casting="unsafe")

    def _place(self, at: Array, size: int) -> Array:
        """Coordinates in elements, brought inside as the padding says; at a border cubic taps are, one by one."""
        if self._aligned:
            place = (at + 1) / 2 * (size - 1)
            low, high = 0.0, size - 1.0
        else:
            place = ((at + 1) * size - 1) / 2
            low, high = -0.5, size - 0.5
        if self._mode == "nearest":
            place = np.rint(place)
        if self._padding == "border" and self._mode != "cubic":
            return np.clip(place, 0, size - 1)
        return _reflected(place, low, high) if self._padding == "reflection" else place

    def _taps(self, place: Array, size: int) -> list[tuple[Array, Array]]:
        """Neighbours along one axis, each with its weights; what lies outside has weight 0 where zeros are there."""
        base = np.floor(place)
        part = place - base
        if self._mode == "nearest":
            weights = [(np.rint(place), np.ones_like(place))]
        elif self._mode == "linear":
            weights = [(base, 1 - part), (base + 1, part)]
        else:
            weights = [(base + shift, cubic_kernel(part - shift, _A)) for shift in range(-1, 3)]
        found = []
        for position, weight in weights:
            if self._padding == "zeros":
                inside = (position >= 0) & (position <= size - 1)
                found.append((np.clip(position, 0, size - 1).astype(np.intp), weight * inside))
                continue
            if self._padding == "reflection":
                low, high = (0.0, size - 1.0) if self._aligned else (-0.5, size - 0.5)
                position = _reflected(position, low, high)  # noqa: PLW2901 - the same place, inside
            found.append((np.clip(position, 0, size - 1).astype(np.intp), weight))
        return found

    def _sample(
        self, flat: Array, places: Sequence[Array], sizes: Sequence[int], wide: Any
    ) -> Array:
        """[C, places]."""
        total: Any = None
        ways = [self._taps(place, size) for place, size in zip(places, sizes, strict=True)]
        for taps in itertools.product(*ways):
            index: Any = 0
            weight: Any = 1.0
            for (position, factor), size in zip(taps, sizes, strict=True):
                index = index * size + position
                weight = weight * factor
            value = np.take(flat, index, axis=1).astype(wide, copy=False) * weight.astype(wide)
            total = value if total is None else np.add(total, value, total)
        result: Array = total
        return result


def _reflected(place: Array, low: float, high: float) -> Array:
    """*place* mirrored at both ends until it lies between them."""
    span = high - low
    if span <= 0:
        return np.full_like(place, low)
    beyond = np.mod(place - low, 2 * span)
    return low + np.where(beyond > span, 2 * span - beyond, beyond)


@register("AffineGrid", since_version=20)
class AffineGrid(Kernel):
    """theta [N, axes, axes + 1] and a size [N, C, D1, ...] -> the grid [N, D1, ..., axes] of its places, moved."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One place for each element."""
        theta, size = operands(self.spec, inputs, 2)
        axes = size.size - 2
        if axes not in {2, 3} or theta.shape != (int(size[0]), axes, axes + 1):
            raise ValueError(
                f"AffineGrid: theta {list(theta.shape)} does not fit the size {size.tolist()}"
            )
        return (TensorSpec((int(size[0]), *map(int, size[2:]), axes), theta.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One product of all places with each matrix."""
        theta, (grid,) = inputs[0], outputs
        sizes = grid.shape[1:-1]
        lines = []
        for size in sizes:
            if self.spec.attributes.get("align_corners", 0):
                lines.append(np.linspace(-1, 1, size) if size > 1 else np.zeros(1))
            else:
                lines.append((2 * np.arange(size) + 1) / size - 1)
        mesh = np.meshgrid(*lines, indexing="ij")
        places = np.stack([*reversed(mesh), np.ones(sizes)], axis=-1).reshape(-1, len(sizes) + 1)
        wide = row_type(theta.dtype)
        made = np.matmul(places.astype(wide), theta.astype(wide).swapaxes(1, 2))
        np.copyto(grid, made.reshape(grid.shape), casting="unsafe")
