"""Det and com.microsoft's Inverse and CDist: matrices as wholes; BitCast: the same bits under another type.

https://onnx.ai/onnx/operators/onnx__Det.html, onnx__BitCast.html; ContribOperators.md of onnxruntime. Determinants and
inverses are LAPACK's, whose work space no hook sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import element_type, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BitCast", "CDist", "Determinant", "Inverse"]


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
        if str(self.spec.attributes.get("metric", "sqeuclidean")) == "euclidean":
            np.sqrt(y, y)


@register("BitCast", since_version=26)
class BitCast(Kernel):
    """The bits of the input as another type of the same width."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The input's shape."""
        (x,) = operands(self.spec, inputs, 1)
        dtype = element_type(int(self.spec.attributes["to"]))
        if dtype.itemsize != x.dtype.itemsize or "O" in (dtype.char, x.dtype.char):
            raise ValueError(f"BitCast: {x.dtype} and {dtype} have different widths")
        return (TensorSpec(x.shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """A copy."""
        np.copyto(outputs[0].view(inputs[0].dtype), inputs[0])
