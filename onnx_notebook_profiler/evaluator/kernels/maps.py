"""Operators that make maps: ZipMap of ``ai.onnx.ml``, which ends most scikit-learn classifiers.

https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ZipMap"]


@register("ZipMap", since_version=1, domain="ai.onnx.ml")
class ZipMap(AdoptingKernel):
    """X [N, C] or [C] -> one map from class label to score for each row."""

    fresh: ClassVar[bool] = True

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """A list of dictionaries with Python floats, in the order of the labels."""
        attributes = self.spec.attributes
        labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s") or []
        rows = inputs[0].reshape(-1, inputs[0].shape[-1])
        if rows.shape[1] != len(labels):
            raise ValueError(f"{len(labels)} labels are given for {rows.shape[1]} scores in a row")
        return [[dict(zip(labels, row, strict=False)) for row in rows.tolist()]]
