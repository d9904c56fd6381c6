"""Det and com.microsoft's Inverse and CDist: matrices as wholes; BitCast: the same bits under another type.

https://onnx.ai/onnx/operators/onnx__Det.html, onnx__BitCast.html; ContribOperators.md of onnxruntime. Determinants and
inverses are LAPACK's, whose work space no hook sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import element_type, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BitCast", "CDist", "Determinant", "Inverse"]

_METRICS: Final = ("euclidean", "sqeuclidean")
_NARROW: Final[Mapping[str, int]] = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
"""Bits of types that have a byte for each element here."""


def _squares(x: Array, name: str) -> Array:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} expects square matrices [..., M, M], got {list(x.shape)}")
    return x


@register("Det", since_version=11)
class Determinant(Kernel):
    """X [..., M, M] -> [...]."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One number for each matrix."""
        x = _squares(operands(self.spec, inputs, 1)[0], "Det")
        return (TensorSpec(x.shape[:-2], x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """By LU."""
        outputs[0][...] = np.linalg.det(inputs[0].astype(row_type(inputs[0].dtype), copy=False))


@register("Inverse", since_version=1, domain="com.microsoft")
class Inverse(Kernel):
    """X [..., M, M] -> its inverses."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        x = _squares(operands(self.spec, inputs, 1)[0], "Inverse")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """By LU; a singular matrix is an error."""
        try:
            outputs[0][...] = np.linalg.inv(inputs[0].astype(row_type(inputs[0].dtype), copy=False))
        except np.linalg.LinAlgError as error:
            raise ValueError("a matrix is singular: it has no inverse") from error


@register("CDist", since_version=1, domain="com.microsoft")
class CDist(Kernel):
    """A [M, K], B [N, K] -> distances of all pairs [M, N], euclidean or squared."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._metric = str(spec.attributes.get("metric", "sqeuclidean"))
        if self._metric not in _METRICS:
            raise UnsupportedOperatorError(f"CDist by {self._metric!r}: expected one of {_METRICS}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One number for each pair."""
        a, b = operands(self.spec, inputs, 2)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
            raise ValueError(
                f"CDist expects A [M, K] and B [N, K], got {list(a.shape)}, {list(b.shape)}"
            )
        return (TensorSpec((a.shape[0], b.shape[0]), a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """|a|^2 + |b|^2 - 2 a b', never below 0."""
        a, b = inputs
        (y,) = outputs
        np.matmul(a, b.T, out=y)
        np.multiply(y, -2, y)
        np.add(y, np.einsum("ij,ij->i", a, a)[:, None], y)
        np.add(y, np.einsum("ij,ij->i", b, b), y)
        np.maximum(y, 0, out=y)
        if self._metric == "euclidean":
            np.sqrt(y, y)


def _bits(dtype: np.dtype[Any]) -> int:
    return _NARROW.get(dtype.name, dtype.itemsize * 8)


@register("BitCast", since_version=26)
class BitCast(Kernel):
    """The bits of the input as another type of the same width."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape."""
        (x,) = operands(self.spec, inputs, 1)
        dtype = element_type(int(self.spec.attributes["to"]))
        if "O" in (dtype.char, x.dtype.char):
            raise ValueError("BitCast is not for strings")
        if _bits(dtype) != _bits(x.dtype):
            raise ValueError(
                f"BitCast expects types of one width, got {x.dtype} of {_bits(x.dtype)} bits and {dtype} of "
                f"{_bits(dtype)}"
            )
        return (TensorSpec(x.shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A copy."""
        np.copyto(outputs[0].view(inputs[0].dtype), inputs[0])
