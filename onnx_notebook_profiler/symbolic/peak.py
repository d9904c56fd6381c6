"""The highest total over the nodes of a model, as a formula and at given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr

__all__ = ["Peak"]


class Peak:
    """The maximum over nodes, taken anew at every size: another size may have another peak node."""

    def __init__(self, totals: Sequence[Expr], evaluator: CompiledForms) -> None:
        self._totals = totals
        self._evaluator = evaluator

    def evaluate(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Any:
        """Peak bytes: int, or int64 [sizes] where a size is an array. 0 for a model without nodes.

        Raises:
            SizeError: As :meth:`~onnx_notebook_profiler.ComputeContext.totals`.
        """
        totals = self._evaluator({**(sizes or {}), **dims})
        if totals.shape[-1] == 0:
            return 0 if totals.ndim == 1 else np.zeros(len(totals), np.int64)
        return int(totals.max()) if totals.ndim == 1 else totals.max(axis=-1)

    def node(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Any:
        """Index of the first node that reaches the peak: int, or int64 [sizes]. -1 for a model without nodes."""
        totals: npt.NDArray[np.int64] = self._evaluator({**(sizes or {}), **dims})
        if totals.shape[-1] == 0:
            return -1 if totals.ndim == 1 else np.full(len(totals), -1)
        return int(totals.argmax()) if totals.ndim == 1 else totals.argmax(axis=-1)

    @property
    def expression(self) -> str:
        """The peak as text: the totals that no other one exceeds at every size, joined by ``^`` (maximum)."""
        kept: list[Expr] = []
        for total in dict.fromkeys(self._totals):
            if not any(_covers(other, total) for other in kept):
                kept = [other for other in kept if not _covers(total, other)]
                kept.append(total)
        return "^".join(sorted(str(total) for total in kept)) or "0"

    def __repr__(self) -> str:
        return f"Peak({self.expression})"


def _covers(greater: Expr, less: Expr) -> bool:
    """True where *greater* is at least *less* at every size: no term of the difference is ever negative."""
    return (greater - less).is_nonnegative
