"""Dropout: the tensor as it is at inference, in training with elements left out at random.

https://onnx.ai/onnx/operators/onnx__Dropout.html. Before opset 7 a node trains unless ``is_test`` is 1, from opset 12
on where the third input is true. With a ``seed`` each run leaves out the same elements: those that numpy's RandomState
draws, as onnx's own cases do. Scratch: draws for a block of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    BOOL,
    given,
    integers,
    keep_where,
    operands,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Dropout"]

_IS_TEST_UNTIL: Final = 7
_BOOL_MASK_OPSET: Final = 10
_RATIO_AS_INPUT: Final = 12
_DEFAULT_RATIO: Final = 0.5


@register("Dropout", since_version=1)
class Dropout(Kernel):
    """Output and mask have the input's shape; what is kept in training is divided by the probability to be kept."""

    value_inputs: ClassVar[tuple[int, ...]] = (2,)
    repeatable: ClassVar[bool] = False

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._always_trains = spec.opset < _IS_TEST_UNTIL and not spec.attributes.get("is_test", 0)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shape and type of the input; the mask is bool from opset 10 on."""
        x = operands(self.spec, inputs, 1)[0]
        mask = TensorSpec(x.shape, BOOL if self.spec.opset >= _BOOL_MASK_OPSET else x.dtype)
        return (TensorSpec(x.shape, x.dtype), mask)[: len(self.spec.wanted)]

    def _ratio(self, inputs: Sequence[Any]) -> float:
        """The probability to be left out: 0 at inference.

        Raises:
            ValueError: It is not from 0 up to 1, which is excluded.
        """
        if not self._always_trains and not any(integers(inputs, 2) or ()):
            return 0.0
        if self.spec.opset >= _RATIO_AS_INPUT:
            value = given(inputs, 1)
            ratio = _DEFAULT_RATIO if value is None else float(value.reshape(-1)[0])
        else:
            ratio = float(self.spec.attributes.get("ratio", _DEFAULT_RATIO))
        if not 0 <= ratio < 1:
            raise ValueError(
                f"Dropout expects a ratio from 0 up to but not including 1, got {ratio}"
            )
        return ratio

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array | None]) -> None:
        """Copy, and fill the mask; either may have no buffer."""
        x, out, mask = inputs[0], outputs[0], given(outputs, 1)
        ratio = self._ratio(inputs)
        if not ratio:
            if out is not None:
                np.copyto(out, x)
            if mask is not None:
                mask.fill(1)
            return
        seed = self.spec.attributes.get("seed")
        generator = np.random.RandomState(None if seed is None else seed & 0xFFFFFFFF)
        source = x.reshape(-1)
        wide = work_type(x.dtype)
        scale = wide.type(1 / (1 - ratio))
        for start in range(0, source.size, BLOCK):
            part = slice(start, start + BLOCK)
            values = source[part]
            kept = generator.random_sample(values.size) >= ratio
            if out is not None:
                made = np.multiply(values.astype(wide, copy=False), scale)
                keep_where(kept, made)
                np.copyto(out.reshape(-1)[part], made, casting="unsafe")
            if mask is not None:
                mask.reshape(-1)[part] = kept
