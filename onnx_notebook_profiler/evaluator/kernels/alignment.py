"""com.microsoft's DynamicTimeWarping and BifurcationDetector: how two sequences run along each other.

ContribOperators.md of onnxruntime, dynamic_time_warping.cc and bifurcation_detector.h there. Scratch: two bytes for
each cost; a comparison of each n-gram of the source tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array, NodeSpec
from onnx_notebook_profiler.evaluator.kernels._shared import INT64
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BifurcationDetector", "DynamicTimeWarping"]

_MS: Final = "com.microsoft"


def _moves(costs: Array) -> tuple[Array, Array]:
    """How the cheapest path from (0, 0) comes to each point of costs [M, N].

    Whether it goes down, and if so whether straight down; to the right where it does not, as in a tie of the other two
    or with one of them. Points on a line from lower left to upper right do not depend on each other.
    """
    rows, columns = costs.shape
    downward, straight = (np.empty((rows, columns), np.bool_) for _ in range(2))
    flat = [array.reshape(-1) for array in (costs, downward, straight)]
    # totals on three lines, by row, with a place in front and one behind
    before, last, now = (np.full(rows + 2, np.inf, np.float32) for _ in range(3))
    before[0] = 0
    pitch = max(columns - 1, 1)
    for line in range(rows + columns - 1):
        first, end = max(0, line - columns + 1), min(rows, line + 1)
        begin = first * columns + line - first
        places = slice(begin, begin + (end - first - 1) * pitch + 1, pitch)
        cost, goes_down, is_straight = (array[places] for array in flat)
        both, down, right = before[first:end], last[first:end], last[first + 1 : end + 1]
        least = np.minimum(both, down)
        np.less(down, both, is_straight)
        np.less(least, right, goes_down)
        np.logical_and(goes_down, both != down, goes_down)
        np.add(np.where(goes_down, least, right), cost, now[first + 1 : end + 1])
        now[first] = now[end + 1] = np.inf
        before, last, now = last, now, before
    return downward, straight


@register("DynamicTimeWarping", since_version=1, domain=_MS)
class DynamicTimeWarping(AdoptingKernel):
    """Costs [M, N] or [1, M, N] -> [2, steps]: rows and columns of the cheapest path from corner to corner."""

    fresh = True

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """Costs line by line, then the path backwards.

        Raises:
            ValueError: The costs are no single matrix.
        """
        costs = inputs[0]
        if costs.ndim == 3 and costs.shape[0] == 1:
            costs = costs[0]
        if costs.ndim != 2:
            raise ValueError(
                f"DynamicTimeWarping expects [M, N] or [1, M, N], got {list(inputs[0].shape)}"
            )
        row, column = costs.shape[0] - 1, costs.shape[1] - 1
        downward, straight = _moves(costs) if costs.size else (costs, costs)
        path = []
        while row >= 0 and column >= 0:
            path.append((row, column))
            down = bool(downward[row, column])
            column -= not (down and straight[row, column])
            row -= down
        return [np.array(path[::-1], np.int32).reshape(-1, 2).T.copy()]


def _places(source: Array, gram: Array, first: int) -> Array:
    """Where *gram* stands in *source*, from *first* on."""
    if len(source) - first < len(gram):
        return np.empty(0, INT64)
    grams = np.lib.stride_tricks.sliding_window_view(source[first:], len(gram))
    return np.flatnonzero((grams == gram).all(axis=1)) + first


@register("BifurcationDetector", since_version=1, domain=_MS)
class BifurcationDetector(AdoptingKernel):
    """Tokens [C] with the predicted ones up to where these leave the source [S]; where in it the last n-gram ends.

    The n-gram has to stand in the source exactly once; -1 where no length gives that.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._least = int(spec.attributes.get("min_ngram_size", 1))
        self._most = int(spec.attributes.get("max_ngram_size", 3))
        if not 1 <= self._least <= self._most:
            raise ValueError(
                f"BifurcationDetector expects n-grams of 1 or more, got sizes from {self._least} to {self._most}"
            )

    def call(self, inputs: Sequence[Any]) -> Sequence[Array]:
        """Join, then search.

        Raises:
            ValueError: The previous index lies outside the source, or the prediction has another length than what is
                left of the source, and one token.
        """
        source, tokens, previous = inputs[:3]
        predicted = inputs[3] if len(inputs) > 3 else None
        if predicted is None:
            joined = tokens.copy()
        else:
            start = int(previous.reshape(-1)[0])
            left = len(source) - start
            if start < 0 or left < 0 or len(predicted) != left + 1:
                raise ValueError(
                    f"BifurcationDetector: {len(predicted)} predicted tokens do not continue a source of "
                    f"{len(source)} from {start} on"
                )
            apart = np.flatnonzero(predicted[:-1] != source[start:])
            joined = np.concatenate([tokens, predicted[: (apart[0] if apart.size else left) + 1]])
        found = np.full(previous.shape, self._suffix(source, joined), INT64)
        return [joined, found][: len(self.spec.wanted)]

    def _suffix(self, source: Array, tokens: Array) -> int:
        """The end of the longest n-gram that decides; a longer one that is not found leaves the shorter one's."""
        found = -1
        for size in range(self._least, min(self._most, len(tokens)) + 1):
            places = _places(source, tokens[len(tokens) - size :], 0)
            if not places.size:
                break
            end = int(places[0]) + size
            if end >= len(source):
                return end
            found = end if places.size == 1 else -1
        return found
