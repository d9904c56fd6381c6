"""Where the elements of a resized axis come from: coordinates, neighbours and weights.

Formulas: https://onnx.ai/onnx/operators/onnx__Resize.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = [
    "AxisPlan",
    "Sampling",
    "Taps",
    "check",
    "coordinates",
    "cubic_kernel",
    "nearest",
    "weights",
]


class AxisPlan(NamedTuple):
    """One axis: *size* elements become *length*; ``start`` and ``end`` are those of the region of interest."""

    axis: int
    size: int
    length: int
    scale: float
    exact_length: float
    """size * scale, which is *length* but for its fraction where scales were given."""
    start: float = 0.0
    end: float = 1.0
    narrow: bool = False
    """True where the scale is a float32 that was given, as 0.6 is: coordinates are rounded like it, so that the place
    of 1.5 / 0.6 is 2.5."""


class Sampling(NamedTuple):
    """The attributes that decide coordinates and weights."""

    mode: str
    transformation: str
    rounding: str
    cubic: float
    excludes_outside: bool
    antialias: bool


class Taps(NamedTuple):
    """Element i of the result is the sum over t of ``weights[t, i] * x[positions[t, i]]``."""

    positions: Array
    weights: Array
    outside: Array | None
    """True where the extrapolation value stands instead; None where it never does."""


def _half_pixel(plan: AxisPlan, at: Array) -> Array:
    return (at + 0.5) / plan.scale - 0.5


def _symmetric(plan: AxisPlan, at: Array) -> Array:
    adjustment = plan.length / plan.exact_length
    return plan.size / 2 * (1 - adjustment) + (at + 0.5) / plan.scale - 0.5


def _pytorch(plan: AxisPlan, at: Array) -> Array:
    return _half_pixel(plan, at) if plan.length > 1 else np.zeros_like(at)


def _align_corners(plan: AxisPlan, at: Array) -> Array:
    if plan.exact_length == 1:
        return np.zeros_like(at)
    return at * (plan.size - 1) / (plan.exact_length - 1)


def _crop(plan: AxisPlan, at: Array) -> Array:
    last = plan.size - 1
    if plan.length == 1:
        return np.full_like(at, 0.5 * (plan.start + plan.end) * last)
    return plan.start * last + at * (plan.end - plan.start) * last / (plan.length - 1)


_TRANSFORMATIONS: Final[Mapping[str, Callable[[AxisPlan, Array], Array]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "align_corners": _align_corners,
    "asymmetric": lambda plan, at: at / plan.scale,
    "tf_half_pixel_for_nn": lambda plan, at: (at + 0.5) / plan.scale,
    "tf_crop_and_resize": _crop,
}

_ROUNDINGS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
    "simple": np.floor,
}
"""``simple`` is what Resize 10 does, which has no such attribute: ``ceil`` where an axis shrinks."""

_SLACK: Final = 1e-6
"""Of a length: as much may the place of the last element lie beyond the end, through rounding."""


def check(sampling: Sampling) -> None:
    """Raise where an attribute has a value that the operator does not know.

    Raises:
        ValueError: It has; the message says which values there are.
    """
    for name, value, known in (
        ("mode", sampling.mode, ("nearest", "linear", "bilinear", "cubic")),
        ("coordinate_transformation_mode", sampling.transformation, tuple(_TRANSFORMATIONS)),
        ("nearest_mode", sampling.rounding, tuple(_ROUNDINGS)),
    ):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, not {value!r}")


def coordinates(plan: AxisPlan, transformation: str) -> Array:
    """For each element of the result the place in the input that it stands for, float64 [length]."""
    at = np.arange(plan.length, dtype=np.float32 if plan.narrow else np.float64)
    return _TRANSFORMATIONS[transformation](plan, at).astype(np.float64)


def _outside(plan: AxisPlan, places: Array, transformation: str) -> Array | None:
    if transformation != "tf_crop_and_resize":
        return None
    slack = _SLACK * plan.size
    beyond: Array = (places < -slack) | (places > plan.size - 1 + slack)
    return beyond if beyond.any() else None


def nearest(plan: AxisPlan, sampling: Sampling) -> Taps:
    """One tap of weight 1 for each element."""
    places = coordinates(plan, sampling.transformation)
    shrinks = sampling.rounding == "simple" and plan.scale < 1
    rounded = _ROUNDINGS["ceil" if shrinks else sampling.rounding](places).astype(np.int64)
    positions = np.clip(rounded, 0, plan.size - 1)[None]
    outside = _outside(plan, places, sampling.transformation)
    return Taps(positions, np.ones((1, 1)), outside)


def cubic_kernel(distance: Array, a: float) -> Array:
    """Keys' convolution kernel (IEEE Trans. ASSP 29, 1981) with parameter *a*."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weights(plan: AxisPlan, sampling: Sampling) -> Taps:
    """The neighbours of each element and their weights, which add up to 1."""
    places = coordinates(plan, sampling.transformation)
    cubic = sampling.mode == "cubic"
    squeeze = min(plan.scale, 1.0) if sampling.antialias else 1.0
    reach = int(np.ceil((2 if cubic else 1) / squeeze))
    base = np.floor(places).astype(np.int64)
    positions = base + np.arange(1 - reach, reach + 1)[:, None]
    distance: Any = (positions - places) * squeeze
    factors = (
        cubic_kernel(distance, sampling.cubic) if cubic else np.maximum(1 - np.abs(distance), 0.0)
    )
    inside = (positions >= 0) & (positions < plan.size)
    if sampling.excludes_outside:
        factors = factors * inside
    if sampling.excludes_outside or sampling.antialias:
        factors = factors / factors.sum(axis=0)
    used = factors.any(axis=1)
    positions = np.clip(positions, 0, plan.size - 1)[used]
    return Taps(positions, factors[used], _outside(plan, places, sampling.transformation))
