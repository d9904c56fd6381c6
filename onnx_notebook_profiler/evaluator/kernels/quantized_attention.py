"""com.microsoft's QAttention: Attention whose projection is a product of integers.

ContribOperators.md of onnxruntime. Scratch: the projection as float32, beside that of Attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.kernels.contrib_attention import ContribAttention
from onnx_notebook_profiler.evaluator.kernels.integer_matmul import multiply_integers
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["QAttention"]


@register("QAttention", since_version=1, domain="com.microsoft")
class QAttention(ContribAttention):
    """input [B, S, I], weight [I, 3 H D], bias, both scales, mask_index, both zero points, past -> output, present."""

    value_inputs: ClassVar[tuple[int, ...]] = ()

    def _plain(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as Attention has them."""
        return [*inputs[:3], given(inputs, 5), given(inputs, 8), None, None]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H D] and present [2, B, H, T, D], of the type of the scales."""
        scale = operands(self.spec, inputs, 5)[3]
        return [TensorSpec(shape, scale.dtype) for shape, _ in super().infer(self._plain(inputs))]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The product in float32, which holds it exactly, times the scales, plus the bias."""
        x, weights, bias, scale, factors = inputs[:5]
        made = np.empty((*x.shape[:-1], weights.shape[1]), FLOAT32)
        multiply_integers(x, weights, made, given(inputs, 6), given(inputs, 7))
        np.multiply(made, scale.reshape(()) * factors.reshape(-1), made)
        np.add(made, bias, made)
        self.attend(made, weights, self._plain(inputs), outputs)
