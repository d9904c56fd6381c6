"""BatchNormalization: X [N, C, D1, ...] with scale, B, input_mean and input_var [C].

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html. At inference one multiplication and one addition in blocks
that stay in the cache; in training the statistics are those of the batch. Before opset 14 a node trains where it names
more outputs than Y, before opset 7 where ``is_test`` is 0. Scratch: a few numbers for each channel; float32 blocks for
narrower floats; in training one copy of X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BatchNormalization"]

_IS_TEST_UNTIL: Final = 7
_TRAINING_MODE_OPSET: Final = 14
_BLOCK: Final = 2**16


@register("BatchNormalization", since_version=1)
class BatchNormalization(Kernel):
    """``(X - mean) / sqrt(var + epsilon) * scale + B``, with one pair of numbers for each channel."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        if spec.opset >= _TRAINING_MODE_OPSET:
            self._trains = bool(attributes.get("training_mode", 0))
        elif spec.opset >= _IS_TEST_UNTIL:
            self._trains = any(spec.wanted[1:])
        else:
            self._trains = not attributes.get("is_test", 0) and any(spec.wanted[1:])
        if not attributes.get("spatial", 1):
            raise UnsupportedOperatorError("BatchNormalization with statistics for each element")
        self._epsilon = float(attributes.get("epsilon", 1e-5))
        self._momentum = float(attributes.get("momentum", 0.9))

    def infer(self, inputs: Sequence[Any]) -> list[TensorSpec]:
        """Y looks like X; the statistics have one number for each channel."""
        x = inputs[0]
        if x.ndim < 2:
            raise ValueError(f"X has a batch and a channel axis, so rank 2 or more, not {x.ndim}")
        for name, value in zip(("scale", "B", "input_mean", "input_var"), inputs[1:], strict=True):
            if value.shape != (x.shape[1],):
                raise ValueError(
                    f"{name} has one number for each of the {x.shape[1]} channels, "
                    f"not shape {list(value.shape)}"
                )
        statistics = TensorSpec((x.shape[1],), inputs[3].dtype)
        return [TensorSpec(x.shape, x.dtype), *[statistics] * (len(self.spec.wanted) - 1)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One factor and one offset for each channel, made in float64."""
        x, scale, bias, mean, variance = inputs
        if self._trains:
            axes = (0, *range(2, x.ndim))
            old_mean, old_variance = mean, variance
            mean = x.mean(axis=axes, dtype=np.float64)
            variance = x.var(axis=axes, dtype=np.float64)
            self._remember(outputs, (old_mean, old_variance), (mean, variance), x)
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + self._epsilon)
        offset = bias.astype(np.float64) - mean.astype(np.float64) * factor
        wide = row_type(x.dtype)
        _scale(x, factor.astype(wide), offset.astype(wide), outputs[0])

    def _remember(
        self, outputs: Sequence[Any], old: Sequence[Array], new: Sequence[Array], x: Array
    ) -> None:
        """Running statistics, and before opset 14 those of the batch, with the variance of a sample."""
        momentum = self._momentum
        places = x.size // max(x.shape[1], 1)
        for position, output in enumerate(outputs[1:]):
            which = position % 2
            value = new[which]
            if position < 2:
                if which and self.spec.opset < _TRAINING_MODE_OPSET and places > 1:
                    value = value * (places / (places - 1))
                value = old[which].astype(np.float64) * momentum + value * (1 - momentum)
            if output is not None:
                np.copyto(output, value, casting="unsafe")


def _scale(x: Array, factor: Array, offset: Array, y: Array) -> None:
    """X * factor + offset, with one pair for each channel of x [N, C, ...]."""
    places = math.prod(x.shape[2:])
    grid = (x.shape[0], x.shape[1], places)
    source, target = x.reshape(grid), y.reshape(grid)
    factor, offset = factor[:, None], offset[:, None]
    if x.size <= _BLOCK and x.dtype == factor.dtype:
        np.multiply(source, factor, target)
        np.add(target, offset, target)
        return
    height = max(1, _BLOCK // max(places, 1))
    for item in range(grid[0]):
        for start in range(0, grid[1], height):
            rows = slice(start, start + height)
            into = target[item, rows]
            if x.dtype == factor.dtype:
                np.multiply(source[item, rows], factor[rows], into)
                np.add(into, offset[rows], into)
            else:
                part = source[item, rows].astype(factor.dtype)
                part *= factor[rows]
                part += offset[rows]
                np.copyto(into, part, casting="unsafe")
