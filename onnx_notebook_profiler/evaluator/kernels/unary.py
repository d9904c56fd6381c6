"""Operators that map each element by one numpy function, and the tests for NaN and infinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec
from onnx_notebook_profiler.evaluator.kernels._shared import BOOL, Elementwise
from onnx_notebook_profiler.evaluator.registry import register

# operator: the opset since which it holds, and numpy's function of the same meaning
_FUNCTIONS: Final[Mapping[str, tuple[int, np.ufunc]]] = {
    "Abs": (1, np.absolute),
    "Acos": (7, np.arccos),
    "Acosh": (9, np.arccosh),
    "Asin": (7, np.arcsin),
    "Asinh": (9, np.arcsinh),
    "Atan": (7, np.arctan),
    "Atanh": (9, np.arctanh),
    "BitwiseNot": (18, np.invert),
    "Ceil": (1, np.ceil),
    "Cos": (7, np.cos),
    "Cosh": (9, np.cosh),
    "Exp": (1, np.exp),
    "Floor": (1, np.floor),
    "Log": (1, np.log),
    "Neg": (1, np.negative),
    "Not": (1, np.logical_not),
    "Reciprocal": (1, np.reciprocal),
    "Round": (11, np.rint),
    "Sign": (9, np.sign),
    "Sin": (7, np.sin),
    "Sinh": (9, np.sinh),
    "Sqrt": (1, np.sqrt),
    "Tan": (7, np.tan),
    "Tanh": (1, np.tanh),
}


class Unary(Elementwise):
    """An operator for which numpy has a function that rounds once in every type."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = _FUNCTIONS[spec.op_type][1]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], outputs[0])


for _name, (_version, _) in _FUNCTIONS.items():
    register(_name, since_version=_version)(Unary)


@register("IsNaN", since_version=9)
class IsNaN(Elementwise):
    """True where an element is not a number."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def result_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:  # noqa: ARG002
        """Always bool."""
        return BOOL

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        np.isnan(inputs[0], outputs[0])


@register("IsInf", since_version=10)
class IsInf(IsNaN):
    """True where an element is an infinity of a wanted sign."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        positive = bool(spec.attributes.get("detect_positive", 1))
        negative = bool(spec.attributes.get("detect_negative", 1))
        self._both = positive and negative
        self._sign = 1 if positive else -1 if negative else 0

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call; types without infinities have none to find."""
        x, out = inputs[0], outputs[0]
        if self._both:
            np.isinf(x, out)
        elif self._sign:
            np.equal(x, x.dtype.type(self._sign * np.inf), out)
        else:
            out.fill(False)
