"""com.microsoft's SkipLayerNormalization, SkipSimplifiedLayerNormalization and EmbedLayerNormalization.

ContribOperators.md of onnxruntime. The sum is made in the output, or in ``input_skip_bias_sum`` where that is wanted,
and normalised row by row; no scratch beyond that of a LayerNormalization.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import normalize_rows, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["EmbedLayerNormalization", "SkipLayerNormalization"]

_MS: Final = "com.microsoft"


def _wide(value: Any, dtype: np.dtype[Any]) -> Any:
    return None if value is None else value.astype(dtype, copy=False)


@register("SkipLayerNormalization", since_version=1, domain=_MS)
@register("SkipSimplifiedLayerNormalization", since_version=1, domain=_MS)
class SkipLayerNormalization(Kernel):
    """Rows of input + skip + bias, normalised; Simplified leaves the mean in and has no beta."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-12))
        self._centers = spec.op_type == "SkipLayerNormalization"

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """output, mean and inv_std_var [..., 1] float32, input_skip_bias_sum."""
        x, skip, gamma = operands(self.spec, inputs, 3)
        if gamma.shape != x.shape[-1:] or np.broadcast_shapes(x.shape, skip.shape) != x.shape:
            raise ValueError(
                f"{self.spec.op_type}: skip {list(skip.shape)} and gamma {list(gamma.shape)} do not fit "
                f"input {list(x.shape)}"
            )
        whole, row = TensorSpec(x.shape, x.dtype), TensorSpec((*x.shape[:-1], 1), FLOAT32)
        return (whole, row, row, whole)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Add, then normalise."""
        x, skip, gamma = inputs[:3]
        beta = inputs[3] if self._centers and len(inputs) > 3 else None
        bias = given(inputs, 4 if self._centers else 3)
        y, mean, inverse, total = [*outputs, None, None, None][:4]
        if total is None:
            total = y
        wide = row_type(x.dtype)
        np.add(x, skip, total)
        if bias is not None:
            np.add(total, bias, total)
        width = x.shape[-1]
        normalize_rows(
            total.reshape(-1, width),
            y.reshape(-1, width),
            self._epsilon,
            center=self._centers,
            mean=None if mean is None else mean.reshape(-1),
            inverse=None if inverse is None else inverse.reshape(-1),
            scale=_wide(gamma, wide),
            bias=_wide(beta, wide),
        )


@register("EmbedLayerNormalization", since_version=1, domain=_MS)
class EmbedLayerNormalization(Kernel):
    """Word, position and segment embeddings of ids [N, S], added and normalised; mask_index counts each row's mask."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-12))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [N, S, H], mask_index [N] int32, embedding_sum."""
        ids, words = inputs[0], inputs[2]
        if ids is None or words is None or ids.ndim != 2:
            raise ValueError(
                "EmbedLayerNormalization expects input_ids [N, S] and word_embedding [V, H]"
            )
        whole = TensorSpec((*ids.shape, words.shape[1]), words.dtype)
        mask = TensorSpec(ids.shape[:1], np.dtype(np.int32))
        return (whole, mask, whole)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Gather, add, normalise."""
        ids, segments, words, positions, kinds, gamma, beta = inputs[:7]
        mask, places = given(inputs, 7), given(inputs, 8)
        y, counts, total = [*outputs, None, None][:3]
        if total is None:
            total = y
        np.take(words, ids, axis=0, out=total, mode="clip")
        if places is None:
            np.add(total, positions[: ids.shape[1]], total)
        else:
            np.add(total, np.take(positions, places, axis=0, mode="clip"), total)
        if segments is not None and kinds is not None:
            np.add(total, np.take(kinds, segments, axis=0, mode="clip"), total)
        if counts is not None:
            counts[...] = 0 if mask is None else mask.sum(axis=1)
        width, wide = total.shape[-1], row_type(total.dtype)
        normalize_rows(
            total.reshape(-1, width),
            y.reshape(-1, width),
            self._epsilon,
            scale=_wide(gamma, wide),
            bias=_wide(beta, wide),
        )
