"""com.microsoft's FusedMatMul, TransposeMatMul, FusedMatMulActivation, FusedGemm and GemmFastGelu.

ContribOperators.md of onnxruntime. The product goes straight into the output; the factor, C and the activation are
applied there. Scratch: operands whose batch axis has to move; for
float16 and bfloat16 operands and product in float32; the product of GemmFastGelu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._cells import Activation, cell_activations
from onnx_notebook_profiler.evaluator.kernels._shared import (
    given,
    in_blocks,
    operands,
    same_type,
    work_type,
)
from onnx_notebook_profiler.evaluator.kernels.activations import gelu_tanh
from onnx_notebook_profiler.evaluator.kernels.matmul import Gemm, multiply, product_shape
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["FusedGemm", "FusedMatMul", "GemmFastGelu"]

_MS: Final = "com.microsoft"


def _selu(alpha: float, gamma: float) -> Activation:
    def activate(x: Array) -> None:
        below = np.minimum(x, 0)
        np.expm1(below, below)
        np.multiply(below, alpha * gamma, below)
        np.maximum(x, 0, out=x)
        np.multiply(x, gamma, x)
        np.add(x, below, x)

    return activate


def _thresholded_relu(alpha: float) -> Activation:
    return lambda x: np.copyto(x, 0, where=x <= alpha)


def _activation(spec: NodeSpec) -> Activation | None:
    """What ``activation`` names, with activation_alpha, _beta and _gamma; None where the node has none.

    Raises:
        UnsupportedOperatorError: The activation is not known.
    """
    name = str(spec.attributes.get("activation") or "")
    alpha, beta, gamma = (
        spec.attributes.get(f"activation_{one}") for one in ("alpha", "beta", "gamma")
    )
    if not name:
        return None
    if name == "Selu":
        numbers = zip(
            (alpha, gamma), (1.67326319217681884765625, 1.05070102214813232421875), strict=True
        )
        return _selu(*(default if one is None else float(one) for one, default in numbers))
    if name == "ThresholdedRelu":
        return _thresholded_relu(1.0 if alpha is None else float(alpha))
    lists = [[] if number is None else [number] for number in (alpha, beta)]
    try:
        return cell_activations([name], *lists)[0]
    except ValueError as error:
        raise UnsupportedOperatorError(f"{spec.op_type} with activation {name!r}") from error


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
        """Product, factor, activation; narrow floats in float32, rounded once."""
        (y,) = outputs
        wide = work_type(y.dtype)
        a, b = (one.astype(wide, copy=False) for one in self._pair(inputs))
        total = y if wide == y.dtype else np.empty(y.shape, wide)
        multiply(a, b, total)
        if self._alpha != 1:
            np.multiply(total, self._alpha, total)
        if self._activate is not None:
            self._activate(total.reshape(-1))
        if total is not y:
            y[...] = total


@register("FusedGemm", since_version=1, domain=_MS)
class FusedGemm(Gemm):
    """activation(alpha * A' B' + beta * C), [M, N]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._activate = _activation(spec)

    def _fill(self, a: Array, b: Array, c: Array | None, out: Array) -> None:
        super()._fill(a, b, c, out)
        if self._activate is not None:
            self._activate(out)


@register("GemmFastGelu", since_version=1, domain=_MS)
class GemmFastGelu(Kernel):
    """Gelu, by tanh, of X W + bias."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[..., N]."""
        x, w = operands(self.spec, inputs, 2)
        if not x.ndim or w.ndim != 2 or x.shape[-1] != w.shape[0]:
            raise ValueError(f"GemmFastGelu: {list(x.shape)} and {list(w.shape)} do not multiply")
        bias = given(inputs, 2)
        if bias is not None and bias.shape != w.shape[1:]:
            raise ValueError(
                f"GemmFastGelu expects a bias {list(w.shape[1:])}, got {list(bias.shape)}"
            )
        return (TensorSpec((*x.shape[:-1], w.shape[1]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Product, bias, activation; narrow floats in float32, rounded once."""
        (y,) = outputs
        wide = work_type(y.dtype)
        total = np.empty(y.shape, wide)
        multiply(inputs[0].astype(wide, copy=False), inputs[1].astype(wide, copy=False), total)
        bias = given(inputs, 2)
        if bias is not None:
            np.add(total, bias, total)
        in_blocks(gelu_tanh, total, total)
        y[...] = total
