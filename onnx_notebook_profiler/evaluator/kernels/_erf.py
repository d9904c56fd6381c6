"""The error function, which numpy lacks.

The value is looked up at the nearest of many points, and a Taylor polynomial leads from there to the argument: in
float32 a straight line from one of 4096 points per unit, in float64 one of degree 5 from one of 256. The derivatives of
erf are Hermite polynomials times its density, so the tables follow from ``math.erf`` and the recurrence of those
polynomials. Errors stay below two units in the last place.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["erf"]

_DOUBLE_POINTS: Final = 256
_DOUBLE_LIMIT: Final = 6.0  # 1 - erf(6) is below half a unit in float64's last place
_DOUBLE_TERMS: Final = 6
_POINTS: Final = np.float32(4096)
_LIMIT: Final = np.float32(4)  # the same in float32
_MIDDLE: Final = _POINTS * _LIMIT


def _coefficients(points: Array, terms: int) -> list[Array]:
    """Entry k: the k-th Taylor coefficient at each point."""
    rows = [np.array([math.erf(point) for point in points.tolist()])]
    before, hermite = np.zeros_like(points), np.ones_like(points)
    density = np.exp(-points * points) * (2.0 / math.sqrt(math.pi))
    for order in range(1, terms):
        sign = -1.0 if order % 2 == 0 else 1.0
        rows.append(sign * hermite * density / math.factorial(order))
        before, hermite = hermite, 2.0 * points * hermite - 2.0 * (order - 1) * before
    return rows


def _line_tables() -> tuple[Array, Array]:
    """Values, and rises from one point to the next, from minus the limit on."""
    value, slope = _coefficients(np.arange(int(_MIDDLE) + 1) / float(_POINTS), 2)
    values = np.concatenate([-value[:0:-1], value])
    rises = np.concatenate([slope[:0:-1], slope]) / float(_POINTS)
    return values.astype(np.float32), rises.astype(np.float32)


# Made on import: what a run of a model allocates is that model's.
_VALUES, _RISES = _line_tables()
_DOUBLE_ROWS: Final = _coefficients(
    np.arange(round(_DOUBLE_LIMIT * _DOUBLE_POINTS) + 1) / _DOUBLE_POINTS, _DOUBLE_TERMS
)


def erf(x: Array, out: Array) -> None:
    """Fill *out* with erf of *x*; both are float32 or float64, of one dimension, and distinct."""
    if x.dtype.char == "d":
        _erf_double(x, out)
        return
    np.minimum(x, _LIMIT, out=out)
    np.maximum(out, -_LIMIT, out=out)
    np.multiply(out, _POINTS, out)
    place = np.rint(out)
    np.subtract(out, place, out)
    np.add(place, _MIDDLE, place)
    index = place.astype(np.intp)
    _RISES.take(index, mode="clip", out=place)
    np.multiply(out, place, out)
    _VALUES.take(index, mode="clip", out=place)
    np.add(out, place, out)


def _erf_double(x: Array, out: Array) -> None:
    np.absolute(x, out)
    np.fmin(out, _DOUBLE_LIMIT, out)
    place = np.rint(out * _DOUBLE_POINTS)
    np.subtract(out, place / _DOUBLE_POINTS, out)
    index = place.astype(np.intp)
    value = _DOUBLE_ROWS[-1].take(index)
    for row in _DOUBLE_ROWS[-2::-1]:
        np.multiply(value, out, value)
        np.add(value, row.take(index), value)
    np.copysign(value, x, out)
    np.copyto(out, x, where=np.isnan(x))
