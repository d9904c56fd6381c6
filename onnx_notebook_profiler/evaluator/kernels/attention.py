"""Attention, RotaryEmbedding, LinearAttention and CausalConvWithState of the default domain.

https://onnx.ai/onnx/operators/onnx__Attention.html and the pages of the others. float16 is computed in float32,
bfloat16 goes to the next tier but for RotaryEmbedding. Scratch: see ``_attention.py``; LinearAttention holds its state
in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._attention import (
    Rules,
    attend,
    causal_bias,
    heads_first,
    joined,
    rotate,
    window_bias,
)
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import BFLOAT16, FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Attention", "CausalConvWithState", "LinearAttention", "RotaryEmbedding"]

_MS: Final = "com.microsoft"


@register("Attention", since_version=23)
class Attention(Kernel):
    """Q [B, S, H D] or [B, H, S, D], K and V likewise with their own heads -> Y, the new cache, the scores."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = (
            int(attributes.get("q_num_heads", 0)),
            int(attributes.get("kv_num_heads", 0)),
        )
        self._causal = bool(attributes.get("is_causal", 0))
        self._window = (
            int(attributes.get("left_window_size", -1)),
            int(attributes.get("right_window_size", -1)),
        )
        self._stage = int(attributes.get("qk_matmul_output_mode", 0))

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        q, k, v = operands(self.spec, inputs, 3)
        if q.dtype == BFLOAT16:
            raise UnsupportedOperatorError(
                "Attention in bfloat16 is rounded after each step, which this is not"
            )
        if q.ndim not in {3, 4} or k.ndim != q.ndim or v.ndim != q.ndim:
            raise ValueError(
                f"Attention expects Q, K, V of one rank, 3 or 4: got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}"
            )
        if q.ndim == 3 and not all(self._heads):
            raise ValueError("Attention needs q_num_heads and kv_num_heads for inputs of rank 3")
        own, shared = self._heads
        q, k, v = heads_first(q, own), heads_first(k, shared), heads_first(v, shared)
        if q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3] or q.shape[1] % k.shape[1]:
            raise ValueError(
                f"Attention: heads Q {list(q.shape)}, K {list(k.shape)}, V {list(v.shape)} do not fit"
            )
        return q, k, v

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y, present_key, present_value [B, K, T, D], qk_matmul_output [B, H, S, T]."""
        q, k, v = self._views(inputs)
        past = given(inputs, 4)
        keys = k.shape[2] + (0 if past is None else past.shape[2])
        batch, heads, queries, _ = q.shape
        packed = inputs[0] is not None and inputs[0].ndim == 3
        shape: tuple[int, ...] = (batch, heads, queries, v.shape[3])
        if packed:
            shape = (batch, queries, heads * v.shape[3])
        specs = [
            TensorSpec(shape, q.dtype),
            TensorSpec((batch, k.shape[1], keys, k.shape[3]), k.dtype),
            TensorSpec((batch, v.shape[1], keys, v.shape[3]), v.dtype),
            TensorSpec((batch, heads, queries, keys), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The cache, the bias, then the core."""
        q, k, v = self._views(inputs)
        y, new_keys, new_values, shown = [*outputs, None, None, None][:4]
        past = given(inputs, 4)
        k = joined(past, k, new_keys)
        v = joined(given(inputs, 5), v, new_values)
        scale = self.spec.attributes.get("scale")
        rules = Rules(
            float(scale) if scale is not None else 1 / float(np.sqrt(q.shape[3])),
            float(self.spec.attributes.get("softcap", 0.0)),
        )
        bias = self._bias(
            given(inputs, 3), given(inputs, 6), q, k, 0 if past is None else past.shape[2]
        )
        if y is None:
            y = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
        out = y if y.ndim == 4 else heads_first(y, q.shape[1])
        attend(q, k, v, out, rules, bias, shown, self._stage)

    def _bias(self, mask: Any, filled: Any, q: Array, k: Array, before: int) -> Any:
        """All that forbids or favours keys, float32, broadcasts to [B, H, S, T]; None where nothing does."""
        queries, keys = q.shape[2], k.shape[2]
        wide = row_type(q.dtype)
        bias: Any = None
        if mask is not None:
            bias = mask
            if mask.dtype == np.bool_:
                bias = np.where(mask, wide.type(0), wide.type(-np.inf))
            gap = keys - bias.shape[-1]
            bias = bias.astype(wide, copy=False)
            if gap > 0:
                bias = np.pad(
                    bias, [(0, 0)] * (bias.ndim - 1) + [(0, gap)], constant_values=-np.inf
                )
        offsets = [before] if filled is None else (filled.reshape(-1) - queries).tolist()
        left, right = self._window
        parts = []
        for offset in offsets:
            part: Any = causal_bias(queries, keys, offset) if self._causal else None
            if left >= 0 or right >= 0:
                window = window_bias(queries, keys, offset, left, right)
                part = window if part is None else part + window
            parts.append(part)
        if parts[0] is not None:
            stack = np.stack(parts)[:, None] if filled is not None else parts[0]
            bias = stack if bias is None else bias + stack
        if filled is not None:
            padding = np.where(np.arange(keys) < filled.reshape(-1, 1), 0, -np.inf).astype(wide)
            padding = padding[:, None, None, :]
            bias = padding if bias is None else bias + padding
        return bias


@register("RotaryEmbedding", since_version=23)
@register("RotaryEmbedding", since_version=1, domain=_MS)
class RotaryEmbedding(Kernel):
    """X [B, H, S, D] or [B, S, H D], turned by the angles of its positions.

    com.microsoft's has the positions as its second input, one number for a whole batch that starts there.
    """

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim not in {3, 4}:
            raise ValueError(f"RotaryEmbedding expects X of rank 3 or 4, got {list(x.shape)}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Pick the angles, turn the pairs."""
        x, (y,) = inputs[0], outputs
        attributes = self.spec.attributes
        if self.spec.domain == _MS:
            places, cos, sin = inputs[1:4]
        else:
            cos, sin, places = inputs[1], inputs[2], given(inputs, 3)
        size = int(attributes.get("rotary_embedding_dim", 0))
        heads = int(attributes.get("num_heads", 0))
        if x.ndim == 3 and not heads:
            heads = x.shape[2] // (size or 2 * cos.shape[-1])
        length = x.shape[2] if x.ndim == 4 else x.shape[1]
        if places is not None:
            if places.size == 1 and self.spec.domain == _MS:
                places = np.arange(length)[None] + int(places.reshape(-1)[0])
            if places.size and not 0 <= int(places.min()) <= int(places.max()) < cos.shape[0]:
                raise ValueError(f"positions are from 0 to {cos.shape[0] - 1}")
            cos, sin = cos[places], sin[places]
        if size:
            cos, sin = cos[..., : size // 2], sin[..., : size // 2]
        source, target = (
            one.transpose(0, 2, 1, 3) if one.ndim == 4 else one.reshape(*one.shape[:2], heads, -1)
            for one in (x, y)
        )
        wide = row_type(x.dtype)
        rotate(
            source.astype(wide, copy=False),
            target,
            cos.astype(wide),
            sin.astype(wide),
            interleaved=bool(attributes.get("interleaved", 0)),
        )


@register("LinearAttention", since_version=27)
class LinearAttention(Kernel):
    """query [B, T, H Dk], key [B, T, K Dk], value [B, T, K Dv] -> output [B, T, H Dv] and the state [B, K, Dk, Dv]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes["q_num_heads"])
        self._groups = int(attributes["kv_num_heads"])
        self._rule = str(attributes.get("update_rule", "gated_delta"))
        if self._rule not in {"linear", "gated", "delta", "gated_delta"}:
            raise ValueError(
                f"update_rule is linear, gated, delta or gated_delta, not {self._rule!r}"
            )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output and present_state."""
        q, k, v = operands(self.spec, inputs, 3)
        heads, groups = self._heads, self._groups
        if heads % groups or q.shape[2] % heads or k.shape[2] % groups or v.shape[2] % groups:
            raise ValueError(
                f"LinearAttention: {list(q.shape)}, {list(k.shape)}, {list(v.shape)} do not fit {heads} and "
                f"{groups} heads"
            )
        past = given(inputs, 3)
        size = v.shape[2] // groups
        state = (q.shape[0], groups, k.shape[2] // groups, size)
        kind = q.dtype if past is None else past.dtype
        return (TensorSpec((*q.shape[:2], heads * size), q.dtype), TensorSpec(state, kind))[
            : len(self.spec.wanted)
        ]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One step after the other."""
        y, present = [*outputs, None][:2]
        groups, share = self._groups, self._heads // self._groups
        q, k, v = (
            heads_first(one, count).astype(FLOAT32)
            for one, count in zip(inputs[:3], (self._heads, groups, groups), strict=True)
        )
        batch, _, steps, size = q.shape
        past, decay, beta = (given(inputs, position) for position in (3, 4, 5))
        state = np.zeros((batch, groups, size, v.shape[3]), np.float32)
        if past is not None:
            state[...] = past
        scale = float(self.spec.attributes.get("scale") or 1 / np.sqrt(size))
        gates = None if decay is None else np.exp(_per_head(decay, groups))
        rates = None if beta is None else _per_head(beta, groups)
        for step in range(steps):
            if gates is not None and self._rule.startswith("gated"):
                state *= gates[:, :, step, :, None]
            key, value = k[:, :, step, :, None], v[:, :, step, None, :]
            if self._rule.endswith("delta"):
                value = value - np.matmul(key.swapaxes(-1, -2), state)
                if rates is not None:
                    value = value * rates[:, :, step, :, None]
            state += key * value
            query = q[:, :, step].reshape(batch, groups, share, size)
            made = np.matmul(query, state) * scale
            if y is not None:
                y[:, step] = made.reshape(batch, -1)
        if present is not None:
            present[...] = state


def _per_head(x: Array, heads: int) -> Array:
    """[B, T, 1], [B, T, K] or [B, T, K D] as float32 [B, K or 1, T, 1 or D]."""
    if x.shape[2] < heads:
        return x.astype(FLOAT32)[:, None]
    return heads_first(x, heads).astype(FLOAT32)


@register("CausalConvWithState", since_version=27)
class CausalConvWithState(Kernel):
    """input [B, C, L] after the past, convolved channel by channel with weight [C, 1, k]; the last k - 1 come out."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output and present_state [B, C, k - 1]."""
        x, weight = operands(self.spec, inputs, 2)
        if x.ndim != 3 or weight.shape[:2] != (x.shape[1], 1):
            raise ValueError(
                f"CausalConvWithState expects input [B, C, L] and weight [C, 1, k], got {list(x.shape)}, "
                f"{list(weight.shape)}"
            )
        state = TensorSpec((*x.shape[:2], weight.shape[2] - 1), x.dtype)
        return (TensorSpec(x.shape, x.dtype), state)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One multiplication and addition of the shifted input for each tap."""
        x, weight = inputs[:2]
        bias, past = given(inputs, 2), given(inputs, 3)
        y, present = [*outputs, None][:2]
        wide, taps = row_type(x.dtype), weight.shape[2]
        length = x.shape[2]
        whole = np.zeros((*x.shape[:2], taps - 1 + length), wide)
        whole[:, :, taps - 1 :] = x
        if past is not None:
            whole[:, :, : taps - 1] = past
        if present is not None:
            present[...] = whole[:, :, length:]
        if y is None:
            return
        total = np.zeros(x.shape, wide)
        for tap in range(taps):
            total += whole[:, :, tap : tap + length] * weight[:, 0, tap, None].astype(wide)
        if bias is not None:
            total += bias[:, None].astype(wide)
        activation = str(self.spec.attributes.get("activation", "none"))
        if activation in {"silu", "swish"}:
            total *= 1 / (1 + np.exp(-total))
        elif activation != "none":
            raise ValueError(f"activation is none, silu or swish, not {activation!r}")
        y[...] = total
