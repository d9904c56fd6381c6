"""Proofs for sums of roundings: sizes fall into classes by their rest, and in each class the roundings are exact.

With ``H = 4*q + r`` the terms ``(H+1)//2`` and ``(H+3)//4`` are ``2*q + (r+1)//2`` and ``q + (r+3)//4``. A form whose
roundings are all of this kind is a polynomial in the quotients, one for each combination of rests; it is never negative
where none of these polynomials has a negative coefficient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.symbolic.atoms import Atom, Operation, Symbol
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.polynomial import ONE, Monomial

__all__ = ["class_table", "holds_in_every_class", "is_nonnegative_atom", "linear_floor"]

_MAX_CLASSES = 16_384
_MAX_ENTRIES = 30_000_000
_SAFE = 2.0**59
"""Leaves room for a sum of some coefficients in 64 bits."""

_Exponents = tuple[tuple[int, int], ...]
_Polynomial = dict[_Exponents, npt.NDArray[Any]]
"""Coefficients of the products of variables, each for all classes at once."""


def is_nonnegative_atom(atom: Atom) -> bool:
    """True where the form shows that *atom* is 0 or more for sizes of 0 and more."""
    return Expr({((atom, 1),): 1}).is_nonnegative


def linear_floor(atom: Atom) -> tuple[str, int, int, int] | None:
    """(size, a, b, d) of an atom ``(a*size + b)//d`` with a and d above 0; None for any other."""
    if atom.op is not Op.FLOOR or not atom.args[1].is_constant or atom.args[1].value <= 0:
        return None
    num = atom.args[0]
    terms = [(monomial, factor) for monomial, factor in num.terms.items() if monomial != ONE]
    if len(terms) != 1:
        return None
    monomial, factor = terms[0]
    if factor <= 0 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    size = monomial[0][0]
    if not isinstance(size, Symbol):
        return None
    return size.name, factor, num.terms.get(ONE, 0), atom.args[1].value


def holds_in_every_class(terms: Mapping[Monomial, Fraction]) -> bool:
    """True where the sum is proved to be 0 or more for all sizes of 0 and more."""
    scale = lcm(*(factor.denominator for factor in terms.values())) if terms else 1
    table = class_table([{monomial: int(factor * scale) for monomial, factor in terms.items()}])
    return table is not None and bool(np.all(table >= 0))


def class_table(sums: Sequence[Mapping[Monomial, int]]) -> npt.NDArray[Any] | None:
    """Coefficients of each sum [sums, products of variables, classes]; the constant comes first.

    One sum is never below another where none of its coefficients is. None where there are too many classes, or a part
    that may be negative.
    """
    atoms = {atom for terms in sums for monomial in terms for atom, _ in monomial}
    opaque = [atom for atom in atoms if isinstance(atom, Operation) and linear_floor(atom) is None]
    if not all(map(is_nonnegative_atom, opaque)):
        return None
    periods = _periods(atoms)
    count = prod(periods.values())
    if count > _MAX_CLASSES:
        return None
    largest: dict[Monomial, int] = {}
    for terms in sums:
        for monomial, factor in terms.items():
            largest[monomial] = max(largest.get(monomial, 0), abs(factor))
    classes = _Classes(periods, {atom: number for number, atom in enumerate(opaque)}, largest)
    products = {monomial: classes.product(monomial) for monomial in largest}
    places: dict[_Exponents, int] = {(): 0}
    for product in products.values():
        for exponents in product:
            places.setdefault(exponents, len(places))
    if len(sums) * len(places) * count > _MAX_ENTRIES:
        return None
    table = np.zeros((len(sums), len(places), *periods.values()), classes.dtype)
    for row, terms in zip(table, sums, strict=True):
        for monomial, factor in terms.items():
            for exponents, values in products[monomial].items():
                row[places[exponents]] += values * factor
    return table.reshape(len(sums), len(places), count)


def _periods(atoms: set[Atom]) -> dict[str, int]:
    """After how many steps of a size the rests of all its roundings repeat."""
    periods = {atom.name: 1 for atom in atoms if isinstance(atom, Symbol)}
    for atom in atoms:
        if (found := linear_floor(atom)) is not None:
            name, factor, _, divisor = found
            periods[name] = lcm(periods.get(name, 1), divisor // gcd(factor, divisor))
    return periods


class _Classes:
    """Atoms as polynomials in quotients (variables 0, 1, …) and opaque atoms (the variables after them)."""

    def __init__(
        self,
        periods: Mapping[str, int],
        opaque: Mapping[Atom, int],
        factors: Mapping[Monomial, int],
    ) -> None:
        self._periods = periods
        self._places = {name: place for place, name in enumerate(periods)}
        self._opaque = {atom: len(periods) + number for atom, number in opaque.items()}
        self._known: dict[Atom, _Polynomial] = {}
        self.dtype: np.dtype[Any] = np.dtype(np.int64 if self._bound(factors) < _SAFE else object)

    def product(self, monomial: Monomial) -> _Polynomial:
        """The product of the monomial's atoms."""
        result: _Polynomial = {(): np.ones((1,) * len(self._periods), self.dtype)}
        for atom, power in monomial:
            if atom not in self._known:
                self._known[atom] = self._atom(atom)
            for _ in range(power):
                result = _multiply(result, self._known[atom])
        return result

    def _line(self, atom: Atom) -> tuple[str, int, int, int] | None:
        return (atom.name, 1, 0, 1) if isinstance(atom, Symbol) else linear_floor(atom)

    def _atom(self, atom: Atom) -> _Polynomial:
        line = self._line(atom)
        one = np.ones((1,) * len(self._periods), self.dtype)
        if line is None:
            return {((self._opaque[atom], 1),): one}
        name, factor, offset, divisor = line
        period, place = self._periods[name], self._places[name]
        rests = [(factor * rest + offset) // divisor for rest in range(period)]
        shape = [1] * len(self._periods)
        shape[place] = period
        constants = np.array(rests, self.dtype).reshape(shape)
        return {((place, 1),): one * (factor * period // divisor), (): constants}

    def _bound(self, factors: Mapping[Monomial, int]) -> float:
        """More than any number that the products can hold."""
        total = 0.0
        for monomial, factor in factors.items():
            size = abs(float(factor))
            for atom, power in monomial:
                line = self._line(atom)
                if line is not None:
                    name, slope, offset, divisor = line
                    step = slope * self._periods[name] / divisor
                    size *= (2 * step + abs(offset) / divisor + 2) ** power
            total += size
        return total


def _multiply(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    result: _Polynomial = {}
    for ours, first in left.items():
        for theirs, second in right.items():
            powers = dict(ours)
            for variable, power in theirs:
                powers[variable] = powers.get(variable, 0) + power
            exponents = tuple(sorted(powers.items()))
            values = first * second
            result[exponents] = result[exponents] + values if exponents in result else values
    return result
