"""Optional values: an absent one is None, a present one is the value itself, tensor or sequence.

https://onnx.ai/onnx/operators/onnx__Optional.html and its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Optional", "OptionalGetElement", "OptionalHasElement"]


@register("Optional", since_version=15)
class Optional(AdoptingKernel):
    """The input as an optional value; no input gives the empty one."""

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """The value, or None."""
        return [inputs[0] if inputs else None]


@register("OptionalGetElement", since_version=15)
class OptionalGetElement(AdoptingKernel):
    """What an optional value holds."""

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """The value; ValueError where there is none."""
        if inputs[0] is None:
            raise ValueError("the optional value is empty: there is no element to get")
        return [inputs[0]]


@register("OptionalHasElement", since_version=15)
class OptionalHasElement(AdoptingKernel):
    """Whether an optional value holds anything."""

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """A bool of rank 0."""
        return [np.array(bool(inputs) and inputs[0] is not None)]
