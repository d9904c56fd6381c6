"""Resize and Upsample: X [D0, D1, ...] sampled anew along some of its axes.

https://onnx.ai/onnx/operators/onnx__Resize.html, onnx__Upsample.html. One axis after the other, those that shrink
first; nearest neighbours along all axes at once where each element is repeated. Linear and cubic are computed in
float32, for double in float64. Scratch: the result of each axis but the last one, and one tap of a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._resample import (
    AxisPlan,
    Sampling,
    Taps,
    check,
    nearest,
    weights,
)
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import normalized_axes, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Resize"]

_SIZES_SINCE: Final = 11
_SCALES_INPUT_SINCE: Final = 9
_BLOCK: Final = 2**16


@register("Resize", since_version=10)
@register("Upsample", since_version=1, until_version=10)
class Resize(Kernel):
    """Sampling by nearest, linear or cubic interpolation; scales or sizes decide the result's shape."""

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2, 3)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        old = spec.op_type == "Upsample" or spec.opset < _SIZES_SINCE
        self._old = old
        rounding = "round_prefer_floor"
        if old:
            rounding = "floor" if spec.op_type == "Upsample" else "simple"
        self._sampling = Sampling(
            mode=str(attributes.get("mode", "nearest")),
            transformation=str(
                attributes.get(
                    "coordinate_transformation_mode", "asymmetric" if old else "half_pixel"
                )
            ),
            rounding=str(attributes.get("nearest_mode", rounding)),
            cubic=float(attributes.get("cubic_coeff_a", -0.75)),
            excludes_outside=bool(attributes.get("exclude_outside", 0)),
            antialias=bool(attributes.get("antialias", 0)),
        )
        check(self._sampling)
        self._extrapolation = float(attributes.get("extrapolation_value", 0.0))
        self._policy = str(attributes.get("keep_aspect_ratio_policy", "stretch"))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape with the lengths of the resized axes."""
        (x,) = operands(self.spec, inputs, 1)
        shape = list(x.shape)
        for plan in self._plans(inputs):
            shape[plan.axis] = plan.length
            if plan.length and not plan.size:
                raise ValueError(f"{self.spec.op_type}: axis {plan.axis} has no element to sample")
        return (TensorSpec(tuple(shape), x.dtype),)

    def _plans(self, inputs: Sequence[Any]) -> list[AxisPlan]:
        """What becomes of each axis that is named."""
        x = inputs[0]
        given = [None if one is None or not one.size else one.reshape(-1) for one in inputs[1:4]]
        given += [None] * (3 - len(given))
        roi: Any
        scales: Any
        sizes: Any
        roi, scales, sizes = given
        if self._old:
            scales, roi, sizes = given[0], None, None
            if scales is None:
                scales = self._attribute_scales(x.ndim)
        axes = self.spec.attributes.get("axes")
        axes = normalized_axes(self.spec, axes if axes is not None else range(x.ndim), x.ndim)
        crops = self._sampling.transformation == "tf_crop_and_resize"
        named = scales if scales is not None else sizes
        if named is None or len(named) != len(axes):
            found = "none" if named is None else f"{len(named)}"
            raise ValueError(
                f"{self.spec.op_type} needs a scale or a size for each of {len(axes)} axes, got {found}"
            )
        if crops and (roi is None or len(roi) != 2 * len(axes)):
            raise ValueError(f"tf_crop_and_resize needs a roi of {2 * len(axes)} numbers")
        plans = []
        counts = [x.shape[axis] for axis in axes]
        factors, lengths = self._lengths(counts, scales, sizes, roi if crops else None)
        for number, axis in enumerate(axes):
            start, end = (0.0, 1.0)
            if crops:
                start, end = float(roi[number]), float(roi[number + len(axes)])
            fractional = scales is not None or self._policy != "stretch"
            exact = counts[number] * factors[number] if fractional else lengths[number]
            plans.append(
                AxisPlan(
                    *(axis, counts[number], lengths[number], factors[number], float(exact)),
                    start=start,
                    end=end,
                    narrow=scales is not None,
                )
            )
        return plans

    def _attribute_scales(self, rank: int) -> Array | None:
        """Upsample 7 has scales as an attribute, Upsample 1 those of height and width."""
        attributes = self.spec.attributes
        if "scales" in attributes:
            return np.asarray(attributes["scales"], np.float32)
        if "height_scale" in attributes:
            last = [attributes["height_scale"], attributes["width_scale"]]
            return np.asarray([1.0] * (rank - 2) + last, np.float32)
        return None

    def _lengths(
        self, counts: Sequence[int], scales: Any, sizes: Any, roi: Any
    ) -> tuple[list[float], list[int]]:
        """The scale and the new length of each axis."""
        if scales is not None:
            factors = [float(scale) for scale in scales]
            if min(factors, default=1.0) <= 0 or not all(map(math.isfinite, factors)):
                raise ValueError(f"{self.spec.op_type}: scales are greater than 0, got {factors}")
            spans = [1.0] * len(counts)
            if roi is not None:
                spans = [float(roi[i + len(counts)]) - float(roi[i]) for i in range(len(counts))]
            # 10 * 1.3 is 13 in float32, which a scale is, and less than that in float64
            lengths = [
                math.floor(np.float32(count * span) * np.float32(factor))
                for count, span, factor in zip(counts, spans, factors, strict=True)
            ]
            return factors, lengths
        wanted = [int(size) for size in sizes]
        if min(wanted, default=0) < 0:
            raise ValueError(f"{self.spec.op_type}: sizes are 0 or more, got {wanted}")
        ratios = [size / max(count, 1) for size, count in zip(wanted, counts, strict=True)]
        if self._policy == "stretch":
            return ratios, wanted
        if self._policy not in {"not_larger", "not_smaller"}:
            raise ValueError(
                f"keep_aspect_ratio_policy is stretch, not_larger or not_smaller, not {self._policy!r}"
            )
        ratio = min(ratios) if self._policy == "not_larger" else max(ratios)
        return [ratio] * len(counts), [math.floor(ratio * count + 0.5) for count in counts]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Axis by axis."""
        x, y = inputs[0], outputs[0]
        if not y.size:
            return
        sampling = self._sampling
        plans = [plan for plan in self._plans(inputs) if _changes(plan, sampling)]
        if sampling.mode == "nearest":
            self._nearest(x, y, plans)
            return
        plans.sort(key=lambda plan: plan.length / max(plan.size, 1))
        wide = row_type(x.dtype)
        outside: list[tuple[int, Array]] = []
        value = x
        for number, plan in enumerate(plans):
            taps = weights(plan, sampling)
            if taps.outside is not None:
                outside.append((plan.axis, taps.outside))
            last = number == len(plans) - 1
            shape = [*value.shape[: plan.axis], plan.length, *value.shape[plan.axis + 1 :]]
            target = y if last and y.dtype == wide else np.empty(shape, wide)
            _combine(value, target, plan, taps, wide)
            value = target
        if value is not y:
            np.copyto(y, value, casting="unsafe")
        self._extrapolate(y, outside)

    def _nearest(self, x: Array, y: Array, plans: Sequence[AxisPlan]) -> None:
        if not plans:
            np.copyto(y, x)
            return
        taps = [nearest(plan, self._sampling) for plan in plans]
        factors = [_repeats(plan, one) for plan, one in zip(plans, taps, strict=True)]
        if all(factors):
            shape, source = [], []
            repeats = dict(zip((plan.axis for plan in plans), factors, strict=True))
            for axis, count in enumerate(x.shape):
                shape += [count, repeats.get(axis, 1)]
                source += [count, 1]
            spread, once = y.reshape(shape), x.reshape(source)
            for place in range(
                shape[-1]
            ):  # one by one, since numpy's innermost loop should be a long one
                np.copyto(spread[..., place], once[..., 0])
            return
        value = x
        order = sorted(zip(plans, taps, strict=True), key=lambda one: one[0].length / one[0].size)
        for number, (plan, one) in enumerate(order):
            out = y if number == len(order) - 1 else None
            value = np.take(value, one.positions[0], axis=plan.axis, out=out, mode="clip")
        if value is not y:
            np.copyto(y, value)
        self._extrapolate(
            y, [(plan.axis, one.outside) for plan, one in order if one.outside is not None]
        )

    def _extrapolate(self, y: Array, outside: Sequence[tuple[int, Array]]) -> None:
        for axis, beyond in outside:
            np.moveaxis(y, axis, 0)[beyond] = self._extrapolation


def _changes(plan: AxisPlan, sampling: Sampling) -> bool:
    """False for an axis that stays as it is."""
    same = plan.length == plan.size and (plan.start, plan.end) == (0.0, 1.0)
    if sampling.transformation == "tf_half_pixel_for_nn" and sampling.mode != "nearest":
        return True
    return not (same and (plan.scale == 1.0 or plan.size == 1))


def _repeats(plan: AxisPlan, taps: Taps) -> int:
    """How often each element comes, one copy after the other; 0 where they differ."""
    if taps.outside is not None or plan.length % plan.size:
        return 0
    factor = plan.length // plan.size
    positions = taps.positions[0].reshape(plan.size, factor)
    return factor if (positions == np.arange(plan.size)[:, None]).all() else 0


def _combine(x: Array, y: Array, plan: AxisPlan, taps: Taps, wide: np.dtype[Any]) -> None:
    """The weighted sum of the taps along one axis, for blocks of what lies before it."""
    outer, inner = math.prod(x.shape[: plan.axis]), math.prod(x.shape[plan.axis + 1 :])
    source = x.reshape(outer, plan.size, inner)
    target = y.reshape(outer, plan.length, inner)
    factors = taps.weights.astype(wide)[:, :, None]
    height = max(1, _BLOCK // max(plan.length * inner, 1))
    for start in range(0, outer, height):
        part = source[start : start + height].astype(wide, copy=False)
        total = target[start : start + height]
        tap = np.empty_like(total)
        for number, positions in enumerate(taps.positions):
            into = tap if number else total
            np.take(part, positions, axis=1, out=into, mode="clip")
            np.multiply(into, factors[number], into)
            if number:
                np.add(total, tap, total)
