"""The error function, which numpy lacks.

The value is looked up at the nearest of 256 points per unit, and a Taylor polynomial leads from
there to the argument. The derivatives of erf are Hermite polynomials times its density, so the
tables follow from ``math.erf`` and the recurrence of those polynomials. Errors stay below two units
in the last place.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["erf"]

_POINTS_PER_UNIT: Final = 256
_LIMIT: Final = 6.0  # 1 - erf(6) is below half a unit in float64's last place
_TERMS: Final = {"f": 4, "d": 6}


def _table(char: str) -> Array:
    """Row k: the k-th Taylor coefficient at each point, in the type that *char* names."""
    points = np.arange(round(_LIMIT * _POINTS_PER_UNIT) + 1) / _POINTS_PER_UNIT
    rows = [np.array([math.erf(point) for point in points])]
    before, hermite = np.zeros_like(points), np.ones_like(points)
    density = np.exp(-points * points) * (2.0 / math.sqrt(math.pi))
    for order in range(1, _TERMS[char]):
        sign = -1.0 if order % 2 == 0 else 1.0
        rows.append(sign * hermite * density / math.factorial(order))
        before, hermite = hermite, 2.0 * points * hermite - 2.0 * (order - 1) * before
    return np.stack(rows).astype(char)


# Made on import: what a run of a model allocates is that model's.
_TABLES: Final = {char: _table(char) for char in _TERMS}


def erf(x: Array, out: Array) -> None:
    """Fill *out* with erf of *x*; both are float32 or float64, of one dimension, and distinct."""
    tables: Any = _TABLES[x.dtype.char]
    np.absolute(x, out)
    np.fmin(out, _LIMIT, out)
    place = np.rint(out * _POINTS_PER_UNIT)
    np.subtract(out, place / _POINTS_PER_UNIT, out)
    index = place.astype(np.intp)
    value = tables[-1].take(index)
    for row in tables[-2::-1]:
        np.multiply(value, out, value)
        np.add(value, row.take(index), value)
    np.copysign(value, x, out)
    np.copyto(out, x, where=np.isnan(x))
