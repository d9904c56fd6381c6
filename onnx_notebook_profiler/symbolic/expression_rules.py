"""The rules that simplify divisions, rests, maxima and sums of them.

Each rule keeps the value wherever the form before it has one. Sizes may be any integers, but for
the rules that ask `is_nonnegative`, which rest on sizes being at least 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression_text import leads_negative, sole_atom
from onnx_notebook_profiler.symbolic.floor_sums import merge_floors
from onnx_notebook_profiler.symbolic.operations import Op, integer_value
from onnx_notebook_profiler.symbolic.polynomial import (
    ONE,
    Monomial,
    Terms,
    common_monomial,
    content,
    divide_monomials,
    divide_terms,
    scale_down,
    split_by_term,
)

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.atoms import Atom
    from onnx_notebook_profiler.symbolic.expression import Expr

HAS_FLOOR = 1
HAS_EXACT = 2
_FLAGS = {Op.FLOOR: HAS_FLOOR, Op.EXACT: HAS_EXACT}


def flags_of(terms: Terms) -> int:
    """Return which operations, that sums and products must look at, the terms hold."""
    flags = 0
    for monomial in terms:
        for atom, _ in monomial:
            if atom.op is not None:
                flags |= _FLAGS.get(atom.op, 0)
    return flags


def union_of(flags: Iterable[int]) -> int:
    """Return the flags of a sum from those of its parts."""
    union = 0
    for flag in flags:
        union |= flag
    return union


def settle(expr: Expr) -> Expr:
    """Bring a sum whose terms hold divisions into normal form."""
    if expr.flags & HAS_EXACT:
        absorbed = _absorb_exact(expr)
        if absorbed is not None:
            return absorbed
    if expr.flags & HAS_FLOOR and len(expr.terms) > 1:
        merged = merge_floors(expr)
        if merged is not None:
            return expr.from_terms(merged)
    return expr


@lru_cache(maxsize=16_384)
def divide(op: Op, num: Expr, den: Expr) -> Expr:
    """Return num//den or num/:den: whole parts taken out, common factors cancelled.

    Raises ExpressionError where the quotient has no value anywhere.
    """
    if den.is_constant and num.is_constant:
        return num.constant(integer_value(op, (num.value, den.value)))
    if den == 0:
        raise ExpressionError(f"division by zero: ({num}){op.value}0")
    if leads_negative(den.terms):
        num, den = -num, -den
    quotient, rest = _split(num, den)
    if not rest.terms or den == 1:
        return quotient + rest
    cancelled = _cancel(op, rest, den)
    if cancelled is not None:
        return quotient + divide(op, *cancelled)
    if rest.is_constant and den.is_constant:
        return quotient + integer_value(op, (rest.value, den.value))
    collapsed = _collapse(op, rest, den)
    if collapsed is not None:
        return quotient + collapsed
    return quotient + num.operation(op, rest, den)


def _split(num: Expr, den: Expr) -> tuple[Expr, Expr]:
    """Return (q, r) with num == q*den + r, where whole terms of the quotient are seen."""
    if len(den.terms) == 1:
        ((monomial, factor),) = den.terms.items()
        quotient, rest = split_by_term(num.terms, factor, monomial)
    else:
        found = divide_terms(num.terms, den.terms)
        quotient, rest = found if found is not None else ({}, dict(num.terms))
    return num.from_terms(quotient), num.from_terms(rest)


def _cancel(op: Op, num: Expr, den: Expr) -> tuple[Expr, Expr] | None:
    """Return num and den without their common factor, or None where they have none."""
    if den.is_constant:
        constant = num.terms.get(ONE, 0)
        bare = num - constant
        factor = gcd(content(bare.terms), den.value)
        if factor == 1 or not bare.terms:
            return None
        whole, left = divmod(constant, factor)
        if left and op is Op.EXACT:
            raise ExpressionError(f"({num})/:{den} is exact at no sizes")
        return num.from_terms(scale_down(bare.terms, factor)) + whole, den // factor
    factor = gcd(content(num.terms), content(den.terms))
    monomial = common_monomial(num.terms, den.terms)
    if factor == 1 and not monomial:
        return None
    return (
        num.from_terms(scale_down(num.terms, factor, monomial)),
        num.from_terms(scale_down(den.terms, factor, monomial)),
    )


def _collapse(op: Op, num: Expr, den: Expr) -> Expr | None:
    """Return a division of a division as one, or None where that is not known to be right.

    (a//b + k)//d == (a + k*b)//(b*d) holds for d > 0; an inner exact division needs no condition.
    """
    constant = num.terms.get(ONE, 0)
    inner = sole_atom((num - constant).terms)
    if inner is None or inner.op not in _FLAGS:
        return None
    if inner.op is Op.FLOOR and (op is Op.EXACT or not den.is_nonnegative):
        return None
    top, bottom = inner.args
    return divide(op, top + constant * bottom, bottom * den)


def modulo(num: Expr, den: Expr) -> Expr:
    """Return the rest of num/den with the sign of num, as C has it."""
    if den == 0:
        raise ExpressionError(f"division by zero: ({num})%0")
    if num.is_constant and den.is_constant:
        return num.constant(integer_value(Op.MOD, (num.value, den.value)))
    if leads_negative(den.terms):
        den = -den
    if den == 1 or not _split(num, den)[1].terms:
        return num.constant(0)
    factor = gcd(content(num.terms), content(den.terms))
    monomial = common_monomial(num.terms, den.terms)
    if factor != 1 or monomial:
        small = [num.from_terms(scale_down(e.terms, factor, monomial)) for e in (num, den)]
        return num.from_terms({monomial: factor}) * modulo(*small)
    if all(coefficient < 0 for coefficient in num.terms.values()):
        return -modulo(-num, den)
    inner = sole_atom(num.terms)
    if inner is not None and inner.op is Op.MOD and inner.args[1] == den:
        return num
    return num.operation(Op.MOD, num, den)


def extremum(op: Op, args: Sequence[Expr]) -> Expr:
    """Return the maximum or minimum: flat, sorted, without arguments that another one beats."""
    numbers = [arg.number for arg in args if arg.number is not None]
    if numbers and len(numbers) == len(args):
        return args[0].constant(max(numbers) if op is Op.MAX else min(numbers))
    best: dict[frozenset[tuple[Monomial, int]], int] = {}
    forms: dict[frozenset[tuple[Monomial, int]], Expr] = {}
    for arg in _flattened(op, args):
        constant = arg.terms.get(ONE, 0)
        bare = arg - constant if constant else arg
        form = frozenset(bare.terms.items())
        beaten = form in best and integer_value(op, (constant, best[form])) == best[form]
        if not beaten:
            best[form], forms[form] = constant, bare
    left = [forms[form] + constant for form, constant in best.items()]
    if not left:
        raise ExpressionError(f"'{op.value}' needs at least one argument")
    if len(left) > 1:
        left = _beside_zero(op, left)
    if len(left) == 1:
        return left[0]
    left.sort(key=lambda arg: (sorted(arg.symbols), arg.nested_text))
    return left[0].operation(op, *left)


def _beside_zero(op: Op, args: list[Expr]) -> list[Expr]:
    """Without what a number of 0 or less decides: 0^N is N, and 0&N is 0, as sizes are 0 or more."""
    low = [arg for arg in args if arg.is_constant and arg.value <= 0]
    if not low:
        return args
    if op is Op.MIN:
        return [arg for arg in args if arg.is_constant or not arg.is_nonnegative]
    beaten = any(not arg.is_constant and arg.is_nonnegative for arg in args)
    return [arg for arg in args if not arg.is_constant] if beaten else args


def broadcast(args: Sequence[Expr]) -> Expr:
    """Return the common size of arguments that are equal or 1."""
    if not args:
        raise ExpressionError("'broadcast' needs at least one argument")
    left = {arg: None for arg in _flattened(Op.BROADCAST, args) if arg != 1}
    fixed = [arg for arg in left if arg.is_constant]
    if fixed:
        return args[0].constant(integer_value(Op.BROADCAST, [arg.value for arg in fixed]))
    if not left:
        return args[0].constant(1)
    ordered = sorted(left, key=lambda arg: (sorted(arg.symbols), arg.nested_text))
    return ordered[0] if len(ordered) == 1 else ordered[0].operation(Op.BROADCAST, *ordered)


def _flattened(op: Op, args: Iterable[Expr]) -> list[Expr]:
    flat: list[Expr] = []
    for arg in args:
        atom = sole_atom(arg.terms)
        if atom is not None and atom.op is op:
            flat.extend(atom.args)
        else:
            flat.append(arg)
    return flat


def shows_nonnegative(expr: Expr) -> bool:
    """Return whether the form alone proves a value of at least 0, sizes being at least 0."""
    return all(
        coefficient > 0 and all(_atom_nonnegative(atom) for atom, _ in monomial)
        for monomial, coefficient in expr.terms.items()
    )


def _atom_nonnegative(atom: Atom) -> bool:
    if atom.op is None:
        return True
    if atom.op is Op.MAX:
        return any(arg.is_nonnegative for arg in atom.args)
    if atom.op is Op.MOD:
        return atom.args[0].is_nonnegative
    return all(arg.is_nonnegative for arg in atom.args)


def _absorb_exact(expr: Expr) -> Expr | None:
    """Return the sum with factors cancelled against exact divisions: 2*(H/:2) is H."""
    kept: dict[Monomial, int] = {}
    changed: list[Expr] = []
    for monomial, coefficient in expr.terms.items():
        reduced = _absorb_term(expr, monomial, coefficient)
        if reduced is None:
            kept[monomial] = coefficient
        else:
            changed.append(reduced)
    return expr.sum([expr.from_terms(kept), *changed]) if changed else None


def _absorb_term(expr: Expr, monomial: Monomial, coefficient: int) -> Expr | None:
    for atom, _ in monomial:
        if atom.op is not Op.EXACT or len(atom.args[1].terms) != 1:
            continue
        others = divide_monomials(monomial, ((atom, 1),))
        assert others is not None
        num, den = atom.args
        ((below, divisor),) = den.terms.items()
        factor = gcd(coefficient, divisor)
        shared = common_monomial({others: 1}, den.terms)
        if factor == 1 and not shared:
            continue
        outside = scale_down({others: coefficient}, factor, shared)
        inside = scale_down({below: divisor}, factor, shared)
        return expr.from_terms(outside) * divide(Op.EXACT, num, expr.from_terms(inside))
    return None
