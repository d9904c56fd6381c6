"""Cast and CastLike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._convert import (
    CastRules,
    convert,
    from_strings,
    to_strings,
)
from onnx_notebook_profiler.evaluator.kernels._shared import element_type, operands
from onnx_notebook_profiler.evaluator.registry import register

_INFINITY_SATURATES_SINCE = 24
_ROUND_MODES = ("up", "down", "nearest")


class _Conversion(Kernel):
    """Same shape, another element type."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        mode = spec.attributes.get("round_mode", "up")
        if mode not in _ROUND_MODES:
            raise ValueError(f"{spec.op_type}: round_mode is one of {_ROUND_MODES}, got {mode!r}")
        self._rules = CastRules(
            saturate=bool(spec.attributes.get("saturate", 1)),
            infinity_saturates=spec.opset >= _INFINITY_SATURATES_SINCE,
            round_mode=mode,
        )

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Convert every element into the output's type."""
        x, out = inputs[0], outputs[0]
        if out is x:
            return
        text = x.dtype.kind in "OUS"
        if text and out.dtype.kind == "O":
            np.copyto(out, x)
        elif text:
            from_strings(x, out, self._rules)
        elif out.dtype.kind == "O":
            to_strings(x, out)
        else:
            convert(x, out, self._rules)


@register("Cast", since_version=6)
class Cast(_Conversion):
    """To the type of attribute ``to``; in opset 1 that was text, which is not read here."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._dtype = element_type(spec.attributes.get("to", 0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape, the type that the attribute names."""
        return (TensorSpec(operands(self.spec, inputs, 1)[0].shape, self._dtype),)


@register("CastLike", since_version=15)
class CastLike(_Conversion):
    """To the type of the second input."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The first input's shape, the second's type."""
        x, like = operands(self.spec, inputs, 2)
        return (TensorSpec(x.shape, like.dtype),)
