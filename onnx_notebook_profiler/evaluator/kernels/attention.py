"""Attention of the default domain.

https://onnx.ai/onnx/operators/onnx__Attention.html. float16 is computed in float32 and rounded once; bfloat16 is
rounded after the scores, the bias and the softmax, as the operator's function body does it. Scratch: see
``_attention.py``; keys and values joined with their past where no present is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._attention import (
    Mask,
    Rules,
    attend,
    heads_first,
    joined,
)
from onnx_notebook_profiler.evaluator.kernels._expected import expect
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BFLOAT16,
    element_type,
    given,
    operands,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Attention"]

_PRECISIONS: Final = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.BFLOAT16,
)


@register("Attention", since_version=23)
class Attention(Kernel):
    """Q [B, S, H D] or [B, H, S, D], K and V likewise with their own heads -> Y, the new cache, the scores."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes.get("q_num_heads", 0))
        self._groups = int(attributes.get("kv_num_heads", 0))
        self._pads = spec.opset >= 24
        left = int(attributes.get("left_window_size", -1))
        right = int(attributes.get("right_window_size", -1))
        stage = int(attributes.get("qk_matmul_output_mode", 0))
        if min(left, right) < -1:
            raise ValueError(f"Attention: windows are -1 or more, got {left} and {right}")
        if not 0 <= stage <= 3:
            raise ValueError(f"Attention: qk_matmul_output_mode is from 0 to 3, got {stage}")
        causal = bool(attributes.get("is_causal", 0))
        self._bounds = (left, 0 if causal else right)
        self._scale: float | None = attributes.get("scale")
        self._cap = float(attributes.get("softcap", 0.0))
        self._stage = stage
        precision = attributes.get("softmax_precision")
        if precision is not None and precision not in _PRECISIONS:
            raise ValueError(f"Attention: softmax_precision {precision} is no floating-point type")
        self._precision = None if precision is None else element_type(int(precision))

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """Queries, keys and values, heads first."""
        q, k, v = inputs[:3]
        if q.ndim == 4:
            return q, k, v
        return (
            heads_first(q, self._heads),
            heads_first(k, self._groups),
            heads_first(v, self._groups),
        )

    def _check(self, inputs: Sequence[Array | None]) -> None:
        """Raise where ranks and heads do not fit.

        Raises:
            ValueError: They do not.
        """
        q, k, v = operands(self.spec, inputs, 3)
        shapes = f"Q {list(q.shape)}, K {list(k.shape)}, V {list(v.shape)}"
        if q.ndim not in {3, 4} or not q.ndim == k.ndim == v.ndim:
            raise ValueError(f"Attention expects Q, K, V of one rank, 3 or 4: got {shapes}")
        if q.ndim == 3 and min(self._heads, self._groups) < 1:
            raise ValueError("Attention needs q_num_heads and kv_num_heads for inputs of rank 3")
        if q.ndim == 3 and (
            q.shape[2] % self._heads or k.shape[2] % self._groups or v.shape[2] % self._groups
        ):
            raise ValueError(f"Attention: {shapes} do not divide into the given heads")
        q, k, v = self._views(inputs)
        groups = max(k.shape[1], 1)
        if q.shape[::3] != k.shape[::3] or k.shape[:3] != v.shape[:3] or q.shape[1] % groups:
            raise ValueError(f"Attention: {shapes} do not fit each other")
        past, old = given(inputs, 4), given(inputs, 5)
        if (past is None) != (old is None):
            raise ValueError("Attention: past_key and past_value are given together, or neither")
        held = None if past is None else (past.shape[-2:] or (0,))[0]
        expect(self.spec, "past_key", past, (*k.shape[:2], held, k.shape[3]))
        expect(self.spec, "past_value", old, (*v.shape[:2], held, v.shape[3]))
        if past is not None and given(inputs, 6) is not None:
            raise ValueError("Attention: nonpad_kv_seqlen is not used together with past_key")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y, present_key, present_value [B, K, T, D], qk_matmul_output [B, H, S, T]."""
        self._check(inputs)
        q, k, v = self._views(inputs)
        past, mask, filled = given(inputs, 4), given(inputs, 3), given(inputs, 6)
        keys = k.shape[2] + (0 if past is None else past.shape[2])
        batch, heads, queries, _ = q.shape
        if filled is not None and filled.shape != (batch,):
            raise ValueError(
                f"Attention: nonpad_kv_seqlen has shape {list(filled.shape)}, expected [{batch}]"
            )
        if mask is not None:
            _check_mask(mask.shape, (batch, heads, queries, keys), pads=self._pads)
        shape: tuple[int, ...] = (batch, heads, queries, v.shape[3])
        if inputs[0] is not None and inputs[0].ndim == 3:
            shape = (batch, queries, heads * v.shape[3])
        specs = [
            TensorSpec(shape, q.dtype),
            TensorSpec((batch, k.shape[1], keys, k.shape[3]), k.dtype),
            TensorSpec((batch, v.shape[1], keys, v.shape[3]), v.dtype),
            TensorSpec((batch, heads, queries, keys), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The cache and the mask, then the core: item by item where each has a number of keys of its own."""
        q, k, v = self._views(inputs)
        y, new_keys, new_values, shown = [*outputs, None, None, None][:4]
        past, mask, filled = given(inputs, 4), given(inputs, 3), given(inputs, 6)
        k = joined(past, k, new_keys)
        v = joined(given(inputs, 5), v, new_values)
        if y is None and shown is None:
            return
        if y is None:
            y = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
        out = heads_first(y, q.shape[1])
        q, k, rules = self._prepared(q, k)
        bias = None if mask is None else _four_axes(mask, k.shape[2], pads=self._pads)
        left, right = self._bounds
        if filled is None:
            before = 0 if past is None else past.shape[2]
            band = Mask(() if bias is None else (bias,), before, left, right)
            attend(q, k, v, out, rules, band, shown)
            return
        for item, length in enumerate(filled.tolist()):
            one = slice(item, item + 1)
            own = bias if bias is None or bias.shape[0] == 1 else bias[one]
            keys = max(0, min(length, k.shape[2]))
            if shown is not None:
                own, keys = _padded(own, keys, k.shape[2]), k.shape[2]
            elif own is not None and own.shape[3] > 1:
                own = own[..., :keys]
            biases = () if own is None else (own,)
            band = Mask(biases, length - q.shape[2], left, right)
            view = None if shown is None else shown[one]
            attend(q[one], k[one, :, :keys], v[one, :, :keys], out[one], rules, band, view)

    def _prepared(self, q: Array, k: Array) -> tuple[Array, Array, Rules]:
        """Queries, keys and rules; in bfloat16 both factors get the root of the scale, rounded."""
        scale = 1 / math.sqrt(max(q.shape[3], 1)) if self._scale is None else float(self._scale)
        precision = self._precision
        if q.dtype != BFLOAT16:
            if precision == row_type(q.dtype) or precision == q.dtype:
                precision = None
            return q, k, Rules(scale, self._cap, None, self._stage, None, precision)
        root = BFLOAT16.type(math.sqrt(scale))
        rules = Rules(1.0, self._cap, None, self._stage, BFLOAT16, precision)
        return q * root, k * root, rules


def _check_mask(shape: tuple[int, ...], scores: tuple[int, int, int, int], *, pads: bool) -> None:
    """Raise where a mask of *shape*, whose last axis may be short if it *pads*, does not broadcast to *scores*.

    Raises:
        ValueError: It does not.
    """
    fits = len(shape) <= 4 and all(
        size in {1, whole} for size, whole in zip(shape[-2::-1], scores[-2::-1], strict=False)
    )
    keys = scores[-1]
    if not fits or (shape and shape[-1] not in {1, keys} and (not pads or shape[-1] > keys)):
        raise ValueError(f"Attention: attn_mask {list(shape)} does not broadcast to {list(scores)}")


def _four_axes(mask: Array, keys: int, *, pads: bool) -> Array:
    """The mask with four axes; where it *pads*, keys that it does not reach are forbidden, even if it has one only."""
    if pads and mask.ndim and mask.shape[-1] < keys:
        fill = False if mask.dtype == np.bool_ else -np.inf
        wide = np.full((*mask.shape[:-1], keys), fill, mask.dtype)
        wide[..., : mask.shape[-1]] = mask
        mask = wide
    return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)


def _padded(bias: Array | None, length: int, keys: int) -> Array:
    """*bias* of one item with minus infinity for the keys from *length* on."""
    allowed = (np.arange(keys) < length).reshape(1, 1, 1, keys)
    if bias is None:
        return allowed
    if bias.dtype == np.bool_:
        return bias & allowed
    return np.where(allowed, bias, bias.dtype.type(-np.inf))
