"""Fractions on the way to an integer: what `floor(x/2 - 1/2)` holds before it is rounded.

They are generic in the number type: expressions where a text is simplified, ints where it is
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic import expression as ex
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op, integer_value

V = TypeVar("V")
MAX_BITS = 65_536


@dataclass(frozen=True, slots=True)
class Algebra(Generic[V]):
    """How one number type computes."""

    constant: Callable[[int], V]
    total: Callable[[Sequence[V]], V]
    multiply: Callable[[V, V], V]
    operate: Callable[[Op, Sequence[V]], V]
    ceil_div: Callable[[V, V], V]
    floor_mod: Callable[[V, V], V]


@dataclass(frozen=True, slots=True)
class Ratio(Generic[V]):
    """num/den; `den` is None where the value is an integer as it stands."""

    num: V
    den: V | None = None


class RatioAlgebra(Generic[V]):
    """Arithmetic of fractions over one number type; nothing is rounded but where it says so."""

    def __init__(self, algebra: Algebra[V]) -> None:
        self.base = algebra

    def constant(self, value: int) -> Ratio[V]:
        """Return an int."""
        return Ratio(self.base.constant(value))

    def _den(self, value: Ratio[V]) -> V:
        return self.base.constant(1) if value.den is None else value.den

    def total(self, parts: Sequence[Ratio[V]]) -> Ratio[V]:
        """Return the sum over the common denominator."""
        whole = [part.num for part in parts if part.den is None]
        if len(whole) == len(parts):
            return Ratio(self.base.total(whole))
        groups: dict[V, list[V]] = {}
        for part in parts:
            groups.setdefault(self._den(part), []).append(part.num)
        multiply = self.base.multiply
        num, den = self.base.constant(0), self.base.constant(1)
        for divisor, nums in groups.items():
            added = multiply(self.base.total(nums), den)
            num = self.base.total((multiply(num, divisor), added))
            den = multiply(den, divisor)
        return Ratio(num, den)

    def negate(self, value: Ratio[V]) -> Ratio[V]:
        """Return -value."""
        return Ratio(self.base.multiply(self.base.constant(-1), value.num), value.den)

    def multiply(self, left: Ratio[V], right: Ratio[V]) -> Ratio[V]:
        """Return left*right."""
        num = self.base.multiply(left.num, right.num)
        if left.den is None or right.den is None:
            return Ratio(num, left.den if right.den is None else right.den)
        return Ratio(num, self.base.multiply(left.den, right.den))

    def divide(self, left: Ratio[V], right: Ratio[V]) -> Ratio[V]:
        """Return left/right, not rounded; raises ExpressionError where right is 0."""
        if right.num == 0:
            raise ExpressionError(f"division by zero: {left.num}/0")
        return self.multiply(left, Ratio(self._den(right), right.num))

    def power(self, value: Ratio[V], exponent: int) -> Ratio[V]:
        """Return value**exponent for an exponent from 0 to 64."""
        if not 0 <= exponent <= 64:
            raise ExpressionError(f"the power {exponent} is not between 0 and 64")
        result = self.constant(1)
        for _ in range(exponent):
            result = self.multiply(result, value)
        return result

    def integer(self, value: Ratio[V]) -> V:
        """Return the value of a fraction that leaves no rest."""
        if value.den is None:
            return value.num
        return self.base.operate(Op.EXACT, (value.num, value.den))

    def floor(self, value: Ratio[V]) -> V:
        """Return the value rounded towards minus infinity."""
        if value.den is None:
            return value.num
        return self.base.operate(Op.FLOOR, (value.num, value.den))

    def ceiling(self, value: Ratio[V]) -> V:
        """Return the value rounded towards plus infinity."""
        return value.num if value.den is None else self.base.ceil_div(value.num, value.den)

    def floor_mod(self, left: Ratio[V], right: Ratio[V]) -> Ratio[V]:
        """Return left - right*floor(left/right), the rest with the sign of the right side."""
        if left.den is None and right.den is None:
            return Ratio(self.base.floor_mod(left.num, right.num))
        whole = Ratio(self.floor(self.divide(left, right)))
        return self.total((left, self.negate(self.multiply(right, whole))))


def _int_multiply(left: int, right: int) -> int:
    if left.bit_length() + right.bit_length() > MAX_BITS:
        raise ExpressionError(f"the value is too large: over {MAX_BITS} bits")
    return left * right


def _int_floor_mod(num: int, den: int) -> int:
    return num - den * integer_value(Op.FLOOR, (num, den))


def _int_ceil_div(num: int, den: int) -> int:
    return -integer_value(Op.FLOOR, (-num, den))


INTEGERS: RatioAlgebra[int] = RatioAlgebra(
    Algebra(int, sum, _int_multiply, integer_value, _int_ceil_div, _int_floor_mod)
)
EXPRESSIONS: RatioAlgebra[Expr] = RatioAlgebra(
    Algebra(
        constant=Expr.constant,
        total=Expr.sum,
        multiply=Expr.__mul__,
        operate=ex.operate,
        ceil_div=ex.ceil_div,
        floor_mod=ex.floor_mod,
    )
)
