"""NonMaxSuppression, RoiAlign and MaxRoiPool.

https://onnx.ai/onnx/operators/ under these names; He et al., Mask R-CNN (2017) for RoiAlign. Means of a region are two
small matrix products, since bilinear weights are a product of one for each axis. Scratch: some numbers for each box; in
float16 an image in float32, for maxima the samples of a region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import (
    AdoptingKernel,
    Array,
    Kernel,
    NodeSpec,
    TensorSpec,
)
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.kernels.indexing import check_indices
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["MaxRoiPool", "NonMaxSuppression", "RoiAlign"]


@register("NonMaxSuppression", since_version=10)
class NonMaxSuppression(AdoptingKernel):
    """boxes [N, S, 4], scores [N, C, S] -> selected [K, 3]: item, class and box, the best of each class first."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Class by class."""
        boxes, scores = inputs[:2]
        if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3:
            raise ValueError(
                f"NonMaxSuppression expects boxes [N, S, 4] and scores [N, C, S], got {list(boxes.shape)} and "
                f"{list(scores.shape)}"
            )
        if boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
            raise ValueError(
                f"NonMaxSuppression: scores {list(scores.shape)} do not fit boxes {list(boxes.shape)}"
            )
        most, overlap, least = (
            None if one is None else one.reshape(-1)[0] for one in [*inputs[2:5], *[None] * 3][:3]
        )
        most = 0 if most is None else int(most)
        selected: list[tuple[int, int, int]] = []
        for item in range(boxes.shape[0]) if most > 0 else ():
            corners = self._corners(boxes[item])
            areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
            for group in range(scores.shape[1]):
                order = _ranked(scores[item, group], least)
                kept = _suppress(
                    corners, areas, order, most, 0.0 if overlap is None else float(overlap)
                )
                selected += [(item, group, box) for box in kept]
        return [np.array(selected, np.int64).reshape(-1, 3)]

    def _corners(self, boxes: Array) -> Array:
        """Least and greatest coordinates [S, 4]."""
        if self.spec.attributes.get("center_point_box", 0):
            center, half = boxes[:, :2], boxes[:, 2:] / 2
            return np.concatenate((center - half, center + half), axis=1)
        first, second = boxes[:, :2], boxes[:, 2:]
        return np.concatenate((np.minimum(first, second), np.maximum(first, second)), axis=1)


def _ranked(scores: Array, least: Any) -> Array:
    """Boxes by falling score, of equal ones the first first; those at or below *least* left out."""
    order = np.argsort(-scores, kind="stable")
    return order if least is None else order[scores[order] > least]


def _suppress(corners: Array, areas: Array, order: Array, most: int, overlap: float) -> list[int]:
    """Take the best box that is left, drop what overlaps it by more than *overlap*, and so on."""
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = areas[best] + areas[order] - shared
        order = order[~((shared > overlap * union) & (union > 0))]
    return kept


class _Regions(Kernel):
    """X [N, C, H, W] and regions [R, 4 or 5] -> [R, C, height, width]."""

    def shape(self, x: Array, rois: Array, numbers: int, size: Sequence[int]) -> tuple[int, ...]:
        if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != numbers:
            raise ValueError(
                f"{self.spec.op_type} expects X [N, C, H, W] and regions [R, {numbers}], got {list(x.shape)} and "
                f"{list(rois.shape)}"
            )
        return (rois.shape[0], x.shape[1], *size)


@register("RoiAlign", since_version=10)
class RoiAlign(_Regions):
    """The mean, or the greatest weighted corner, of bilinear samples in each bin of each region."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._size = (
            int(attributes.get("output_height", 1)),
            int(attributes.get("output_width", 1)),
        )
        self._ratio = int(attributes.get("sampling_ratio", 0))
        self._scale = float(attributes.get("spatial_scale", 1.0))
        self._mode = str(attributes.get("mode", "avg"))
        halves = (
            attributes.get("coordinate_transformation_mode", "output_half_pixel") == "half_pixel"
        )
        self._offset = 0.5 if halves else 0.0
        self._least = 0.0 if halves else 1.0

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One grid for each region."""
        x, rois, items = operands(self.spec, inputs, 3)
        if items.shape != rois.shape[:1]:
            raise ValueError(
                f"RoiAlign expects one item for each of {rois.shape[0]} regions, got {list(items.shape)}"
            )
        return (TensorSpec(self.shape(x, rois, 4, self._size), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Region by region."""
        x, rois, items = inputs
        (y,) = outputs
        wide = row_type(x.dtype)
        check_indices(self.spec, items, x.shape[0], 0)
        for region, item in enumerate(items.tolist()):
            x1, y1, x2, y2 = (float(one) * self._scale - self._offset for one in rois[region])
            image = x[item].astype(wide, copy=False)
            rows = self._samples(y1, y2, self._size[0], x.shape[2])
            columns = self._samples(x1, x2, self._size[1], x.shape[3])
            if self._mode == "max":
                y[region] = _greatest(image, rows, columns, self._size)
            else:
                y[region] = _mean(image, rows, columns, self._size, wide)

    def _samples(
        self, start: float, end: float, bins: int, size: int
    ) -> tuple[Array, Array, Array]:
        """Lower neighbour, upper neighbour [samples] and their weights [2, samples] along one axis."""
        length = max(end - start, self._least)
        per_bin = self._ratio if self._ratio > 0 else max(1, math.ceil(length / bins))
        step = length / bins
        offsets = (np.arange(bins * per_bin) + 0.5) / per_bin
        places = start + step * offsets
        outside = (places < -1) | (places > size)
        places = np.clip(places, 0, size - 1)
        low = np.minimum(places.astype(np.intp), size - 1)
        high = np.minimum(low + 1, size - 1)
        part = places - low
        weights = np.stack((1 - part, part))
        weights[:, outside] = 0
        return low, high, weights


def _mean(image: Array, rows: Any, columns: Any, size: tuple[int, int], wide: Any) -> Array:
    """Rows times image times columns [C, height, width]."""
    top, left = int(rows[0].min()), int(columns[0].min())
    part = image[:, top : int(rows[1].max()) + 1, left : int(columns[1].max()) + 1]
    down = _matrix(rows, size[0], top, part.shape[1]).astype(wide)
    across = _matrix(columns, size[1], left, part.shape[2]).astype(wide)
    made: Array = np.matmul(np.matmul(down, part), across.T)
    return made


def _matrix(samples: Any, bins: int, first: int, length: int) -> Array:
    """The weight of each place [bins, length] in the mean of each bin."""
    low, high, weights = samples
    matrix = np.zeros((bins, length))
    per_bin = len(low) // bins
    which = np.repeat(np.arange(bins), per_bin)
    np.add.at(matrix, (which, low - first), weights[0])
    np.add.at(matrix, (which, high - first), weights[1])
    return matrix / per_bin


def _greatest(image: Array, rows: Any, columns: Any, size: tuple[int, int]) -> Array:
    """The greatest product of a corner and its weight in each bin [C, height, width]."""
    best: Any = None
    for i in range(2):
        for j in range(2):
            weights = rows[2][i][:, None] * columns[2][j]
            corners = image[:, rows[i]][:, :, columns[j]] * weights
            best = corners if best is None else np.maximum(best, corners)
    grid = best.reshape(image.shape[0], size[0], -1, size[1], best.shape[2] // size[1])
    result: Array = grid.max(axis=(2, 4))
    return result


@register("MaxRoiPool", since_version=1)
class MaxRoiPool(_Regions):
    """The greatest value in each bin of each region [item, x1, y1, x2, y2]; bins without a place are 0."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._size = tuple(int(one) for one in spec.attributes["pooled_shape"])
        self._scale = float(spec.attributes.get("spatial_scale", 1.0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One grid for each region."""
        x, rois = operands(self.spec, inputs, 2)
        return (TensorSpec(self.shape(x, rois, 5, self._size), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Region by region, bin by bin."""
        x, rois = inputs
        (y,) = outputs
        check_indices(self.spec, rois[:, 0].astype(np.int64), x.shape[0], 0)
        scaled = rois[:, 1:].astype(np.float64) * self._scale
        scaled = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
        for region, (x1, y1, x2, y2) in enumerate(scaled.tolist()):
            image = x[int(rois[region, 0])]
            rows = _spans(y1, y2, self._size[0], x.shape[2])
            columns = _spans(x1, x2, self._size[1], x.shape[3])
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    part = image[:, row, column]
                    y[region, :, i, j] = part.max(axis=(1, 2)) if part.size else 0


def _spans(start: int, end: int, bins: int, size: int) -> list[slice]:
    """The places of each bin between start and end, both included."""
    step = np.float32(max(end - start + 1, 1)) / np.float32(bins)
    edges = []
    for number in range(bins):
        low = int(np.floor(FLOAT32.type(number) * step)) + start
        high = int(np.ceil(FLOAT32.type(number + 1) * step)) + start
        edges.append(slice(min(max(low, 0), size), min(max(high, 0), size)))
    return edges
