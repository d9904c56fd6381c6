"""InstanceNormalization and GroupNormalization, and com.microsoft's GroupNorm and SkipGroupNorm.

https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html, onnx__GroupNormalization.html; ContribOperators.md of
onnxruntime. One factor and one offset for each channel of an item, from the statistics of its group. float16 and
bfloat16 are computed in float32. Scratch: some numbers for each channel, and blocks of at least one channel; the two of
com.microsoft a few blocks of whole places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import (
    ones_for,
    per_block,
    row_sums,
    row_type,
    squares_of_rows,
    unbuffered,
)
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ContribGroupNorm", "GroupNormalization", "InstanceNormalization"]

_MS: Final = "com.microsoft"
_GROUP_SCALES_CHANNELS: Final = 21
_FAR: Final = 8.0
_FARTHER: Final = 64.0
_BLOCK: Final = 2**15


def _row_statistics(rows: Array, ones: Array | None) -> tuple[Array, Array]:
    """Mean and variance [r] of rows [r, width].

    The mean of squares less the square of the mean, and where those are large beside their difference, the mean of the
    squares of what is centered.
    """
    width = rows.shape[1]
    mean = row_sums(rows, ones)
    mean /= width
    variance = squares_of_rows(rows)
    variance /= width
    squared = np.square(mean)
    variance -= squared
    far = squared > variance * _FAR
    if far.any():
        centered = rows[far] - mean[far, None]
        variance[far] = squares_of_rows(centered) / width
    return mean, variance


def _normalize_groups(
    x: Array, y: Array, channels: int, epsilon: float, scale: Array, bias: Array
) -> None:
    """Each row of x [rows, width] by itself, with scale and bias [row, channel] for its equal parts."""
    rows, width = x.shape
    wide = row_type(x.dtype)
    places = width // channels
    ones = ones_for(rows, width, wide)

    def apply(block: slice) -> None:
        part = x[block].astype(wide, copy=False)
        mean, variance = _row_statistics(part, ones)
        variance += epsilon
        if (np.square(mean) > variance * _FARTHER).any():  # products and offsets would cancel
            part = np.subtract(part, mean[:, None])
            mean = row_sums(part, ones) / width
        np.sqrt(variance, variance)
        factor = scale[block] / variance[:, None]
        offset = bias[block] - mean[:, None] * factor
        lines = part.reshape(-1, places)
        target = y[block].reshape(-1, places) if y.dtype == wide else lines
        np.multiply(lines, factor.reshape(-1, 1), target)
        np.add(target, offset.reshape(-1, 1), target)
        if y.dtype != wide:
            np.copyto(y[block], part, casting="unsafe")

    per_block(rows, width, apply)


@register("InstanceNormalization", since_version=1)
class InstanceNormalization(Kernel):
    """Each channel of each item of X [N, C, D1, ...] by itself; scale and B [C]."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-5))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        x, scale, bias = operands(self.spec, inputs, 3)
        if x.ndim < 2 or scale.shape != (x.shape[1],) or bias.shape != scale.shape:
            raise ValueError(
                f"InstanceNormalization expects X [N, C, ...] and scale, B [C], got {x.shape}, {scale.shape}, "
                f"{bias.shape}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A row for each channel."""
        x, scale, bias = inputs
        if not x.size:
            return
        wide, items = row_type(x.dtype), x.shape[0]
        rows = (items * x.shape[1], math.prod(x.shape[2:]))
        pair = (one.astype(wide, copy=False)[:, None] for one in (scale, bias))
        factor, offset = pair if items == 1 else (np.tile(one, (items, 1)) for one in pair)
        _normalize_groups(
            x.reshape(rows), outputs[0].reshape(rows), 1, self._epsilon, factor, offset
        )


@register("GroupNormalization", since_version=18)
class GroupNormalization(Kernel):
    """Each group of channels of each item of X [N, C, ...] by itself; scale and bias [C], before opset 21 [groups]."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-5))
        self._groups = int(spec.attributes["num_groups"])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y looks like X."""
        x, scale, bias = operands(self.spec, inputs, 3)
        if x.ndim < 2 or self._groups < 1 or x.shape[1] % self._groups:
            raise ValueError(
                f"GroupNormalization: X {x.shape} has no channels for {self._groups} equal groups"
            )
        expected = x.shape[1] if self.spec.opset >= _GROUP_SCALES_CHANNELS else self._groups
        if scale.shape != (expected,) or bias.shape != (expected,):
            raise ValueError(
                f"GroupNormalization expects scale and bias [{expected}], got {scale.shape}, {bias.shape}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A row for each group, with one scale and bias for each of its channels."""
        x, scale, bias = inputs
        if not x.size:
            return
        wide, items = row_type(x.dtype), x.shape[0]
        own = scale.size // self._groups
        rows = (items * self._groups, x.size // (items * self._groups))
        pair = (one.astype(wide, copy=False).reshape(self._groups, own) for one in (scale, bias))
        factor, offset = pair if items == 1 else (np.tile(one, (items, 1)) for one in pair)
        _normalize_groups(
            x.reshape(rows), outputs[0].reshape(rows), own, self._epsilon, factor, offset
        )


@register("GroupNorm", since_version=1, domain=_MS)
@register("SkipGroupNorm", since_version=1, domain=_MS)
class ContribGroupNorm(Kernel):
    """X, or X + skip + bias, normalised in groups of channels, with SiLU where ``activation`` is 1.

    X is [N, H, W, C], or [N, C, H, W] where ``channels_last`` is 0; skip is the same or has one number for
    each channel of an item.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._groups = int(attributes["groups"])
        self._epsilon = float(attributes.get("epsilon", 1e-5))
        self._last = bool(attributes.get("channels_last", 1))
        activation = attributes["activation"]
        if activation not in {0, 1}:
            raise ValueError(f"{spec.op_type} expects activation to be 0 or 1, got {activation}")
        self._activates = activation == 1

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y, and the sum S, look like X."""
        skips = self.spec.op_type == "SkipGroupNorm"
        x, gamma, beta, *skip = operands(self.spec, inputs, 4 if skips else 3)
        channels = x.shape[-1 if self._last else 1] if x.ndim > 2 else 0
        if not channels or self._groups < 1 or channels % self._groups:
            raise ValueError(
                f"{self.spec.op_type}: X {x.shape} has no channels for {self._groups} equal groups"
            )
        bias = given(inputs, 4) if skips else None
        for name, value in (("gamma", gamma), ("beta", beta), ("bias", bias)):
            if value is not None and value.shape != (channels,):
                raise ValueError(
                    f"{self.spec.op_type} expects {name} [{channels}], got {value.shape}"
                )
        if skip and skip[0].size not in {x.size, x.shape[0] * channels}:
            raise ValueError(
                f"{self.spec.op_type}: skip {skip[0].shape} does not fit X {x.shape}: one for each element, or for "
                f"each channel of an item"
            )
        return (TensorSpec(x.shape, x.dtype),) * len(self.spec.wanted)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Item by item: means, variances, then the formula; the sum is made anew for each."""
        x, gamma, beta = inputs[:3]
        skip, bias = given(inputs, 3), given(inputs, 4)
        channels = gamma.size
        axis = 0 if self._last else 1
        """The axis of the places in an item [P, C] or [C, P]."""
        places = x.size // max(x.shape[0] * channels, 1)
        grid = (places, channels) if self._last else (channels, places)
        line = (1, channels) if self._last else (channels, 1)
        factors = [one.astype(FLOAT32).reshape(line) for one in (gamma, beta)]
        y, total = outputs[0], given(outputs, 1)
        for item in range(x.shape[0]):
            addends = [x[item].reshape(grid)]
            if skip is not None:
                whole = skip.size == x.size
                addends.append(skip[item].reshape(grid if whole else line))
            if bias is not None:
                addends.append(bias.reshape(line))
            shown = None if total is None else total[item].reshape(grid)
            self._item(addends, axis, factors, y[item].reshape(grid), shown)

    def _item(
        self, addends: list[Array], axis: int, factors: list[Array], y: Array, shown: Any
    ) -> None:
        places, channels = y.shape[axis], y.shape[1 - axis]
        step = max(1, _BLOCK // max(channels, 1))
        line = (1, channels) if axis == 0 else (channels, 1)

        def some(place: int) -> tuple[slice, ...]:
            part = slice(place, place + step)
            return (part,) if axis == 0 else (slice(None), part)

        def load(where: tuple[slice, ...]) -> Array:
            part = addends[0][where].astype(FLOAT32)
            for one in addends[1:]:
                np.add(part, one if one.shape == line else one[where], part)
            return part

        def mean_of(formula: Callable[[Array], Array]) -> Array:
            """For each channel, the mean over the places and channels of its group."""
            total = np.zeros(channels)
            for place in range(0, places, step):
                total += np.add.reduce(formula(load(some(place))), axis=axis)
            means = total.reshape(self._groups, -1).mean(axis=1) / max(places, 1)
            return np.repeat(means, channels // self._groups).astype(FLOAT32).reshape(line)

        def work() -> None:
            mean = mean_of(lambda part: part)
            variance = mean_of(lambda part: np.square(part - mean))
            factor = factors[0] / np.sqrt(variance + np.float32(self._epsilon))
            offset = factors[1] - mean * factor
            for place in range(0, places, step):
                where = some(place)
                part = load(where)
                if shown is not None:
                    np.copyto(shown[where], part, casting="unsafe")
                np.multiply(part, factor, part)
                np.add(part, offset, part)
                if self._activates:
                    np.divide(part, np.exp(-part) + np.float32(1), part)
                np.copyto(y[where], part, casting="unsafe")

        unbuffered(work, y.size)
