"""com.microsoft's ComplexMul, ComplexMulConj and IsAllFinite.

ContribOperators.md of onnxruntime. Complex numbers are the last axis of 2: real and imaginary part. Scratch: float16
is multiplied in float32 and rounded once, which takes both operands and the product; else none but small blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    BOOL,
    FLOAT64,
    Elementwise,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ComplexProduct", "IsAllFinite"]

_MS: Final = "com.microsoft"


def _as_complex(x: Array) -> Array:
    """[..., 2] as complex numbers [..., 1], the same bytes."""
    return x.view(np.complex128 if x.dtype == FLOAT64 else np.complex64)


@register("ComplexMul", since_version=1, domain=_MS)
@register("ComplexMulConj", since_version=1, domain=_MS)
class ComplexProduct(Elementwise):
    """A [..., 2] times B [..., 2], or times the conjugate of B."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._conjugate = spec.op_type == "ComplexMulConj"

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape to which both broadcast."""
        for value in operands(self.spec, inputs, 2):
            if value.shape[-1:] != (2,):
                raise ValueError(
                    f"{self.spec.op_type} expects [..., 2], real and imaginary parts: got {list(value.shape)}"
                )
        return super().infer(inputs)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One product; a times the conjugate of b is the conjugate of its own conjugate times b."""
        out = outputs[0]
        wide = row_type(out.dtype)
        a, b = (_as_complex(value.astype(wide, copy=False)) for value in inputs[:2])
        result = out if wide == out.dtype else np.empty(out.shape, wide)
        product = _as_complex(result)
        if self._conjugate:
            np.conjugate(a, out=product)
            np.multiply(product, b, product)
            np.conjugate(product, product)
        else:
            np.multiply(a, b, product)
        if result is not out:
            np.copyto(out, result, casting="unsafe")


@register("IsAllFinite", since_version=1, domain=_MS)
class IsAllFinite(Kernel):
    """Whether no element of any input is an infinity or a NaN, or only one of these two where an attribute says so."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        only_inf = bool(spec.attributes.get("isinf_only", 0))
        only_nan = bool(spec.attributes.get("isnan_only", 0))
        if only_inf and only_nan:
            raise ValueError("IsAllFinite: isinf_only and isnan_only exclude each other")
        self._bad = np.isinf if only_inf else np.isnan if only_nan else None

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One bool."""
        operands(self.spec, inputs, max(1, len(inputs)))
        return (TensorSpec((), BOOL),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block, up to the first that has one."""
        outputs[0].fill(all(self._passes(x.reshape(-1)) for x in inputs))

    def _passes(self, x: Array) -> bool:
        for start in range(0, x.size, BLOCK):
            part = x[start : start + BLOCK]
            if not np.isfinite(part).all() if self._bad is None else self._bad(part).any():
                return False
        return True
