"""The way of recurrent cells through the steps of X [seq, batch, input]: directions and sequences of their own lengths.

https://onnx.ai/onnx/operators/onnx__LSTM.html. Sequences that are over are computed on, without effect: their states
are kept when they end, and what lies behind in Y is set to 0. Scratch: the states of some steps, where they cannot be
written where they belong in Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["Walk"]


class Walk:
    """Some directions, of which each goes through X forwards or backwards.

    Args:
        backwards: For each direction whether it starts at the end.
        lengths: [batch], or None where all sequences are as long as X.
    """

    def __init__(self, x: Array, backwards: Sequence[bool], lengths: Array | None) -> None:
        self._x = x
        self._backwards = backwards
        self._size, self._batch = x.shape[:2]
        self.steps: int = self._size
        self._lengths: Any = None
        self.ends: dict[int, Array] = {}
        """The sequences that end after as many steps; empty where all go to the end."""
        if lengths is not None and not (lengths == self._size).all():
            self._lengths = lengths
            self.steps = int(lengths.max())
            self.ends = {int(end): np.flatnonzero(lengths == end) for end in np.unique(lengths)}

    def _places(self, start: int, stop: int) -> tuple[Array, Array]:
        """Where the steps of a direction that goes backwards are, and whose [step, batch]."""
        steps = np.arange(start, stop)[:, None]
        places = np.where(steps < self._lengths, self._lengths - 1 - steps, steps)
        return places, np.arange(self._batch)

    def rows(self, direction: int, start: int, stop: int) -> Array:
        """X of these steps in the order of the direction, [steps * batch, input]."""
        x = self._x
        if not self._backwards[direction]:
            part = x[start:stop]
        elif self._lengths is None:
            part = x[self._size - stop : self._size - start][::-1]
        else:
            part = x[self._places(start, stop)]
        return np.ascontiguousarray(part).reshape((stop - start) * self._batch, x.shape[2])

    def targets(self, y: Any, start: int, stop: int, state: Array) -> tuple[Any, bool]:
        """An array like *state* [directions, batch, hidden] for each step, and whether these are where they belong."""
        if y is None:
            pair = np.empty((2, *state.shape), state.dtype)
            return [pair[number & 1] for number in range(stop - start)], True
        direct = len(self._backwards) == 1 and y.dtype == state.dtype and y[:1].flags.c_contiguous
        if direct and not self._backwards[0]:
            return y[start:stop], True
        if direct and self._lengths is None:
            return y[self._size - stop : self._size - start][::-1], True
        return np.empty((stop - start, *state.shape), state.dtype), False

    def place(self, y: Any, states: Array, start: int, stop: int) -> None:
        """Put *states* [steps, directions, batch, hidden] where they belong in Y."""
        for direction, backwards in enumerate(self._backwards):
            part = states[:, direction]
            if not backwards:
                y[start:stop, direction] = part
            elif self._lengths is None:
                y[self._size - stop : self._size - start, direction] = part[::-1]
            else:
                places, items = self._places(start, stop)
                y[places, direction, items] = part

    def clear(self, y: Any) -> None:
        """Zeros behind the end of each sequence."""
        if y is None or self._lengths is None:
            return
        for item, length in enumerate(self._lengths.tolist()):
            y[length:, :, item] = 0
