"""Two models beside each other: their peaks, what their operators make, and where one overtakes the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.peak import Peak
from onnx_notebook_profiler.symbolic.ranges import check_ranges

__all__ = ["Crossing", "Difference"]

_MAX_SWEEP = 10_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """From *size* on the first peak is *relation* (``"<"``, ``"="`` or ``">"``) the second; just below it was not."""

    size: int
    relation: str


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The first model against the second one."""

    peaks: tuple[Peak, Peak]
    dims: tuple[tuple[str, ...], tuple[str, ...]]
    made: tuple[Mapping[str, Expr], Mapping[str, Expr]]
    """Bytes that the nodes of each operator make, outputs whose size is known."""

    @property
    def all_dims(self) -> tuple[str, ...]:
        """The dimensions of both models."""
        return tuple(dict.fromkeys((*self.dims[0], *self.dims[1])))

    @property
    def by_operator(self) -> dict[str, Expr]:
        """What the first model's nodes make beyond the second's, operator by operator; equal ones are left out."""
        first, second = self.made
        zero = Expr.constant(0)
        changes = {
            op: first.get(op, zero) - second.get(op, zero) for op in sorted({*first, *second})
        }
        return {op: change for op, change in changes.items() if change != zero}

    @property
    def expressions(self) -> tuple[str, str]:
        """Both peaks as text."""
        return self.peaks[0].expression, self.peaks[1].expression

    def evaluate(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> tuple[Any, Any]:
        """Both peaks in bytes, as :meth:`Peak.evaluate` gives them.

        Raises:
            SizeError: A size is missing, wrong, or of a dimension that neither model has.
        """
        given = {**(sizes or {}), **dims}
        unknown = [name for name in given if name not in self.all_dims]
        if unknown:
            raise SizeError(
                f"no dimension is called {unknown[0]!r} (known: {', '.join(self.all_dims) or 'none'})"
            )
        first, second = (
            peak.evaluate({name: size for name, size in given.items() if name in dims})
            for peak, dims in zip(self.peaks, self.dims, strict=True)
        )
        return first, second

    def crossings(
        self,
        dim: str,
        low: int,
        high: int,
        /,
        sizes: Mapping[str, int] | None = None,
        **others: int,
    ) -> tuple[Crossing, ...]:
        """Where one peak overtakes the other while *dim* goes from *low* to *high*, every size looked at.

        Raises:
            SizeError: As :meth:`evaluate`; or there are more than 10 million sizes.
        """
        check_ranges({dim: (low, high)}, self.all_dims)
        if high - low >= _MAX_SWEEP:
            raise SizeError(
                f"{high - low + 1:,} sizes of {dim!r} are too many: at most {_MAX_SWEEP:,}"
            )
        asked = np.arange(low, high + 1)
        first, second = self.evaluate({**(sizes or {}), **others, dim: asked})
        signs = np.broadcast_to(np.sign(np.subtract(first, second)), asked.shape)
        moves = np.flatnonzero(np.diff(signs)) + 1
        return tuple(Crossing(int(asked[at]), "<=>"[int(signs[at]) + 1]) for at in moves)

    def __str__(self) -> str:
        lines = [f"peak: {self.expressions[0]} against {self.expressions[1]}"]
        lines += [f"{op}: {change}" for op, change in self.by_operator.items()]
        return "\n".join(lines)


def sum_by_operator(labels: Sequence[str], made: Sequence[Expr]) -> dict[str, Expr]:
    """The sum of *made* for each label."""
    groups: dict[str, list[Expr]] = {}
    for label, nbytes in zip(labels, made, strict=True):
        groups.setdefault(label, []).append(nbytes)
    return {label: Expr.sum(parts) for label, parts in groups.items()}
