"""com.microsoft's activations: Gelu in its variants, with the bias or the product before it in one operator.

ContribOperators.md of onnxruntime (BiasGelu, FastGelu, Gelu, QuickGelu, BiasSplitGelu, BiasSoftmax, BiasAdd,
BiasDropout); SwiGLU of the default domain, https://onnx.ai/onnx/operators/onnx__SwiGLU.html. Rows in blocks that
stay in the cache; scratch is one or two blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import per_block, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import normalized_axis, operands
from onnx_notebook_profiler.evaluator.kernels.activations import gelu_exact, gelu_tanh
from onnx_notebook_profiler.evaluator.kernels.softmax import softmax
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BiasAdd", "BiasSoftmax", "BiasSplitGelu", "BiasedActivation", "SwiGLU"]

_MS: Final = "com.microsoft"
_BLOCK: Final = 2**14


def _quick(alpha: float) -> Callable[[Array, Array], None]:
    """X * sigmoid(alpha * x)."""

    def formula(x: Array, y: Array) -> None:
        np.multiply(x, alpha / 2, y)
        np.tanh(y, y)
        np.add(y, 1, y)
        np.multiply(y, x, y)
        np.multiply(y, 0.5, y)

    return formula


@register("BiasGelu", since_version=1, domain=_MS)
@register("FastGelu", since_version=1, domain=_MS)
@register("Gelu", since_version=1, domain=_MS)
@register("QuickGelu", since_version=1, domain=_MS)
class BiasedActivation(Kernel):
    """f(X + bias) for X [..., N] and bias [N]; only BiasGelu needs the bias."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        formulas = {"FastGelu": gelu_tanh, "BiasGelu": gelu_exact, "Gelu": gelu_exact}
        quick = _quick(float(spec.attributes.get("alpha", 1.702)))
        self._formula = formulas.get(spec.op_type, quick)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        needed = 2 if self.spec.op_type == "BiasGelu" else 1
        x = operands(self.spec, inputs, needed)[0]
        bias = inputs[1] if len(inputs) > 1 else None
        if bias is not None and bias.shape != x.shape[-1:]:
            raise ValueError(
                f"{self.spec.op_type} expects a bias {list(x.shape[-1:])}, got {list(bias.shape)}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, y = inputs[0], outputs[0]
        bias = inputs[1] if len(inputs) > 1 else None
        wide = row_type(x.dtype)
        width = x.shape[-1] if x.ndim else 1
        if not x.size:
            return
        if bias is None:
            width = min(x.size, _BLOCK)
            while x.size % width:
                width -= 1
        source, target = x.reshape(-1, width), y.reshape(-1, width)

        def apply(rows: slice) -> None:
            part = source[rows]
            if bias is not None:
                part = np.add(part, bias, dtype=wide)
            elif part.dtype != wide:
                part = part.astype(wide)
            if y.dtype == wide:
                self._formula(part, target[rows])
            else:
                result = np.empty_like(part)
                self._formula(part, result)
                np.copyto(target[rows], result, casting="unsafe")

        per_block(source.shape[0], width, apply)


@register("BiasAdd", since_version=1, domain=_MS)
@register("BiasDropout", since_version=1, domain=_MS)
class BiasAdd(Kernel):
    """X + bias + skip; BiasDropout at inference is the same, its residual may be absent."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X; BiasDropout's mask is true everywhere."""
        x, _ = operands(self.spec, inputs, 2)
        mask = TensorSpec(x.shape, np.dtype(np.bool_))
        return (TensorSpec(x.shape, x.dtype), mask)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Two additions."""
        if (
            self.spec.op_type == "BiasDropout"
            and len(inputs) > 4
            and inputs[4] is not None
            and inputs[4].any()
        ):
            raise ValueError(
                "BiasDropout in training draws random numbers: set training_mode to false"
            )
        y = outputs[0]
        np.add(inputs[0], inputs[1], y)
        if len(inputs) > 2 and inputs[2] is not None:
            np.add(y, inputs[2], y)
        if len(outputs) > 1 and outputs[1] is not None:
            outputs[1].fill(1)


@register("BiasSplitGelu", since_version=1, domain=_MS)
class BiasSplitGelu(Kernel):
    """X [N, S, D] + bias [D], its first half times the Gelu of its second."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, S, D / 2]."""
        x, bias = operands(self.spec, inputs, 2)
        if not x.ndim or x.shape[-1] % 2 or bias.shape != x.shape[-1:]:
            raise ValueError(
                f"BiasSplitGelu expects X [N, S, D] and bias [D] for an even D, got {list(x.shape)}, "
                f"{list(bias.shape)}"
            )
        return (TensorSpec((*x.shape[:-1], x.shape[-1] // 2), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, bias = inputs
        width = x.shape[-1]
        if not x.size:
            return
        source, target = x.reshape(-1, width), outputs[0].reshape(-1, width // 2)
        wide = row_type(x.dtype)

        def apply(rows: slice) -> None:
            part = np.add(source[rows], bias, dtype=wide)
            gate = np.ascontiguousarray(part[:, width // 2 :])
            result = np.empty_like(gate)
            gelu_exact(gate, result)
            np.multiply(part[:, : width // 2], result, target[rows], casting="unsafe")

        per_block(source.shape[0], width, apply)


@register("BiasSoftmax", since_version=1, domain=_MS)
class BiasSoftmax(Kernel):
    """Softmax of data + bias over all axes from ``axis`` on."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As data."""
        x, _ = operands(self.spec, inputs, 2)
        normalized_axis(self.spec, int(self.spec.attributes.get("axis", 1)), x.ndim)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The sum in the output, softmax in place."""
        x, bias = inputs
        (y,) = outputs
        axis = int(self.spec.attributes.get("axis", 1)) % x.ndim
        if not self.spec.attributes.get("is_inner_broadcast", 1):
            # each row of the bias stands for several of the data: the outer axes of both count from the front
            bias = bias.reshape(
                *bias.shape[: axis - (x.ndim - bias.ndim)], *bias.shape[axis - x.ndim :]
            )
        np.add(x, bias, y)
        rows = y.reshape(math.prod(x.shape[:axis]), -1, 1)
        per_block(rows.shape[0], rows.shape[1], lambda part: softmax(rows[part], rows[part]))


@register("SwiGLU", since_version=28)
class SwiGLU(Kernel):
    """a * sigmoid(alpha * a) * b for A and B of one shape."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._formula = _quick(float(spec.attributes.get("alpha", 1.0)))

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
        for start in range(0, a.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            gate = a[part].astype(wide, copy=False)
            result = np.empty_like(gate)
            self._formula(gate, result)
            np.multiply(result, b[part], y[part], casting="unsafe")
