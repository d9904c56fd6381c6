"""SwiGLU of the default domain, and com.microsoft's SwiGLU and ScaledSiLU.

https://onnx.ai/onnx/operators/onnx__SwiGLU.html; schemas of the other two: contrib_defs.cc of onnxruntime. Blocks that
stay in the cache, in float32 where narrower; scratch is two or three of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import BLOCK, per_block, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    FLOAT64,
    given,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels.biased_activations import quick_gelu
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ClampedSwiGLU", "ScaledSiLU", "SwiGLU"]

_MS: Final = "com.microsoft"
_TAIL: Final = -87.0
"""Below that exp(-x) nears float32's largest number, and products with its reciprocal are made in float64."""


@register("SwiGLU", since_version=28)
class SwiGLU(Kernel):
    """a * sigmoid(alpha * a) * b for A and B of one shape."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._formula = quick_gelu(float(spec.attributes.get("alpha", 1.0)))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As both."""
        a, b = operands(self.spec, inputs, 2)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(
                f"SwiGLU expects A and B alike, got {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
            )
        return (TensorSpec(a.shape, a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        a, b, y = (one.reshape(-1) for one in (*inputs, outputs[0]))
        wide = row_type(a.dtype)
        for start in range(0, a.size, BLOCK):
            part = slice(start, start + BLOCK)
            gate = a[part].astype(wide, copy=False)
            result = np.empty_like(gate)
            self._formula(gate, result)
            np.multiply(result, b[part], y[part], dtype=wide, casting="unsafe")


@register("SwiGLU", since_version=1, domain=_MS)
class ClampedSwiGLU(Kernel):
    """g * sigmoid(alpha * g) * (up + beta), both clamped to ``limit``; without up, gate [..., 2 N] holds both."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._alpha = float(attributes.get("activation_alpha", 1.0))
        self._beta = float(attributes.get("activation_beta", 0.0))
        self._limit = float(attributes.get("limit", 0.0))
        self._rounds = bool(attributes.get("round_activation", 0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As one half."""
        (gate,) = operands(self.spec, inputs, 1)
        up = given(inputs, 1)
        if up is None and (not gate.ndim or gate.shape[-1] % 2):
            raise ValueError(
                f"SwiGLU expects two halves in the last axis of gate, got {list(gate.shape)}"
            )
        if up is not None and (up.shape != gate.shape or up.dtype != gate.dtype):
            raise ValueError(
                f"SwiGLU expects gate and up alike, got {gate.dtype}{list(gate.shape)} and "
                f"{up.dtype}{list(up.shape)}"
            )
        if up is not None:
            return (TensorSpec(gate.shape, gate.dtype),)
        return (TensorSpec((*gate.shape[:-1], gate.shape[-1] // 2), gate.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Rows block by block."""
        gate, up, y = inputs[0], given(inputs, 1), outputs[0]
        width = y.shape[-1] if y.ndim else 1
        if not y.size:
            return
        target = y.reshape(-1, width)
        if up is None:
            both = gate.reshape(-1, 2 * width)
            left, right = both[:, :width], both[:, width:]
        else:
            left, right = gate.reshape(-1, width), up.reshape(-1, width)

        def apply(rows: slice) -> None:
            g, linear = left[rows].astype(FLOAT32), right[rows].astype(FLOAT32)
            if self._limit > 0:
                np.minimum(g, self._limit, out=g)
                np.clip(linear, -self._limit, self._limit, out=linear)
            if self._beta:
                np.add(linear, self._beta, linear)
            np.copyto(target[rows], self._product(g, linear, y.dtype), casting="unsafe")

        per_block(target.shape[0], width, apply)

    def _product(self, gate: Array, linear: Array, dtype: np.dtype[Any]) -> Array:
        """The formula for one block; *linear* is written to."""
        steep = np.multiply(gate, -self._alpha)
        tail = np.flatnonzero(steep > -_TAIL)
        np.exp(steep, steep)
        np.add(steep, 1, steep)
        np.divide(gate, steep, steep)
        small = None
        if tail.size:
            some = gate.reshape(-1)[tail].astype(FLOAT64)
            small = some / (1 + np.exp(-self._alpha * some))
            if self._rounds:
                small = small.astype(dtype).astype(FLOAT64)
            small *= linear.reshape(-1)[tail]
        if self._rounds and dtype != FLOAT32:
            steep = steep.astype(dtype).astype(FLOAT32)
        np.multiply(steep, linear, linear)
        if small is not None:
            linear.reshape(-1)[tail] = small
        return linear


@register("ScaledSiLU", since_version=1, domain=_MS)
class ScaledSiLU(Kernel):
    """z * sigmoid(z) for z = scale * x, each step rounded to the type of x; the input ``scale`` overrides ``alpha``."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._alpha = float(spec.attributes.get("alpha", 1.0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        scale = given(inputs, 1)
        if scale is not None and scale.ndim:
            raise ValueError(f"ScaledSiLU expects a scalar scale, got shape {list(scale.shape)}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, y = inputs[0].reshape(-1), outputs[0].reshape(-1)
        scale = given(inputs, 1)
        factor = np.float32(self._alpha if scale is None else float(scale))
        narrow = x.dtype != FLOAT32
        for start in range(0, x.size, BLOCK):
            part = slice(start, start + BLOCK)
            z = np.multiply(x[part], factor, dtype=FLOAT32)
            if narrow:
                z = z.astype(x.dtype).astype(FLOAT32)
            sigmoid = np.negative(z)
            np.exp(sigmoid, sigmoid)
            np.add(sigmoid, 1, sigmoid)
            np.reciprocal(sigmoid, sigmoid)
            if narrow:
                sigmoid = sigmoid.astype(x.dtype).astype(FLOAT32)
            np.multiply(z, sigmoid, y[part], dtype=FLOAT32, casting="unsafe")
