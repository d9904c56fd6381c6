"""BatchNormalization at inference: X [N, C, D1, ...] with scale, B, input_mean and input_var [C].

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html; with statistics of the batch, that is in training, the
next tier runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BatchNormalization"]

_TRAINING_MODE_OPSET = 14


@register("BatchNormalization", since_version=7)
class BatchNormalization(Kernel):
    """``(X - input_mean) / sqrt(input_var + epsilon) * scale + B``, with one pair of numbers for each channel."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        # Before opset 14 a node trains where it names more outputs than Y.
        trains = bool(attributes.get("training_mode", 0))
        if spec.opset < _TRAINING_MODE_OPSET:
            trains = any(spec.wanted[1:])
        if trains or not attributes.get("spatial", 1):
            raise UnsupportedOperatorError("BatchNormalization with statistics of its own")
        self._epsilon = float(attributes.get("epsilon", 1e-5))

    def infer(self, inputs: Sequence[Any]) -> list[TensorSpec]:
        """Y looks like X."""
        x = inputs[0]
        if x.ndim < 2:
            raise ValueError(f"X has a batch and a channel axis, so rank 2 or more, not {x.ndim}")
        for name, value in zip(("scale", "B", "input_mean", "input_var"), inputs[1:], strict=True):
            if value.shape != (x.shape[1],):
                raise ValueError(
                    f"{name} has one number for each of the {x.shape[1]} channels, "
                    f"not shape {list(value.shape)}"
                )
        return [TensorSpec(x.shape, x.dtype)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One multiplication and one addition for each element; the factors are made in float64."""
        x, scale, bias, mean, variance = inputs
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + self._epsilon)
        offset = bias.astype(np.float64) - mean.astype(np.float64) * factor
        shape = (1, -1, *[1] * (x.ndim - 2))
        wide = np.float64 if x.dtype == np.float64 else np.float32
        factor, offset = (one.astype(wide).reshape(shape) for one in (factor, offset))
        (y,) = outputs[:1]
        if x.dtype == wide:
            np.multiply(x, factor, out=y)
            np.add(y, offset, out=y)
        else:
            np.copyto(y, x.astype(wide) * factor + offset, casting="unsafe")
