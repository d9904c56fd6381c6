"""com.microsoft's NGramRepeatBlock: no token that would repeat a sequence of tokens.

ContribOperators.md of onnxruntime. Scratch: one comparison of the tokens with the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["NGramRepeatBlock"]


@register("NGramRepeatBlock", since_version=1, domain="com.microsoft")
class NGramRepeatBlock(Kernel):
    """input_ids [B, S], scores [B, V] -> scores, minus infinity where the token would end an n-gram that is there."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._size = int(spec.attributes["ngram_size"])
        if self._size < 1:
            raise ValueError(f"NGramRepeatBlock: ngram_size is 1 or more, got {self._size}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As the scores."""
        tokens, scores = operands(self.spec, inputs, 2)
        if tokens.ndim != 2 or scores.ndim != 2 or tokens.shape[0] != scores.shape[0]:
            raise ValueError(
                f"NGramRepeatBlock expects input_ids [B, S] and scores [B, V], got {list(tokens.shape)}, "
                f"{list(scores.shape)}"
            )
        return (TensorSpec(scores.shape, scores.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Compare every n - 1 tokens with the last ones; what came after is blocked.

        Raises:
            ValueError: A token to block is not in the vocabulary.
        """
        tokens, scores, (y,) = inputs[0], inputs[1], outputs
        y[...] = scores
        length, size = tokens.shape[1], self._size
        count = length - size + 1
        if count < 1:
            return
        same = np.ones((tokens.shape[0], count), np.bool_)
        for place in range(size - 1):
            last = tokens[:, length - size + 1 + place, None]
            same &= tokens[:, place : place + count] == last
        rows, starts = np.nonzero(same)
        blocked = tokens[rows, starts + size - 1]
        if blocked.size and not 0 <= int(blocked.min()) <= int(blocked.max()) < y.shape[1]:
            raise ValueError(
                f"NGramRepeatBlock: tokens go from 0 to {y.shape[1] - 1}, got {int(blocked.min())} to "
                f"{int(blocked.max())}"
            )
        y[rows, blocked] = -np.inf
