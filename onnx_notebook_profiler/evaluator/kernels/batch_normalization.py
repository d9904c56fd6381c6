"""BatchNormalization: X [N, C, D1, ...] with scale, B, input_mean and input_var [C].

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html. At inference one multiplication and one addition in blocks
that stay in the cache; in training the statistics are those of the batch. Before opset 14 a node trains where it names
more outputs than Y, before opset 7 where ``is_test`` is 0; before opset 9 ``spatial`` 0 has numbers [C, D1, ...], one
for each element of an item. Scratch: a few numbers for each channel, and a block of float32 or two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._channels import (
    channel_statistics,
    far_center,
    scale_channels,
)
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT64, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BatchNormalization"]

_IS_TEST_UNTIL: Final = 7
_SPATIAL_UNTIL: Final = 9
_TRAINING_MODE_OPSET: Final = 14


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
        self._spatial = spec.opset >= _SPATIAL_UNTIL or bool(attributes.get("spatial", 1))
        self._epsilon = float(attributes.get("epsilon", 1e-5))
        self._momentum = float(attributes.get("momentum", 0.9))

    def _channels(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the statistics; an X of one dimension has one channel."""
        if len(shape) < 2:
            return (1,)
        return shape[1:2] if self._spatial else shape[1:]

    def infer(self, inputs: Sequence[Array | None]) -> list[TensorSpec]:
        """Y looks like X; the statistics have one number for each channel."""
        x, *rest = operands(self.spec, inputs, 5)
        if not x.ndim:
            raise ValueError("X has a batch and a channel axis, so rank 1 or more, not 0")
        expected = self._channels(x.shape)
        for name, value in zip(("scale", "B", "input_mean", "input_var"), rest, strict=True):
            if value.shape != expected:
                count = math.prod(expected)
                raise ValueError(
                    f"{name} has one number for each of the {count} channels, shape {list(expected)}, "
                    f"not shape {list(value.shape)}"
                )
        statistics = TensorSpec(expected, rest[2].dtype)
        return [TensorSpec(x.shape, x.dtype), *[statistics] * (len(self.spec.wanted) - 1)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One factor and one offset for each channel, made in float64."""
        x, scale, bias, mean, variance = inputs
        channels = scale.size
        grid = (x.shape[0], channels, x.size // max(x.shape[0] * channels, 1))
        if self._trains:
            old = (mean, variance)
            mean, variance = channel_statistics(x.reshape(grid))
            self._remember(outputs, old, (mean, variance))
        wide, mean = row_type(x.dtype), mean.reshape(-1).astype(FLOAT64, copy=False)
        power = np.add(variance.reshape(-1), self._epsilon, dtype=FLOAT64)
        center = far_center(mean, power, wide)
        factor = scale.reshape(-1) / np.sqrt(power)
        offset = bias.reshape(-1) - (mean if center is None else mean - center) * factor
        scale_channels(
            x.reshape(grid),
            factor.astype(wide),
            offset.astype(wide),
            outputs[0].reshape(grid),
            center,
        )

    def _remember(self, outputs: Sequence[Any], old: Sequence[Array], new: Sequence[Array]) -> None:
        """Running statistics, and before opset 14 those of the batch; the variance is the population's."""
        for position, output in enumerate(outputs[1:]):
            if output is None:
                continue
            value = new[position % 2].reshape(output.shape)
            if position < 2:
                before = old[position].astype(FLOAT64)
                value = before * self._momentum + value * (1 - self._momentum)
            np.copyto(output, value, casting="unsafe")
