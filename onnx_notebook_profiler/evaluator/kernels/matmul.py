"""MatMul and Gemm.

float16 and bfloat16 are multiplied and added up in float32 and rounded once. Scratch for them and for integers: both
matrices and the product in a wider float.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._integer_product import wrapped_product
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT64,
    operands,
    same_type,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register


def product_shape(spec: NodeSpec, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of numpy's matmul.

    Raises:
        ValueError: Inner dimensions differ, outer ones do not broadcast, or one is a scalar.
    """
    if not a or not b:
        raise ValueError(
            f"{spec.op_type} expects tensors of rank 1 or more, got shapes {a} and {b}"
        )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(
            f"{spec.op_type}: the shapes {a} and {b} differ in the dimension to sum over"
        )
    try:
        outer = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError as error:
        raise ValueError(
            f"{spec.op_type}: the leading dimensions of {a} and {b} do not fit"
        ) from error
    return outer + a[-2:-1] + (b[-1:] if len(b) > 1 else ())


def multiply(a: Array, b: Array, out: Array) -> None:
    """Like numpy's matmul; a stack of matrices times one matrix is a single product."""
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        a = a.reshape(-1, a.shape[-1]) if a.size else a
        if a.ndim == 2:
            out = out.reshape(a.shape[0], b.shape[1])
    if out.dtype.kind in "iu":
        wrapped_product(a, b, out)
    else:
        np.matmul(a, b, out)


@register("MatMul", since_version=1)
class MatMul(Kernel):
    """Matrix product of stacks of matrices, or of vectors."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape that numpy's matmul gives."""
        a, b = operands(self.spec, inputs, 2)
        dtype = same_type(self.spec, (a, b))
        return (TensorSpec(product_shape(self.spec, a.shape, b.shape), dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Into the output, or for narrow floats into one of float32 first."""
        a, b, out = inputs[0], inputs[1], outputs[0]
        wide = work_type(out.dtype)
        if wide == out.dtype:
            multiply(a, b, out)
        else:
            total = np.empty(out.shape, wide)
            multiply(a.astype(wide), b.astype(wide), total)
            np.copyto(out, total, casting="unsafe")


@register("Gemm", since_version=7)
class Gemm(Kernel):
    """alpha·A·B + beta·C, where A and B may be transposed and C broadcasts to the product."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._alpha: float = spec.attributes.get("alpha", 1.0)
        self._beta: float = spec.attributes.get("beta", 1.0)
        self._trans_a = bool(spec.attributes.get("transA", 0))
        self._trans_b = bool(spec.attributes.get("transB", 0))
        self._plain = self._alpha == 1 and self._beta in {0, 1}

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Rows of A by columns of B."""
        a, b = operands(self.spec, inputs, 2)
        c = inputs[2] if len(inputs) > 2 else None
        dtype = same_type(self.spec, (a, b) if c is None else (a, b, c))
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(
                f"{self.spec.op_type} expects two matrices, got shapes {a.shape} and {b.shape}"
            )
        rows, inner = a.shape[::-1] if self._trans_a else a.shape
        depth, columns = b.shape[::-1] if self._trans_b else b.shape
        if inner != depth:
            raise ValueError(
                f"{self.spec.op_type}: {a.shape} and {b.shape} differ in the dimension to sum over "
                f"(transA={int(self._trans_a)}, transB={int(self._trans_b)})"
            )
        shape = (rows, columns)
        if c is not None and not _fits(c.shape, shape):
            raise ValueError(
                f"{self.spec.op_type}: C of shape {c.shape} does not broadcast to {shape}"
            )
        return (TensorSpec(shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """In the output's type, or in a wider one that is rounded once."""
        a, b, out = inputs[0], inputs[1], outputs[0]
        c = inputs[2] if len(inputs) > 2 and self._beta else None
        wide = work_type(out.dtype)
        if out.dtype.kind in "iu" and not self._plain:
            wide = FLOAT64
        if wide == out.dtype:
            self._fill(a, b, c, out)
        else:
            total = np.empty(out.shape, wide)
            self._fill(a.astype(wide), b.astype(wide), None if c is None else c.astype(wide), total)
            np.copyto(out, total, casting="unsafe")

    def _fill(self, a: Array, b: Array, c: Array | None, out: Array) -> None:
        multiply(a.T if self._trans_a else a, b.T if self._trans_b else b, out)
        if self._alpha != 1:
            np.multiply(out, self._alpha, out)
        if c is not None:
            np.add(out, c if self._beta == 1 else c * self._beta, out)


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """True where *shape* broadcasts to *target* without changing it."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
