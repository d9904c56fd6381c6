"""Sizes at which a model cannot run, as far as its shapes say so: a table that is too short, two sizes that must agree.

Shapes are worked out as if the model runs; what has to hold for that is noted meanwhile.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["Limit", "allowed", "note", "noting"]


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """What has to hold: *size* is at most *number*, or it is *number* or 1."""

    size: Expr
    kind: Literal["at most", "1 or"]
    number: int

    def __str__(self) -> str:
        return f"{self.size} is {self.kind} {self.number}"


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


def allowed(
    limits: Iterable[Limit], dims: tuple[str, ...], sizes: Mapping[str, Any]
) -> npt.NDArray[np.bool_]:
    """Whether all *limits* hold at each of the sizes; bool [sizes], or [] where none is an array.

    Raises:
        SizeError: As :class:`CompiledForms`.
    """
    known = [limit for limit in limits if limit.size.symbols <= set(dims)]
    values = CompiledForms([limit.size for limit in known], dims)(sizes)
    numbers = np.array([limit.number for limit in known], np.int64)
    capped = np.array([limit.kind == "at most" for limit in known], np.bool_)
    holds = np.where(capped, values <= numbers, (values == numbers) | (values == 1))
    return np.asarray(holds.all(axis=-1))
