"""What an expression can be where each size lies in a range: certified, never sampled.

Bounds come from the form of an expression: shifted so that every size counts from its least value, a form whose terms
only grow is least at the least sizes and greatest at the greatest; any other form is bounded term by term, and its
range is cut in pieces until the bounds meet or there are too many pieces.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from onnx_notebook_profiler.errors import ExpressionError, SizeError
from onnx_notebook_profiler.symbolic.atoms import Atom, Operation, Symbol
from onnx_notebook_profiler.symbolic.expression import Expr, maximum, remade
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.polynomial import ONE, Monomial
from onnx_notebook_profiler.symbolic.size_classes import (
    holds_in_every_class,
    is_nonnegative_atom,
    linear_floor,
)

__all__ = ["Range", "Ranges", "bounds", "check_ranges", "grows", "is_never_negative"]

Range = tuple[int, int | None]
"""Least and greatest size, both included; None: no greatest."""
Ranges = Mapping[str, Range]

_CUTS = 200
_MAX_FORMS = 32
_Rational = dict[Monomial, Fraction]


def check_ranges(given: Mapping[str, object], known: tuple[str, ...]) -> dict[str, Range]:
    """Each of *given* as (least, greatest): of a pair, a ``range``, a number, or None for "0 and more".

    Raises:
        SizeError: A name is unknown, or something is no range of sizes.
    """
    found: dict[str, Range] = {}
    for name, value in given.items():
        if name not in known:
            raise SizeError(
                f"no dimension is called {name!r} (known: {', '.join(known) or 'none'})"
            )
        match value:
            case None:
                low, high = 0, None
            case bool():
                raise SizeError(_no_range(name, value))
            case int():
                low = high = value
            case range() if len(value):
                low, high = min(value), max(value)
            case (int(low), (int() | None) as high):
                pass
            case _:
                raise SizeError(_no_range(name, value))
        if low < 0 or (high is not None and high < low):
            raise SizeError(_no_range(name, value))
        found[name] = (low, high)
    return found


def _no_range(name: str, value: object) -> str:
    return (
        f"the range of {name!r} is (least, greatest) with 0 <= least <= greatest, and None for no greatest, "
        f"not {str(value)[:80]}"
    )


def shifted(expr: Expr, ranges: Ranges) -> Expr:
    """*expr* in sizes that count from the least one of their range."""
    lows = {name: low for name, (low, _) in ranges.items() if low and name in expr.symbols}
    return expr.substitute({name: Expr.symbol(name) + low for name, low in lows.items()})


def grows(expr: Expr) -> bool:
    """True where the form shows that *expr* never falls while sizes of 0 and more grow."""
    return all(
        coefficient > 0 and all(_atom_grows(atom) for atom, _ in monomial)
        for monomial, coefficient in expr.terms.items()
        if monomial
    )


def _atom_grows(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return True
    if atom.op in (Op.MAX, Op.MIN):
        return all(arg.is_nonnegative and grows(arg) for arg in atom.args)
    if atom.op is Op.FLOOR:
        num, den = atom.args
        return den.is_constant and den.value > 0 and num.is_nonnegative and grows(num)
    return False


def is_never_negative(expr: Expr, ranges: Ranges) -> bool:
    """True where it is proved that *expr* is 0 or more wherever each size is at least the least one of its range."""
    moved = shifted(expr, ranges)
    if moved.is_nonnegative:
        return True
    start = {monomial: Fraction(factor) for monomial, factor in moved.terms.items()}
    return _Proof().holds(start)


class _Proof:
    """An attempt to show that a sum is never below 0; gives up after so many forms."""

    def __init__(self) -> None:
        self._left = _MAX_FORMS

    def holds(self, terms: _Rational) -> bool:
        """True where it is shown: each extremum or rounding that stands in the way gives way to what bounds it."""
        self._left -= 1
        if self._left < 0:
            return False
        if holds_in_every_class(terms):
            return True
        for monomial, factor in terms.items():
            for atom, power in monomial:
                if isinstance(atom, Operation) and power == 1:
                    bounds_of_it = _atom_bounds(atom, lower=factor > 0)
                    if bounds_of_it and _others_fit(monomial, atom):
                        # The sum is not below what it is with any of these in the place of the atom.
                        return any(
                            self.holds(_replaced(terms, [monomial], atom, bound))
                            for bound in bounds_of_it
                        )
        for atom in dict.fromkeys(atom for monomial in terms for atom, _ in monomial):
            if atom.op in (Op.MAX, Op.MIN):
                # Everywhere the atom is one of its arguments: each of them must do.
                where = [m for m in terms if any(one == atom for one, _ in m)]
                return all(self.holds(_replaced(terms, where, atom, (arg, 1))) for arg in atom.args)
        return False


def _others_fit(monomial: Monomial, atom: Operation) -> bool:
    return all(is_nonnegative_atom(other) for other, _ in monomial if other is not atom)


def _atom_bounds(atom: Operation, *, lower: bool) -> list[tuple[Expr, int]]:
    """What the atom is never below (*lower*), or never above: expressions over numbers; none where none is known."""
    if atom.op is Op.FLOOR:
        num, den = atom.args
        if not den.is_constant or den.value <= 0 or linear_floor(atom) is not None:
            return []
        return [(num - den + 1 if lower else num, den.value)]
    if atom.op is (Op.MAX if lower else Op.MIN):
        return [(arg, 1) for arg in atom.args]
    return []


def _replaced(
    terms: _Rational, monomials: Sequence[Monomial], atom: Atom, bound: tuple[Expr, int]
) -> _Rational:
    """*terms* with *bound*, an expression over a number, for *atom* in some of the monomials."""
    left = dict(terms)
    value, divisor = bound
    for monomial in monomials:
        coefficient = left.pop(monomial)
        power = dict(monomial)[atom]
        rest = Expr({tuple(one for one in monomial if one[0] != atom): 1})
        for other, factor in (rest * value**power).terms.items():
            total = left.pop(other, Fraction(0)) + coefficient * factor / divisor**power
            if total:
                left[other] = total
    return left


# finite ranges


def bounds(expr: Expr, ranges: Ranges, *, cuts: int = _CUTS) -> tuple[int, int | None]:
    """Values that *expr* is never below and never above; None: no greatest is known.

    Exact where the form shows that it only grows; else as tight as *cuts* of the ranges make it.

    Raises:
        SizeError: The expression has no value somewhere in the ranges, or no least value is known.
    """
    tame = _without_broadcasts(expr, ranges)
    moved = shifted(tame, ranges)
    open_ends = sorted(name for name in tame.symbols if ranges.get(name, (0, None))[1] is None)
    if grows(moved):
        least = moved.evaluate(dict.fromkeys(moved.symbols, 0))
        if open_ends:
            return least, None
        return least, moved.evaluate(_spans(ranges, tame.symbols))
    if open_ends:
        if is_never_negative(tame, ranges):
            return 0, None
        raise SizeError(f"no bound is known without a greatest size for {', '.join(open_ends)}")
    box = {name: (ranges[name][0], ranges[name][1] or 0) for name in tame.symbols}
    return _least(tame, box, cuts), -_least(-tame, box, cuts)


def _spans(ranges: Ranges, names: Iterable[str]) -> dict[str, int]:
    return {name: (ranges[name][1] or 0) - ranges[name][0] for name in names}


def _without_broadcasts(
    expr: Expr, ranges: Ranges, known: dict[Operation, Expr] | None = None
) -> Expr:
    """*expr* with maxima for sizes that broadcast: the same where all of them are 1 or more, and the model can run."""
    seen = {} if known is None else known

    def tame(atom: Atom) -> Expr:
        if isinstance(atom, Symbol):
            return Expr.symbol(atom.name)
        if atom not in seen:
            args = [_without_broadcasts(arg, ranges, seen) for arg in atom.args]
            broadcasts = atom.op is Op.BROADCAST
            positive = broadcasts and all(is_never_negative(arg - 1, ranges) for arg in args)
            seen[atom] = maximum(*args) if positive else remade(atom, args)
        return seen[atom]

    if not any(isinstance(atom, Operation) for monomial in expr.terms for atom, _ in monomial):
        return expr
    return Expr.sum(
        Expr.product([factor, *(tame(atom) ** power for atom, power in monomial)])
        for monomial, factor in expr.terms.items()
    )


Box = dict[str, tuple[int, int]]


def _least(expr: Expr, box: Box, cuts: int) -> int:
    """A value that *expr* is never below in *box*: its least one, unless more than *cuts* are needed."""
    best = min(_corner_values(expr, box))
    tie = itertools.count()
    heap = [(_interval(expr, box)[0], next(tie), box)]
    for _ in range(cuts):
        low, _, widest = heap[0]
        if low >= best:
            return best
        heapq.heappop(heap)
        for half in _halves(widest):
            best = min(best, *_corner_values(expr, half))
            heapq.heappush(heap, (_interval(expr, half)[0], next(tie), half))
    return min(best, heap[0][0])


def _halves(box: Box) -> Iterator[Box]:
    name, (low, high) = max(box.items(), key=lambda item: item[1][1] - item[1][0])
    if low == high:
        yield box
        return
    middle = (low + high) // 2
    yield {**box, name: (low, middle)}
    yield {**box, name: (middle + 1, high)}


def _corner_values(expr: Expr, box: Box) -> Iterator[int]:
    for end in (0, 1):
        try:
            yield expr.evaluate({name: span[end] for name, span in box.items()})
        except ExpressionError as error:
            raise SizeError(str(error)) from None


def _interval(expr: Expr, box: Box) -> tuple[int, int]:
    """Bounds of *expr* term by term; where it grows in the sizes above the least ones, its values at both ends."""
    moved = shifted(expr, box)
    ends = {name: high - low for name, (low, high) in box.items()}
    if grows(moved):
        low = moved.evaluate(dict.fromkeys(ends, 0))
        return low, moved.evaluate(ends)
    return _term_bounds(moved, ends, {})


def _term_bounds(
    expr: Expr, ends: Mapping[str, int], known: dict[Atom, tuple[int, int]]
) -> tuple[int, int]:
    low = high = 0
    for monomial, coefficient in expr.terms.items():
        least = greatest = coefficient
        if monomial != ONE:
            for atom, power in monomial:
                if atom not in known:
                    known[atom] = _atom_range(atom, ends, known)
                a, b = known[atom]
                for _ in range(power):
                    products = (least * a, least * b, greatest * a, greatest * b)
                    least, greatest = min(products), max(products)
        low, high = low + least, high + greatest
    return low, high


def _atom_range(
    atom: Atom, ends: Mapping[str, int], known: dict[Atom, tuple[int, int]]
) -> tuple[int, int]:
    if isinstance(atom, Symbol):
        return 0, ends[atom.name]
    args = [_term_bounds(arg, ends, known) for arg in atom.args]
    lows, highs = [low for low, _ in args], [high for _, high in args]
    if atom.op is Op.MAX:
        return max(lows), max(highs)
    if atom.op is Op.MIN:
        return min(lows), min(highs)
    if atom.op is Op.BROADCAST:
        return min(lows), max(highs)
    (a, b), (c, d) = args
    if c <= 0 <= d:
        raise SizeError(f"{atom.text[:200]} may be divided by 0 in these ranges")
    if atom.op is Op.MOD:
        greatest = max(abs(c), abs(d)) - 1
        return (0 if a >= 0 else -min(greatest, -a)), (0 if b <= 0 else min(greatest, b))
    quotients = [p // q for p in (a, b) for q in (c, d)]
    return min(quotients), max(quotients)
