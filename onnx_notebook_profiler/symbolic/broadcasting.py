"""The shape that several shapes take together: along each axis all are equal, or 1.

Two dimensions of different names stay one expression, since either of them may be 1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from onnx_notebook_profiler.symbolic.atoms import Operation
from onnx_notebook_profiler.symbolic.expression import Expr, broadcast
from onnx_notebook_profiler.symbolic.limits import Limit, note
from onnx_notebook_profiler.symbolic.operations import Op

__all__ = ["together"]

_ONE = Expr.constant(1)


def together(*shapes: Sequence[Expr | int]) -> tuple[Expr, ...]:
    """The shape to which *shapes* broadcast, aligned at the last axis.

    Raises:
        ExpressionError: Two numbers are neither equal nor 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [
        (
            *[_ONE] * (rank - len(shape)),
            *(one if isinstance(one, Expr) else Expr.constant(one) for one in shape),
        )
        for shape in shapes
    ]
    return tuple(functools.reduce(_pair, column) for column in zip(*padded, strict=True))


def _pair(left: Expr, right: Expr) -> Expr:
    if right in (left, _ONE):
        return left
    if left == _ONE:
        return right
    if left.is_constant != right.is_constant:
        # Where one is a number above 1, or 0, the model runs at no other result.
        number, size = (left, right) if left.is_constant else (right, left)
        note(Limit(size, "1 or", number.value))
        return number
    both = broadcast(left, right)
    for size, whole in ((right, left), (left, right)):
        cap = _cap(size, whole)
        if cap is not None:
            if cap > 1:
                note(Limit(whole, "at most", cap))
            return whole
    return both


def _cap(size: Expr, whole: Expr) -> int | None:
    """The least number of the minimum that *size* is of *whole* and numbers above 0, as the slice of a table is.

    Together they are *whole*; beyond the cap the model cannot run. None for any other size.
    """
    (monomial, factor), *more = size.terms.items() or (((), 0),)
    if more or factor != 1 or len(monomial) != 1:
        return None
    atom, power = monomial[0]
    if not isinstance(atom, Operation) or atom.op is not Op.MIN or power != 1:
        return None
    caps = [arg for arg in atom.args if arg != whole]
    if len(caps) == len(atom.args) or not all(cap.is_constant and cap.value > 0 for cap in caps):
        return None
    return min(cap.value for cap in caps)
