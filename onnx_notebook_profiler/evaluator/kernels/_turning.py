"""Copies with the axes in another order, at the speed of the cache.

Elements that become neighbours lie far apart before. A copy reads a line of the cache for each of them, and finds it
there again for the next row of results, unless there are too many lines or they crowd into a few of the cache's sets
because they are powers of two apart. Then the copy goes over pieces of the last axis.
"""

from __future__ import annotations

import functools
import math
from typing import Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["Turn", "turn_of"]

_LINE: Final = 64
_SETS: Final = 2048
_WAYS: Final = 16
_LONGEST: Final = 256


class Turn(NamedTuple):
    """A transposition in which axes that stay neighbours are one."""

    given: tuple[int, ...]
    order: tuple[int, ...]
    made: tuple[int, ...]
    step: int
    """Elements along the last axis that are copied at a time."""

    def copy(self, x: Array, out: Array) -> None:
        """Fill *out*."""
        source, target = x.reshape(self.given).transpose(self.order), out.reshape(self.made)
        width = self.made[-1] if self.made else 1
        if width <= self.step:
            np.copyto(target, source)
            return
        for start in range(0, width, self.step):
            part = slice(start, start + self.step)
            np.copyto(target[..., part], source[..., part])


@functools.lru_cache(maxsize=256)
def turn_of(shape: tuple[int, ...], order: tuple[int, ...], itemsize: int) -> Turn:
    """How an array of *shape* gets its axes into *order*."""
    moved = [axis for axis in order if shape[axis] != 1]
    runs: list[list[int]] = []
    for axis in moved:
        if runs and _follows(shape, runs[-1][-1], axis):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    sizes = [math.prod(shape[axis] for axis in run) for run in runs]
    ranks = sorted(range(len(runs)), key=lambda number: runs[number][0])
    given = tuple(sizes[number] for number in ranks)
    places = tuple(ranks.index(number) for number in range(len(runs)))
    width = sizes[-1] if sizes else 1
    stride = math.prod(given[places[-1] + 1 :]) * itemsize if places else 0
    lines = _SETS // math.gcd(max(stride // _LINE, 1), _SETS) * _WAYS
    step = width if stride <= _LINE or width <= lines // 2 else min(_LONGEST, lines // 2)
    return Turn(given, places, tuple(sizes), max(step, 1))


def _follows(shape: tuple[int, ...], before: int, after: int) -> bool:
    """Whether between the two axes there are only axes of size 1."""
    return before < after and all(size == 1 for size in shape[before + 1 : after])
