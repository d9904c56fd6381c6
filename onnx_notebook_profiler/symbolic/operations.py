"""The operations on integers that are more than a polynomial, and their exact meaning."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from onnx_notebook_profiler.errors import ExpressionError

__all__ = ["Op", "integer_value"]


class Op(Enum):
    """An operation inside an expression; the value is how it is written."""

    FLOOR = "//"
    EXACT = "/:"
    MOD = "%"
    MAX = "^"
    MIN = "&"
    BROADCAST = "broadcast"


def integer_value(op: Op, args: Sequence[int]) -> int:
    """Return `op` applied to Python integers, exactly.

    `//` rounds towards minus infinity, `%` takes the sign of its left side as in C, `/:` must leave
    no rest, `broadcast` gives the common size of arguments that are equal or 1.
    Raises ExpressionError where the operation has no value.
    """
    if op is Op.MAX:
        return max(args)
    if op is Op.MIN:
        return min(args)
    if op is Op.BROADCAST:
        return _broadcast(args)
    num, den = args
    if den == 0:
        raise ExpressionError(f"division by zero: {num}{op.value}0")
    if op is Op.FLOOR:
        return num // den
    if op is Op.MOD:
        rest = abs(num) % abs(den)
        return -rest if num < 0 else rest
    quotient, rest = divmod(num, den)
    if rest:
        raise ExpressionError(f"{num}/:{den} is not exact: it leaves the rest {rest}")
    return quotient


def _broadcast(args: Sequence[int]) -> int:
    """Return the one size that all arguments take, where 1 stretches to any."""
    size = 1
    for arg in args:
        if arg != 1:
            if size not in (1, arg):
                raise ExpressionError(f"sizes {size} and {arg} do not broadcast")
            size = arg
    return size
