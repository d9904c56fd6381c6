"""Arithmetic on polynomials with integer coefficients, kept as {monomial: coefficient}.

A monomial is a tuple of (atom, power), sorted by the atom's key; `()` is the constant. A stored
coefficient is never zero. The functions never change their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from onnx_notebook_profiler.errors import ExpressionError

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.atoms import Atom

Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "Mapping[Monomial, int]"

ONE: Monomial = ()
MAX_TERMS = 20_000
MAX_DEGREE = 256
MAX_BITS = 4_096
_MAX_DIVISION_STEPS = 400


def degree(monomial: Monomial) -> int:
    """Return the sum of the powers."""
    return sum(power for _, power in monomial)


def multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    """Return the product; raises ExpressionError beyond `MAX_DEGREE`."""
    if not left:
        return right
    if not right:
        return left
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    if sum(powers.values()) > MAX_DEGREE:
        raise ExpressionError(
            f"the expression is too large: a product of over {MAX_DEGREE} factors"
        )
    if len(powers) == 1:
        return tuple(powers.items())
    return tuple(sorted(powers.items(), key=_atom_key))


def _atom_key(item: tuple[Atom, int]) -> str:
    return item[0].key


def divide_monomials(num: Monomial, den: Monomial) -> Monomial | None:
    """Return `num / den`, or None where it is no monomial."""
    if not den:
        return num
    powers = dict(num)
    for atom, power in den:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            del powers[atom]
    return tuple(powers.items())


def add_terms(parts: Iterable[tuple[int, Terms]]) -> dict[Monomial, int]:
    """Return the sum of factor times polynomial over all parts."""
    total: dict[Monomial, int] = {}
    for factor, terms in parts:
        for monomial, coefficient in terms.items():
            total[monomial] = total.get(monomial, 0) + factor * coefficient
    if len(total) > MAX_TERMS:
        raise ExpressionError(f"the expression is too large: over {MAX_TERMS} terms")
    return {monomial: value for monomial, value in total.items() if value}


def multiply_terms(left: Terms, right: Terms) -> dict[Monomial, int]:
    """Return the product; raises ExpressionError where it would be absurdly large."""
    if len(left) * len(right) > MAX_TERMS:
        raise ExpressionError(f"the expression is too large: over {MAX_TERMS} terms")
    total: dict[Monomial, int] = {}
    for first, a in left.items():
        for second, b in right.items():
            monomial = multiply_monomials(first, second)
            total[monomial] = total.get(monomial, 0) + a * b
    if any(value.bit_length() > MAX_BITS for value in total.values()):
        raise ExpressionError(f"the expression is too large: a number of over {MAX_BITS} bits")
    return {monomial: value for monomial, value in total.items() if value}


def content(terms: Terms) -> int:
    """Return the greatest common divisor of the coefficients (0 for the zero polynomial)."""
    return gcd(*terms.values())


def common_monomial(*polynomials: Terms) -> Monomial:
    """Return the largest monomial that divides every term of every polynomial."""
    shared: dict[Atom, int] | None = None
    for terms in polynomials:
        for monomial in terms:
            if not monomial:
                return ONE
            if shared is None:
                shared = dict(monomial)
                continue
            powers = dict(monomial)
            shared = {a: min(p, powers[a]) for a, p in shared.items() if a in powers}
            if not shared:
                return ONE
    return tuple(shared.items()) if shared else ONE


def scale_down(terms: Terms, factor: int, monomial: Monomial = ONE) -> dict[Monomial, int]:
    """Return the polynomial divided by factor times monomial, which must divide every term."""
    result: dict[Monomial, int] = {}
    for key, coefficient in terms.items():
        quotient = divide_monomials(key, monomial)
        assert quotient is not None
        assert coefficient % factor == 0
        result[quotient] = coefficient // factor
    return result


def split_by_term(
    terms: Terms, factor: int, monomial: Monomial
) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """Return (quotient, rest): the terms that `factor*monomial` divides, divided, and the others.

    Of a constant divided by a constant the whole part goes into the quotient, so that the rest of
    the constant lies in [0, factor) for a positive factor.
    """
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for key, coefficient in terms.items():
        reduced = divide_monomials(key, monomial)
        whole, left = divmod(coefficient, factor)
        if reduced is not None and (left == 0 or not key):
            if whole:
                quotient[reduced] = whole
            if left:
                rest[key] = left
        else:
            rest[key] = coefficient
    return quotient, rest


def divide_terms(num: Terms, den: Terms) -> tuple[dict[Monomial, int], dict[Monomial, int]] | None:
    """Return (quotient, rest) of a long division whose rest is a constant, else None.

    Where the denominator has several terms; `num == quotient*den + rest` holds as polynomials.
    """
    rank = {a: i for i, a in enumerate(sorted(_atoms(den) | _atoms(num), key=lambda a: a.key))}

    def order(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
        powers = [0] * len(rank)
        for atom, power in monomial:
            powers[rank[atom]] = power
        return sum(powers), tuple(powers)

    if len(rank) * (len(num) + len(den)) > _MAX_DIVISION_STEPS or _atoms(den) - _atoms(num):
        return None
    lead = max(den, key=order)
    rest, quotient = dict(num), dict[Monomial, int]()
    for _ in range(_MAX_DIVISION_STEPS):
        if not rest or rest.keys() == {ONE}:
            return quotient, rest
        top = max(rest, key=order)
        reduced = divide_monomials(top, lead)
        factor, left = divmod(rest[top], den[lead])
        if reduced is None or left:
            return None
        quotient[reduced] = factor
        rest = add_terms([(1, rest), (-1, multiply_terms({reduced: factor}, den))])
    return None


def _atoms(terms: Terms) -> set[Atom]:
    return {atom for monomial in terms for atom, _ in monomial}
