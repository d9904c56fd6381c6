"""Integer arithmetic on arrays of sizes that never overflows unnoticed.

Every array carries a bound of its absolute values; a result whose bound reaches 2^62, or that has
no value at some size, is None, and the caller then computes with Python integers. Who collects the
holes gets a value there that means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnx_notebook_profiler.symbolic.operations import Op

_SAFE = 2.0**62


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values [1] or [sizes], and a bound of their absolute values."""

    values: NDArray[np.int64]
    bound: float

    @staticmethod
    def of(values: int | NDArray[np.int64]) -> Bounded:
        """Wrap an int or an array of one axis that is not empty."""
        array = np.atleast_1d(np.asarray(values, dtype=np.int64))
        return Bounded(array, max(abs(float(array.min())), abs(float(array.max()))))


def product(factors: Sequence[tuple[Bounded, int]]) -> Bounded | None:
    """Return the product of powers."""
    values, bound = np.ones(1, dtype=np.int64), 1.0
    for factor, power in factors:
        for _ in range(power):
            bound *= factor.bound
            if bound >= _SAFE:
                return None
            values = values * factor.values
    return Bounded(values, bound)


def combined(terms: Sequence[tuple[Bounded, int]]) -> Bounded | None:
    """Return the sum of values times coefficients."""
    values, bound = np.zeros(1, dtype=np.int64), 0.0
    for term, coefficient in terms:
        bound += abs(float(coefficient)) * term.bound
        if bound >= _SAFE or abs(coefficient) >= _SAFE:
            return None
        values = values + term.values * coefficient
    return Bounded(values, bound)


Holes = list[NDArray[np.bool_]]
"""For each operation that has no value at some sizes, at which."""


def array_value(
    op: Op, args: Sequence[Bounded | None], holes: Holes | None = None
) -> Bounded | None:
    """Return the operation, with the meaning of `integer_value`, element by element."""

    def is_hole(where: NDArray[np.bool_]) -> bool:
        if holes is not None:
            holes.append(where)
        return holes is None

    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    if op in (Op.MAX, Op.MIN, Op.BROADCAST):
        values = known[0].values
        for arg in known[1:]:
            if op is Op.BROADCAST:
                apart = (values != 1) & (arg.values != 1) & (values != arg.values)
                if np.any(apart) and is_hole(apart):
                    return None
                values = np.where(values == 1, arg.values, values)
            else:
                values = (np.maximum if op is Op.MAX else np.minimum)(values, arg.values)
        return Bounded.of(values)
    num, den = known[0].values, known[1].values
    if not np.all(den):
        if is_hole(den == 0):
            return None
        den = np.where(den == 0, 1, den)
    if op is Op.FLOOR:
        return Bounded.of(num // den)
    rest = np.fmod(num, den)
    if op is Op.MOD:
        return Bounded.of(rest)
    return None if np.any(rest) and is_hole(rest != 0) else Bounded.of(num // den)
