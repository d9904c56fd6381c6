"""Least and greatest bytes of every node while the sizes lie in ranges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.ranges import Ranges, bounds
from onnx_notebook_profiler.symbolic.sizes import LARGEST

__all__ = ["Bounds", "total_bounds"]


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes that are certified: no size in the ranges gives less than ``lower`` or more than ``upper``."""

    lower: npt.NDArray[np.int64]
    """[nodes]."""
    upper: npt.NDArray[np.int64]
    """[nodes]."""
    peak: tuple[int, int]
    """What the peak is never below, and never above; (0, 0) for a model without nodes."""

    def __str__(self) -> str:
        low, high = self.peak
        return f"peak between {low:,} and {high:,} bytes"


def total_bounds(
    totals: Sequence[Expr], ranges: Ranges, needed: Iterable[str], inner: Sequence[Expr] = ()
) -> Bounds:
    """Bounds of all *totals*, and of the peak, to which the *inner* nodes belong too.

    Raises:
        SizeError: A dimension among *needed* has no range, or one without end.
    """
    missing = sorted(name for name in needed if ranges.get(name, (0, None))[1] is None)
    if missing:
        raise SizeError(
            f"ranges are missing: {', '.join(map(repr, missing[:12]))}; give each (least, greatest)"
        )
    known = {total: bounds(total, ranges) for total in dict.fromkeys((*totals, *inner))}
    lower = [known[total][0] for total in totals]
    upper = [known[total][1] or 0 for total in totals]
    peak = (
        max((low for low, _ in known.values()), default=0),
        max((high or 0 for _, high in known.values()), default=0),
    )
    if peak[1] > LARGEST:
        raise SizeError(f"a total leaves 64-bit integers in these ranges: {peak[1]}")
    return Bounds(np.array(lower, np.int64), np.array(upper, np.int64), peak)
