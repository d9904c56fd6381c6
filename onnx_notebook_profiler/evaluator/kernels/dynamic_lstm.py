"""com.microsoft's DynamicQuantizeLSTM: weights of eight bits, inputs and states quantised by their own range.

ContribOperators.md of onnxruntime. What is quantised is taken back to float32 at once: the products are those of the
integers but for float32's rounding. The states of each direction have a range of their own. Scratch: that of LSTM, both
weights and the input as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._cells import Activation
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.kernels._steps import Cell
from onnx_notebook_profiler.evaluator.kernels.quantization import dynamic_range
from onnx_notebook_profiler.evaluator.kernels.recurrent import LSTM, Operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["DynamicQuantizeLSTM"]


def _rounded(x: Array) -> Array:
    """*x* as eight bits between its least and greatest number hold it."""
    scale, zero = dynamic_range(x)
    steps = np.rint(x / scale) + zero
    steps = np.clip(steps, 0, 255, out=steps)
    steps -= zero
    steps *= scale
    return np.asarray(steps)


def _dequantized(weights: Array, scales: Array, zeros: Array) -> Array:
    """[directions, 4 * hidden, inputs] of weights that lie the other way, with scales for each direction or gate."""
    count = weights.shape[0]
    factors = scales.reshape(count, 1, -1).astype(FLOAT32)
    offsets = zeros.reshape(count, 1, -1).astype(FLOAT32)
    return np.ascontiguousarray(((weights - offsets) * factors).swapaxes(1, 2))


@register("DynamicQuantizeLSTM", since_version=1, domain="com.microsoft")
class DynamicQuantizeLSTM(LSTM):
    """X, W [directions, input, 4 * hidden], R, B, sequence_lens, initial_h, initial_c, P, scales and zero points."""

    clears: ClassVar[bool] = True

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self.together = [slice(number, number + 1) for number in range(self.directions)]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As LSTM, whose weights lie the other way."""
        x, w, r = operands(self.spec, inputs, 3)
        turned = [one.swapaxes(1, 2) if one.ndim == 3 else one for one in (w, r)]
        return super().infer([x, *turned])

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """With the weights in float32."""
        w_scale, w_zero, r_scale, r_zero = inputs[8:12]
        weights = (
            _dequantized(inputs[1], w_scale, w_zero),
            _dequantized(inputs[2], r_scale, r_zero),
        )
        super().compute([_rounded(inputs[0]), *weights, *inputs[3:8]], outputs)

    def cell(self, own: Operands, state: Array, functions: Sequence[Activation]) -> Cell:
        """As LSTM, of a state of eight bits."""
        plain = super().cell(own, state, functions)

        def step(gates: Array, state: Array, out: Array) -> None:
            plain.step(gates, _rounded(state), out)

        return plain._replace(step=step)
