"""Shortens sums of floor divisions: x//2 + (x+1)//2 is x."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from onnx_notebook_profiler.symbolic.atoms import Operation
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.polynomial import (
    ONE,
    Monomial,
    Terms,
    add_terms,
    divide_monomials,
    multiply_monomials,
    multiply_terms,
)

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.expression import Expr

_MAX_DIVISOR = 16


class _Floors(NamedTuple):
    """Terms cofactor*((base+k)//divisor) of one sum, which differ in k alone."""

    cofactor: Monomial
    divisor: int
    base: Expr
    monomials: dict[int, Monomial]


def merge_floors(expr: Expr) -> dict[Monomial, int] | None:
    """Return a shorter sum by x == x//d + (x+1)//d + ... + (x+d-1)//d, or None.

    The identity holds for every integer x and every d > 0, so that it may be added any number of
    times; it is added where the sum then has fewer terms, or as many with fewer divisions.
    """
    terms = dict(expr.terms)
    changed = False
    for group in _groups(expr):
        present = {k: terms.get(monomial, 0) for k, monomial in group.monomials.items()}
        present = {k: coefficient for k, coefficient in present.items() if coefficient}
        for shift in sorted(set(present.values())):
            if _helps(terms, group, present, shift):
                identity = add_terms([(1, group.base.terms), *((-1, f) for f in _floors(group))])
                _add_into(terms, multiply_terms({group.cofactor: shift}, identity))
                changed = True
                break
    return terms if changed else None


def _add_into(terms: dict[Monomial, int], added: Terms) -> None:
    for monomial, coefficient in added.items():
        total = terms.pop(monomial, 0) + coefficient
        if total:
            terms[monomial] = total


def _floors(group: _Floors) -> list[dict[Monomial, int]]:
    divisor = group.base.constant(group.divisor)
    return [
        dict(group.base.operation(Op.FLOOR, group.base + k, divisor).terms)
        for k in range(group.divisor)
    ]


def _groups(expr: Expr) -> list[_Floors]:
    groups: dict[tuple[Monomial, int, Expr], _Floors] = {}
    for monomial in expr.terms:
        for atom, _ in monomial:
            family = _family(atom) if isinstance(atom, Operation) else None
            if family is None:
                continue
            divisor, base, k = family
            cofactor = divide_monomials(monomial, ((atom, 1),))
            assert cofactor is not None
            fresh = _Floors(cofactor, divisor, base, {})
            groups.setdefault((cofactor, divisor, base), fresh).monomials[k] = monomial
    return [g for g in groups.values() if 2 * len(g.monomials) >= g.divisor]


@lru_cache(maxsize=4096)
def _family(atom: Operation) -> tuple[int, Expr, int] | None:
    """Divisor d, base and k of (base+k)//d; None for another operation, or a divisor of many sizes."""
    if atom.op is not Op.FLOOR or not atom.args[1].is_constant:
        return None
    num, divisor = atom.args[0], atom.args[1].value
    if divisor > _MAX_DIVISOR:
        return None
    k = num.terms.get(ONE, 0)
    return divisor, num - k, k


def _helps(terms: dict[Monomial, int], group: _Floors, present: dict[int, int], shift: int) -> bool:
    """Return whether adding `shift` times the identity shortens the sum."""
    change = group.divisor - len(present)
    change -= sum(coefficient == shift for coefficient in present.values())
    for monomial, factor in group.base.terms.items():
        old = terms.get(multiply_monomials(group.cofactor, monomial), 0)
        change += (old == 0) - (old + shift * factor == 0)
    return change < 0 or (change == 0 and len(present) == group.divisor)
