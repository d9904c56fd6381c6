"""Sizes at which a model cannot run, as far as its shapes say so: a table that is too short, two sizes that must agree.

Shapes are worked out as if the model runs; what has to hold for that is noted meanwhile.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.symbolic.atoms import Symbol
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["Limit", "allowed", "must_agree", "note", "noting"]


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """What has to hold: *size* is at most *number*, or it is *number* or 1, or it is *number*."""

    size: Expr
    kind: Literal["at most", "1 or", "is"]
    number: int

    def __str__(self) -> str:
        if self.kind != "is":
            return f"{self.size} is {self.kind} {self.number}"
        left = Expr(
            {term: factor for term, factor in self.size.terms.items() if factor > 0 and term}
        )
        return f"{left} is {left - self.size + self.number}"


_notes: contextvars.ContextVar[dict[Limit, None] | None] = contextvars.ContextVar(
    "notes", default=None
)


@contextlib.contextmanager
def noting() -> Iterator[dict[Limit, None]]:
    """Collect what is noted meanwhile."""
    found: dict[Limit, None] = {}
    token = _notes.set(found)
    try:
        yield found
    finally:
        _notes.reset(token)


def note(limit: Limit) -> None:
    """Note *limit*, where somebody collects."""
    found = _notes.get()
    if found is not None:
        found[limit] = None


def must_agree(left: Expr, right: Expr) -> None:
    """Note that two sizes have to be equal, where that is not said by the sizes themselves.

    What both are multiples of is left out, be it a number or a dimension: sizes of 1 and more are meant.
    """
    difference = left - right
    if difference.is_constant:
        return
    difference = _without_common_factors(difference)
    if all(factor < 0 for term, factor in difference.terms.items() if term):
        difference = -difference
    note(Limit(difference, "is", 0))


def _without_common_factors(size: Expr) -> Expr:
    terms = size.terms
    number = math.gcd(*terms.values())
    shared = dict(next(iter(terms)))
    for term in terms:
        powers = dict(term)
        shared = {
            atom: min(power, powers.get(atom, 0))
            for atom, power in shared.items()
            if isinstance(atom, Symbol)
        }
    return Expr(
        {
            tuple(
                (atom, power - shared.get(atom, 0))
                for atom, power in term
                if power > shared.get(atom, 0)
            ): factor // number
            for term, factor in terms.items()
        }
    )


def allowed(
    limits: Iterable[Limit], dims: tuple[str, ...], sizes: Mapping[str, Any]
) -> npt.NDArray[np.bool_]:
    """Whether all *limits* hold at each of the sizes; bool [sizes], [1] where none is an array.

    Raises:
        SizeError: As :meth:`CompiledForms.where_possible`.
    """
    known = [limit for limit in limits if limit.size.symbols <= set(dims)]
    forms = CompiledForms([limit.size for limit in known], dims)
    values, possible = forms.where_possible(sizes)
    numbers = np.array([limit.number for limit in known], np.int64)
    capped = np.array([limit.kind == "at most" for limit in known], np.bool_)
    or_one = np.array([limit.kind == "1 or" for limit in known], np.bool_)
    holds = np.where(capped, values <= numbers, (values == numbers) | (or_one & (values == 1)))
    return np.asarray(holds.all(axis=-1) & possible)
