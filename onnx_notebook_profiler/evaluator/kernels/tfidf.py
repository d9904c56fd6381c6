"""TfIdfVectorizer: X [C] or [N, C], integers or strings -> counts of its n-grams [M] or [N, M].

https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html. The n-grams of the pool are in a dictionary for each length;
a row looks up each of its own, once for each number of skipped elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["TfIdfVectorizer"]


@register("TfIdfVectorizer", since_version=9)
class TfIdfVectorizer(Kernel):
    """Term frequencies (TF), whether a term occurs at all, weighted (IDF), or both multiplied (TFIDF)."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._mode = str(attributes["mode"])
        if self._mode not in {"TF", "IDF", "TFIDF"}:
            raise ValueError(f"mode is TF, IDF or TFIDF, not {self._mode!r}")
        self._least, self._most = (
            int(attributes["min_gram_length"]),
            int(attributes["max_gram_length"]),
        )
        self._skips = int(attributes.get("max_skip_count", 0))
        if not 1 <= self._least <= self._most or self._skips < 0:
            raise ValueError(
                f"n-grams have lengths from 1 on and skips are 0 or more: got {self._least} to {self._most}, "
                f"{self._skips} skips"
            )
        pool = list(attributes.get("pool_strings") or attributes.get("pool_int64s") or ())
        indexes = list(attributes["ngram_indexes"])
        if min(indexes, default=0) < 0:
            raise ValueError(f"ngram_indexes are 0 or more, got {min(indexes)}")
        self._width = max(indexes, default=-1) + 1
        self._grams = self._table(pool, list(attributes["ngram_counts"]), indexes)
        weights = attributes.get("weights")
        self._weights = np.ones(self._width, np.float32)
        if weights:
            if len(weights) != len(indexes):
                raise ValueError(f"{len(weights)} weights for {len(indexes)} n-grams")
            self._weights[indexes] = weights

    @staticmethod
    def _table(pool: list[Any], starts: list[int], indexes: list[int]) -> dict[int, dict[Any, int]]:
        """For each length the column of each n-gram; single elements are keys by themselves."""
        tables: dict[int, dict[Any, int]] = {}
        number = 0
        for length, (start, stop) in enumerate(
            zip(starts, [*starts[1:], len(pool)], strict=True), 1
        ):
            if not 0 <= start <= stop <= len(pool) or (stop - start) % length:
                raise ValueError(
                    f"ngram_counts {starts} do not cut a pool of {len(pool)} into n-grams"
                )
            table = tables.setdefault(length, {})
            for at in range(start, stop, length):
                if number >= len(indexes):
                    raise ValueError(
                        f"the pool has more than the {len(indexes)} n-grams of ngram_indexes"
                    )
                gram = pool[at] if length == 1 else tuple(pool[at : at + length])
                table[gram] = indexes[number]
                number += 1
        return tables

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One column for each index."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim > 2:
            raise ValueError(f"TfIdfVectorizer expects X [C] or [N, C], got {list(x.shape)}")
        return (TensorSpec((*x.shape[:-1], self._width), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Count row by row, then weigh."""
        x = inputs[0]
        rows = x if x.ndim == 2 else x.reshape(1, -1)
        y = outputs[0].reshape(rows.shape[0], self._width)
        y.fill(0)
        hits: list[int] = []
        ends = []
        for row in rows.tolist():
            self._find(row, hits)
            ends.append(len(hits))
        if hits:
            lengths = np.diff(ends, prepend=0)
            places = np.repeat(np.arange(rows.shape[0]) * self._width, lengths) + hits
            y.reshape(-1)[:] = np.bincount(places, minlength=y.size)
        if self._mode != "TF":
            if self._mode == "IDF":
                np.minimum(y, 1, out=y)
            np.multiply(y, self._weights, y)

    def _find(self, row: list[Any], hits: list[int]) -> None:
        """Add the column of each n-gram of *row* to *hits*."""
        first = self._grams.get(1, {})
        if self._least == 1:
            hits += [first[one] for one in row if one in first]
        for length in range(max(self._least, 2), self._most + 1):
            table = self._grams.get(length)
            if not table:
                continue
            for step in range(1, self._skips + 2):
                grams = zip(*(row[step * place :] for place in range(length)), strict=False)
                hits += [table[gram] for gram in grams if gram in table]
