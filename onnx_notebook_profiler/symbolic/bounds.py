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

    @property
    def peak(self) -> tuple[int, int]:
        """What the peak is never below, and never above; (0, 0) for a model without nodes."""
        return (int(self.lower.max()), int(self.upper.max())) if len(self.lower) else (0, 0)

    def __str__(self) -> str:
        low, high = self.peak
        return f"peak between {low:,} and {high:,} bytes"


def total_bounds(totals: Sequence[Expr], ranges: Ranges, needed: Iterable[str]) -> Bounds:
    """Bounds of all *totals*.

    Raises:
        SizeError: A dimension among *needed* has no range, or one without end.
    """
    missing = sorted(name for name in needed if ranges.get(name, (0, None))[1] is None)
    if missing:
        raise SizeError(
            f"ranges are missing: {', '.join(map(repr, missing[:12]))}; give each (least, greatest)"
        )
    known = {total: bounds(total, ranges) for total in dict.fromkeys(totals)}
    lower = [known[total][0] for total in totals]
    upper = [known[total][1] or 0 for total in totals]
    if max(upper, default=0) > LARGEST:
        raise SizeError(f"a total leaves 64-bit integers in these ranges: {max(upper)}")
    return Bounds(np.array(lower, np.int64), np.array(upper, np.int64))
