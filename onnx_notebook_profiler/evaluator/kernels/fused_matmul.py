"""com.microsoft's FusedMatMul, TransposeMatMul, FusedMatMulActivation, FusedGemm and GemmFastGelu.

ContribOperators.md of onnxruntime. The product goes straight into the output; the factor, C and the activation are
applied there. Scratch: operands whose batch axis has to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._cells import Activation, cell_activations
from onnx_notebook_profiler.evaluator.kernels._shared import operands, same_type
from onnx_notebook_profiler.evaluator.kernels.activations import gelu_tanh
from onnx_notebook_profiler.evaluator.kernels.matmul import product_shape
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["FusedGemm", "FusedMatMul", "GemmFastGelu"]

_MS: Final = "com.microsoft"


def _activation(spec: NodeSpec) -> Activation | None:
    """What ``activation`` names, with activation_alpha and activation_beta; None where the node has none."""
    name = spec.attributes.get("activation")
    if not name:
        return None
    numbers = (spec.attributes.get(f"activation_{one}") for one in ("alpha", "beta"))
    lists = [[] if number is None else [number] for number in numbers]
    return cell_activations([str(name)], *lists)[0]


def _turned(x: Array, *, last: bool, batch: bool) -> Array:
    """*x* with its matrices, and with ``batch`` its first axis moved before the last one, transposed."""
    if batch and x.ndim > 2:
        x = np.moveaxis(x, 0, -2)
    return x.swapaxes(-1, -2) if last and x.ndim > 1 else x


@register("FusedMatMul", since_version=1, domain=_MS)
@register("TransposeMatMul", since_version=1, domain=_MS)
@register("FusedMatMulActivation", since_version=1, domain=_MS)
class FusedMatMul(Kernel):
    """alpha * A' B', then an activation where the node has one."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._alpha = float(attributes.get("alpha", 1.0))
        self._turns = tuple(
            {
                "last": bool(attributes.get(f"trans{side}", 0)),
                "batch": bool(attributes.get(f"transBatch{side}", 0)),
            }
            for side in "AB"
        )
        self._activate = _activation(spec)

    def _pair(self, inputs: Sequence[Any]) -> tuple[Array, Array]:
        a, b = operands(self.spec, inputs, 2)
        return _turned(a, **self._turns[0]), _turned(b, **self._turns[1])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As numpy's matmul."""
        a, b = self._pair(inputs)
        dtype = same_type(self.spec, (a, b))
        shape = product_shape(self.spec, a.shape, b.shape)
        return (TensorSpec(shape, dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Product, factor, activation."""
        (y,) = outputs
        a, b = self._pair(inputs)
        np.matmul(a, b, out=y)
        if self._alpha != 1:
            np.multiply(y, self._alpha, y)
        if self._activate is not None:
            self._activate(y)


@register("FusedGemm", since_version=1, domain=_MS)
class FusedGemm(Kernel):
    """activation(alpha * A' B' + beta * C), [M, N]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._alpha, self._beta = (
            float(attributes.get("alpha", 1.0)),
            float(attributes.get("beta", 1.0)),
        )
        self._activate = _activation(spec)

    def _pair(self, inputs: Sequence[Any]) -> tuple[Array, Array]:
        a, b = operands(self.spec, inputs, 2)
        attributes = self.spec.attributes
        return a.T if attributes.get("transA") else a, b.T if attributes.get("transB") else b

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[M, N]."""
        a, b = self._pair(inputs)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"FusedGemm: {list(a.shape)} and {list(b.shape)} do not multiply")
        return (TensorSpec((a.shape[0], b.shape[1]), same_type(self.spec, (a, b))),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Product, C, activation."""
        (y,) = outputs
        np.matmul(*self._pair(inputs), out=y)
        if self._alpha != 1:
            np.multiply(y, self._alpha, y)
        c = inputs[2] if len(inputs) > 2 else None
        if c is not None:
            np.add(y, c if self._beta == 1 else c * y.dtype.type(self._beta), y)
        if self._activate is not None:
            self._activate(y)


@register("GemmFastGelu", since_version=1, domain=_MS)
class GemmFastGelu(Kernel):
    """Gelu, by tanh, of X W + bias."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[..., N]."""
        x, w = operands(self.spec, inputs, 2)
        if w.ndim != 2 or x.shape[-1] != w.shape[0]:
            raise ValueError(f"GemmFastGelu: {list(x.shape)} and {list(w.shape)} do not multiply")
        return (TensorSpec((*x.shape[:-1], w.shape[1]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Product, bias, activation."""
        (y,) = outputs
        total = np.matmul(inputs[0], inputs[1])
        if len(inputs) > 2 and inputs[2] is not None:
            total += inputs[2]
        gelu_tanh(total, y)
