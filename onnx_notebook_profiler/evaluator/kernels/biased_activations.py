"""com.microsoft's Gelu in its variants, and what it adds a bias before.

ContribOperators.md of onnxruntime (BiasGelu, FastGelu, Gelu, QuickGelu, BiasSplitGelu, BiasSoftmax, BiasAdd,
BiasDropout). Rows in blocks that stay in the cache, in float32 where narrower; scratch is two or three blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import per_block, row_type
from onnx_notebook_profiler.evaluator.kernels._shared import given, normalized_axis, operands
from onnx_notebook_profiler.evaluator.kernels.activations import gelu_exact, gelu_tanh
from onnx_notebook_profiler.evaluator.kernels.softmax import softmax
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["BiasAdd", "BiasSoftmax", "BiasSplitGelu", "BiasedActivation", "quick_gelu"]

_MS: Final = "com.microsoft"


def quick_gelu(alpha: float) -> Callable[[Array, Array], None]:
    """X * sigmoid(alpha * x); *y* must not be x. Where exp overflows the quotient is the 0 that it rounds to."""

    def formula(x: Array, y: Array) -> None:
        np.multiply(x, -alpha, y)
        np.exp(y, y)
        np.add(y, 1, y)
        np.divide(x, y, y)

    return formula


@register("BiasGelu", since_version=1, domain=_MS)
@register("FastGelu", since_version=1, domain=_MS)
@register("Gelu", since_version=1, domain=_MS)
@register("QuickGelu", since_version=1, domain=_MS)
class BiasedActivation(Kernel):
    """f(X + bias) for X [..., N] and bias [N]; only BiasGelu needs the bias."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        formulas = {"FastGelu": gelu_tanh, "BiasGelu": gelu_exact, "Gelu": gelu_exact}
        quick = quick_gelu(float(spec.attributes.get("alpha", 1.702)))
        self._formula = formulas.get(spec.op_type, quick)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        needed = 2 if self.spec.op_type == "BiasGelu" else 1
        x = operands(self.spec, inputs, needed)[0]
        bias = given(inputs, 1)
        if bias is not None and bias.shape != x.shape[-1:]:
            raise ValueError(
                f"{self.spec.op_type} expects a bias {list(x.shape[-1:])}, got {list(bias.shape)}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, y = inputs[0], outputs[0]
        if not x.size:
            return
        bias = given(inputs, 1)
        wide, width = row_type(x.dtype), 1 if bias is None else x.shape[-1]
        source, target = x.reshape(-1, width), y.reshape(-1, width)
        if bias is not None:
            bias = bias.astype(wide, copy=False)
        shared = y is x

        def apply(rows: slice) -> None:
            if bias is not None:
                part = np.add(source[rows], bias, dtype=wide)
            else:
                part = source[rows].astype(wide, copy=shared)
            result = target[rows] if y.dtype == wide else np.empty_like(part)
            self._formula(part.reshape(-1), result.reshape(-1))
            if y.dtype != wide:
                np.copyto(target[rows], result, casting="unsafe")

        per_block(source.shape[0], width, apply)


@register("BiasAdd", since_version=1, domain=_MS)
@register("BiasDropout", since_version=1, domain=_MS)
class BiasAdd(Kernel):
    """X + bias + skip; BiasDropout at inference is the same, its residual may be absent."""

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X; BiasDropout's mask is true everywhere."""
        x, bias = operands(self.spec, inputs, 2)
        for name, value, shapes in (
            ("bias", bias, {x.shape, x.shape[-1:]}),
            ("skip", given(inputs, 2), {x.shape}),
        ):
            if value is not None and value.shape not in shapes:
                raise ValueError(
                    f"{self.spec.op_type}: {name} {list(value.shape)} does not fit X {list(x.shape)}"
                )
        mask = TensorSpec(x.shape, np.dtype(np.bool_))
        return (TensorSpec(x.shape, x.dtype), mask)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Two additions, block by block."""
        if self.spec.op_type == "BiasDropout":
            self._check_inference(inputs)
        x, bias, skip = inputs[0], inputs[1], given(inputs, 2)
        y, mask = outputs[0], given(outputs, 1)
        if mask is not None:
            mask.fill(1)
        if y is None or not x.size:
            return
        width, wide = (x.shape[-1] if x.ndim else 1), row_type(x.dtype)
        source, target = x.reshape(-1, width), y.reshape(-1, width)
        whole = bias.shape == x.shape
        bias = bias.reshape(source.shape) if whole else bias
        added = None if skip is None else skip.reshape(-1, width)

        def apply(rows: slice) -> None:
            result = target[rows] if y.dtype == wide else None
            result = np.add(source[rows], bias[rows] if whole else bias, result, dtype=wide)
            if added is not None:
                np.add(result, added[rows], result)
            if y.dtype != wide:
                np.copyto(target[rows], result, casting="unsafe")

        per_block(source.shape[0], width, apply)

    @staticmethod
    def _check_inference(inputs: Sequence[Any]) -> None:
        training = given(inputs, 4)
        if training is not None and training.any():
            raise ValueError(
                "BiasDropout in training draws random numbers: set training_mode to false"
            )


@register("BiasSplitGelu", since_version=1, domain=_MS)
class BiasSplitGelu(Kernel):
    """X [N, S, D] + bias [D], its first half times the Gelu of its second."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, S, D / 2]."""
        x, bias = operands(self.spec, inputs, 2)
        if not x.ndim or x.shape[-1] % 2 or bias.shape != x.shape[-1:]:
            raise ValueError(
                f"BiasSplitGelu expects X [N, S, D] and bias [D] with even D, got {list(x.shape)} and "
                f"{list(bias.shape)}"
            )
        return (TensorSpec((*x.shape[:-1], x.shape[-1] // 2), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, bias = inputs
        if not x.size:
            return
        width = x.shape[-1]
        source, target = x.reshape(-1, width), outputs[0].reshape(-1, width // 2)
        wide = row_type(x.dtype)
        left, right = slice(width // 2), slice(width // 2, width)

        def apply(rows: slice) -> None:
            gate = np.add(source[rows, right], bias[right], dtype=wide)
            result = np.empty_like(gate)
            gelu_exact(gate.reshape(-1), result.reshape(-1))
            np.add(source[rows, left], bias[left], gate, dtype=wide)
            np.multiply(gate, result, target[rows], casting="unsafe")

        per_block(source.shape[0], width, apply)


@register("BiasSoftmax", since_version=1, domain=_MS)
class BiasSoftmax(Kernel):
    """Softmax of data + bias over all axes from ``axis`` on.

    Each row of the bias serves consecutive rows of the data (``is_inner_broadcast``), or all of them serve in turn.
    """

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As data."""
        x, bias = operands(self.spec, inputs, 2)
        axis = normalized_axis(self.spec, int(self.spec.attributes.get("axis", 1)), x.ndim)
        lead = (*[1] * (x.ndim - bias.ndim), *bias.shape)
        outer, inner = lead[:axis], bool(self.spec.attributes["is_inner_broadcast"])
        ones = sum(1 for _ in takewhile(lambda size: size == 1, outer[::-1] if inner else outer))
        own = slice(axis - ones) if inner else slice(ones, axis)
        if len(lead) > x.ndim or lead[axis:] != x.shape[axis:] or lead[own] != x.shape[own]:
            raise ValueError(
                f"BiasSoftmax: the bias {list(bias.shape)} does not fit data {list(x.shape)} from axis {axis} on"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Sum and softmax, block by block."""
        x, bias = inputs
        (y,) = outputs
        if not x.size:
            return
        axis = int(self.spec.attributes.get("axis", 1)) % x.ndim
        wide, width = row_type(x.dtype), math.prod(x.shape[axis:])
        source, target, added = (one.reshape(-1, width) for one in (x, y, bias))
        period = added.shape[0]
        each = source.shape[0] // period
        inner = bool(self.spec.attributes["is_inner_broadcast"])

        def apply(rows: slice) -> None:
            number = np.arange(rows.start, rows.stop)
            part = added[number // each if inner else number % period]
            part = np.add(source[rows], part, part if part.dtype == wide else None, dtype=wide)
            softmax(part[:, :, None], part[:, :, None])
            np.copyto(target[rows], part, casting="unsafe")

        per_block(source.shape[0], width, apply)
