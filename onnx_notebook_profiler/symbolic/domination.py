"""Which of many expressions can be the greatest one somewhere: the others are left out by proof."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.ranges import Ranges, is_never_negative, shifted
from onnx_notebook_profiler.symbolic.size_classes import class_table

__all__ = ["undominated"]

_Values: TypeAlias = "npt.NDArray[np.int64]"

_SAMPLES = 64
_TRIES = 512
_FAR = 4_096
_MAX_PROOFS = 6
"""Rivals of one expression that are tried one by one."""
_MAX_FOR_PAIRS = 64
"""Expressions left over up to which pairs of them are tried."""
_MEANS = ((1, 1), (1, 3), (3, 1))
"""Weights of two expressions in a mean."""
_MAX_POINTS = 300_000
"""Combinations of sizes up to which all of them are tried."""


def undominated(
    totals: Sequence[Expr], evaluator: CompiledForms, ranges: Ranges, *, first_ones: bool
) -> tuple[int, ...]:
    """Positions of expressions that hold the greatest value everywhere, in order.

    Samples say which proofs are worth trying; only a proof, or all sizes tried, leaves an expression out.

    Args:
        first_ones: Keep whatever may be the first of several that are as great.
    """
    first: dict[Expr, int] = {}
    for position, total in enumerate(totals):
        first.setdefault(total, position)
    positions = np.array(list(first.values()), np.intp)
    if len(positions) < 2:
        return tuple(positions.tolist())
    samples = _samples(evaluator, ranges)[:, positions]
    kept = _Tournament(list(first), samples, ranges, first_ones=first_ones).survivors()
    found = sorted(positions[kept].tolist())
    return _greatest_somewhere([totals[one] for one in found], found, evaluator, ranges)


class _Tournament:
    """Expressions against each other; with *first_ones* a later one must be greater to win."""

    def __init__(
        self, totals: Sequence[Expr], samples: _Values, ranges: Ranges, *, first_ones: bool
    ) -> None:
        self._first_ones = first_ones
        self._totals = totals
        self._samples = samples
        self._ranges = ranges
        self._table = class_table([shifted(total, ranges).terms for total in totals])

    def survivors(self) -> list[int]:
        """Those that no other one is proved to beat."""
        kept = (
            list(dict.fromkeys(self._samples.argmax(axis=1).tolist())) if self._first_ones else []
        )
        winners = set(kept)
        order = np.argsort(-self._samples.astype(float).sum(axis=0), kind="stable").tolist()
        for candidate in order:
            if candidate not in winners and not self._is_beaten(candidate, kept):
                kept.append(candidate)
        for candidate in reversed(kept.copy() if len(kept) <= _MAX_FOR_PAIRS else []):
            others = [one for one in kept if one != candidate]
            if candidate not in winners and self._is_beaten_by_two(candidate, others):
                kept = others
        return kept

    def _is_beaten(self, candidate: int, rivals: Sequence[int]) -> bool:
        ours = self._samples[:, candidate, None]
        theirs = self._samples[:, rivals]
        margins = (theirs - ours).min(axis=0)
        hopeful = sorted(
            (-margin, rival)
            for margin, rival in zip(margins.tolist(), rivals, strict=True)
            if margin >= self._lead(rival, candidate)
        )
        if self._table is None:
            return any(self._is_above(rival, candidate) for _, rival in hopeful[:_MAX_PROOFS])
        for _, rival in hopeful:
            difference = self._table[rival] - self._table[candidate]
            difference[0] -= self._lead(rival, candidate)
            if np.all(difference >= 0):
                return True
        return False

    def _is_beaten_by_two(self, candidate: int, rivals: Sequence[int]) -> bool:
        """True where a mean of two of *rivals* is never below it: the greater of them is not, then."""
        if self._table is None:
            return False
        ours = self._samples[:, candidate]
        for (first, second), weights in itertools.product(
            itertools.combinations(rivals, 2), _MEANS
        ):
            whole = sum(weights)
            lead = whole * max(self._lead(first, candidate), self._lead(second, candidate))
            seen = weights[0] * self._samples[:, first] + weights[1] * self._samples[:, second]
            if (seen < whole * ours + lead).any():
                continue
            mean = weights[0] * self._table[first] + weights[1] * self._table[second]
            mean -= whole * self._table[candidate]
            mean[0] -= lead
            if np.all(mean >= 0):
                return True
        return False

    def _is_above(self, rival: int, candidate: int) -> bool:
        lead = self._lead(rival, candidate)
        return is_never_negative(self._totals[rival] - self._totals[candidate] - lead, self._ranges)

    def _lead(self, rival: int, candidate: int) -> int:
        """By how much *rival* must be greater."""
        return int(self._first_ones and rival > candidate)


def _greatest_somewhere(
    totals: Sequence[Expr], positions: Sequence[int], evaluator: CompiledForms, ranges: Ranges
) -> tuple[int, ...]:
    """Where the ranges hold few sizes: only what is the greatest at one of them."""
    names = sorted({name for total in totals for name in total.symbols})
    spans = [ranges.get(name, (0, None)) for name in names]
    if any(high is None for _, high in spans):
        return tuple(positions)
    axes = [range(low, (high or 0) + 1) for low, high in spans]
    if math.prod(map(len, axes)) * len(totals) > _MAX_POINTS * 10:
        return tuple(positions)
    grid = np.meshgrid(*axes, indexing="ij")
    forms = CompiledForms(totals, evaluator.dims)
    try:
        values = forms({name: axis.reshape(-1) for name, axis in zip(names, grid, strict=True)})
    except SizeError:
        return tuple(positions)
    return tuple(positions[one] for one in np.unique(values.argmax(axis=-1)).tolist())


def _samples(evaluator: CompiledForms, ranges: Ranges) -> _Values:
    """Values of all expressions at sizes all over the ranges, their ends included; [samples, expressions]."""
    generator = np.random.default_rng(0)
    sizes: dict[str, npt.NDArray[np.int64]] = {}
    steps = 2 ** generator.integers(0, 7, _TRIES)
    for name in evaluator.dims:
        low, limit = ranges.get(name, (0, None))
        high = low + _FAR if limit is None else limit
        spread = np.exp(generator.uniform(0, np.log(high - low + 1), _TRIES)).astype(np.int64) - 1
        # Sizes that a network halves again and again must often be multiples.
        sizes[name] = np.clip((low + spread + steps - 1) // steps * steps, low, high)
        sizes[name][:2] = low, high
    rows: list[_Values] = []
    for number in range(_TRIES if sizes else 1):
        try:
            rows.append(evaluator({name: int(size[number]) for name, size in sizes.items()}))
        except SizeError:
            continue  # sizes that the model cannot have, such as 2 and 3 that must be equal
        if len(rows) == _SAMPLES:
            break
    return np.array(rows) if rows else np.zeros((1, len(evaluator)), np.int64)
