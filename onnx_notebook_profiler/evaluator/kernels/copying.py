"""A value passed on under another name, with bytes of its own: the Identity that owes a copy.

https://onnx.ai/onnx/operators/onnx__Identity.html. Tensors, sequences and empty optionals alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel

__all__ = ["Copy"]


class Copy(AdoptingKernel):
    """What is shared with an input is copied when the result is adopted."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The value itself."""
        return list(inputs)
