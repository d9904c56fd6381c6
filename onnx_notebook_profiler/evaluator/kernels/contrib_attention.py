"""com.microsoft's Attention, MultiHeadAttention and GroupQueryAttention.

ContribOperators.md of onnxruntime; attention_cpu_base.h and gqa_attention_base.h there for masks and caches. Queries,
keys and values are [B, S, H D]; caches [B, H, P, D]. Scratch: see ``_attention.py``; the projections of Attention.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Final

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
from onnx_notebook_profiler.evaluator.kernels._shared import given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ContribAttention", "GroupQueryAttention", "MultiHeadAttention"]

_MS: Final = "com.microsoft"


class _Masked(Kernel):
    """What the operators share: heads, the scale, and masks of many forms."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self.heads = int(attributes["num_heads"])
        self.causal = bool(attributes.get("unidirectional", 0))
        self.filtered = float(attributes.get("mask_filter_value", -10000.0))

    def rules(self, size: int) -> Rules:
        """The given scale, else one over the root of the head's size."""
        scale = float(self.spec.attributes.get("scale", 0.0))
        return Rules(
            scale or 1 / float(np.sqrt(size)), float(self.spec.attributes.get("softcap", 0.0))
        )

    def bias(self, mask: Any, extra: Any, shape: tuple[int, int, int], dtype: Any) -> Any:
        """What is added to the scores of *shape* (batch, queries, keys)."""
        _, queries, keys = shape
        total: Any = None
        if mask is not None:
            total = np.where(_allowed(mask, shape), dtype.type(0), dtype.type(self.filtered))
        if self.causal:
            forbidden = causal_bias(queries, keys, keys - queries)
            lowest = np.finfo(dtype).min
            causal = np.where(forbidden == 0, dtype.type(0), dtype.type(lowest))
            total = causal if total is None else total + causal
        if extra is not None:
            total = extra.astype(dtype) if total is None else total + extra.astype(dtype)
        return total


def _allowed(mask: Array, shape: tuple[int, int, int]) -> Any:
    """Which keys a mask allows, broadcasts to [B, 1, S, T]: lengths, ends and starts, or a matrix of any rank."""
    batch, queries, keys = shape
    places = np.arange(keys)
    if mask.ndim == 1 and mask.shape[0] == batch:
        inside = places < mask[:, None]
    elif mask.ndim == 1 and mask.shape[0] == 2 * batch:
        inside = (places < mask[:batch, None]) & (places >= mask[batch:, None])
    elif mask.ndim == 1 and mask.shape[0] == 3 * batch + 2:
        inside = places < mask[:batch, None]
    elif mask.ndim == 2:
        inside = mask != 0
        if inside.shape[1] != keys:
            raise ValueError(f"a mask of shape {list(mask.shape)} does not fit {keys} keys")
    elif mask.ndim == 3:
        return (mask != 0)[:, None]
    elif mask.ndim == 4:
        square = mask[:, :, keys - queries : keys, :keys] if mask.shape[2] != queries else mask
        return square != 0
    else:
        raise ValueError(f"a mask of shape {list(mask.shape)} does not fit {list(shape)}")
    return inside[:, None, None, :]


@register("MultiHeadAttention", since_version=1, domain=_MS)
class MultiHeadAttention(_Masked):
    """query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value -> output and present caches."""

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """Queries, keys and values [B, H, S, D], biases not yet added."""
        (query,) = operands(self.spec, inputs, 1)
        key, value = given(inputs, 1), given(inputs, 2)
        if query.ndim == 5:
            return tuple(query[:, :, :, part].transpose(0, 2, 1, 3) for part in range(3))  # type: ignore[return-value]
        q = heads_first(query, self.heads)
        if key is None:
            raise ValueError(
                "MultiHeadAttention needs keys, or queries packed with keys and values"
            )
        if key.ndim == 5:
            k, v = (key[:, :, :, part].transpose(0, 2, 1, 3) for part in range(2))
            return q, k, v
        if value is None:
            raise ValueError("MultiHeadAttention needs values, or keys packed with values")
        return q, heads_first(key, self.heads), heads_first(value, self.heads)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H E], present_key, present_value [B, H, T, D], qk [B, H, S, T]."""
        q, k, v = self._views(inputs)
        past = given(inputs, 6)
        if len(inputs) > 9 and inputs[9] is not None:
            raise UnsupportedOperatorError("MultiHeadAttention with cache_indirection")
        batch, heads, queries, size = q.shape
        keys = k.shape[2] + (0 if past is None else past.shape[2])
        specs = [
            TensorSpec((batch, queries, heads * v.shape[3]), q.dtype),
            TensorSpec((batch, heads, keys, size), q.dtype),
            TensorSpec((batch, heads, keys, v.shape[3]), q.dtype),
            TensorSpec((batch, heads, queries, keys), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Biases, caches, mask, core."""
        q, k, v = self._views(inputs)
        bias = given(inputs, 3)
        if bias is not None:
            width, size = self.heads * q.shape[3], self.heads * v.shape[3]
            q = q + heads_first(bias[None, None, :width], self.heads)
            is_cache = given(inputs, 1) is not None and inputs[1].ndim == 4
            if not is_cache:
                k = k + heads_first(bias[None, None, width : 2 * width], self.heads)
                v = v + heads_first(bias[None, None, 2 * width : 2 * width + size], self.heads)
        y, new_keys, new_values, shown = [*outputs, None, None, None][:4]
        k = joined(given(inputs, 6), k, new_keys)
        v = joined(given(inputs, 7), v, new_values)
        shape = (q.shape[0], q.shape[2], k.shape[2])
        total = self.bias(given(inputs, 4), given(inputs, 5), shape, row_type(q.dtype))
        attend(q, k, v, heads_first(y, self.heads), self.rules(q.shape[3]), total, shown)


@register("Attention", since_version=1, domain=_MS)
class ContribAttention(_Masked):
    """input [B, S, I], weights [I, 3 H D], bias, mask_index, past [2, B, H, P, D], attention_bias -> output, cache."""

    def _sizes(self, inputs: Sequence[Any]) -> tuple[int, int, int]:
        """Widths of queries, keys and values."""
        _, weights = operands(self.spec, inputs, 2)
        sizes = list(self.spec.attributes.get("qkv_hidden_sizes") or [weights.shape[1] // 3] * 3)
        if sum(sizes) != weights.shape[1] or any(size % self.heads for size in sizes):
            raise ValueError(
                f"weights {list(weights.shape)} do not hold {sizes} for {self.heads} heads"
            )
        if self.spec.attributes.get("do_rotary", 0):
            raise UnsupportedOperatorError("Attention of com.microsoft with do_rotary")
        return sizes[0], sizes[1], sizes[2]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H E], present [2, B, H, T, D]."""
        sizes = self._sizes(inputs)
        x = inputs[0]
        assert x is not None
        past = given(inputs, 4)
        keys = x.shape[1] + (0 if past is None else past.shape[3])
        present = (2, x.shape[0], self.heads, keys, sizes[2] // self.heads)
        return (TensorSpec((*x.shape[:2], sizes[2]), x.dtype), TensorSpec(present, x.dtype))[
            : len(self.spec.wanted)
        ]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One product for all three, then as MultiHeadAttention."""
        x, weights, bias, mask, past, extra = [*inputs, *[None] * 4][:6]
        sizes = self._sizes(inputs)
        made = np.matmul(x, weights)
        if bias is not None:
            made += bias
        ends = np.cumsum(sizes)
        q, k, v = (
            heads_first(made[:, :, end - size : end], self.heads)
            for end, size in zip(ends.tolist(), sizes, strict=True)
        )
        y, present = [*outputs, None][:2]
        caches: tuple[Any, Any] = (None, None) if past is None else (past[0], past[1])
        news: tuple[Any, Any] = (None, None) if present is None else (present[0], present[1])
        k, v = joined(caches[0], k, news[0]), joined(caches[1], v, news[1])
        shape = (q.shape[0], q.shape[2], k.shape[2])
        total = self.bias(mask, extra, shape, row_type(q.dtype))
        attend(q, k, v, heads_first(y, self.heads), self.rules(q.shape[3]), total)


@register("GroupQueryAttention", since_version=1, domain=_MS)
class GroupQueryAttention(_Masked):
    """query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, ... -> output, caches.

    ``seqlens_k`` [B] is the number of valid keys less one; the caches have room for ``total_sequence_length`` or more.
    """

    value_inputs: ClassVar[tuple[int, ...]] = (6,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._groups = int(attributes["kv_num_heads"])
        self._window = int(attributes.get("local_window_size", -1))
        self._rotary = bool(attributes.get("do_rotary", 0))
        self._interleaved = bool(attributes.get("rotary_interleaved", 0))
        self._smooth = bool(attributes.get("smooth_softmax", 0))

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        query, key, value = inputs[:3]
        if key is None:
            size = query.shape[2] // (self.heads + 2 * self._groups)
            whole = heads_first(query, self.heads + 2 * self._groups)
            ends = (self.heads, self.heads + self._groups)
            assert size == whole.shape[3]
            return whole[:, : ends[0]], whole[:, ends[0] : ends[1]], whole[:, ends[1] :]
        return (
            heads_first(query, self.heads),
            heads_first(key, self._groups),
            heads_first(value, self._groups),
        )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H D], present_key and present_value [B, K, T, D]."""
        q, k, v = self._views(inputs)
        past, length = given(inputs, 3), given(inputs, 6)
        if any(given(inputs, position) is not None for position in range(11, len(inputs))):
            raise UnsupportedOperatorError(
                "GroupQueryAttention with a head_sink or quantised caches"
            )
        keys = max(int(length.reshape(-1)[0]), 0 if past is None else past.shape[2])
        cache = (q.shape[0], self._groups, keys)
        specs = [
            TensorSpec((q.shape[0], q.shape[2], self.heads * v.shape[3]), q.dtype),
            TensorSpec((*cache, k.shape[3]), q.dtype),
            TensorSpec((*cache, v.shape[3]), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Item by item: each has a length of its own."""
        q, k, v = self._views(inputs)
        past_keys, past_values, lengths = inputs[3:6]
        extra = given(inputs, 10)
        y, keys, values = [*outputs, None, None][:3]
        batch, _, queries, size = q.shape
        wide = row_type(q.dtype)
        room = max(int(inputs[6].reshape(-1)[0]), 0 if past_keys is None else past_keys.shape[2])
        if keys is None:
            keys = np.empty((batch, self._groups, room, size), q.dtype)
        if values is None:
            values = np.empty((batch, self._groups, room, v.shape[3]), q.dtype)
        keys.fill(0)
        values.fill(0)
        rules = dataclasses.replace(self.rules(size), sink=self._smooth)
        for item, last in enumerate(lengths.reshape(-1).tolist()):
            whole = last + 1
            before = max(0, whole - queries)
            count = min(queries, room - before)  # padding at the end of a prompt is kept, too
            own, new = q[item : item + 1], k[item : item + 1]
            if self._rotary:
                own, new = self._turned(inputs, item, before, own, new, wide)
            if past_keys is not None:
                keys[item, :, :before] = past_keys[item, :, :before]
                values[item, :, :before] = past_values[item, :, :before]
            keys[item, :, before : before + count] = new[0, :, :count]
            values[item, :, before : before + count] = v[item, :, :count]
            bias = window_bias(
                queries, whole, before, self._window - 1 if self._window > 0 else -1, 0
            )
            if extra is not None:
                own_extra = extra[item if extra.shape[0] > 1 else 0]
                bias = bias + own_extra[:, :, :whole].astype(wide)
            target = heads_first(y[item : item + 1], self.heads)
            attend(
                own,
                keys[item : item + 1, :, :whole],
                values[item : item + 1, :, :whole],
                target,
                rules,
                bias,
            )

    def _turned(
        self, inputs: Sequence[Any], item: int, before: int, q: Array, k: Array, wide: Any
    ) -> tuple[Array, Array]:
        """Queries and new keys turned by their positions."""
        cos, sin, places = inputs[7], inputs[8], given(inputs, 9)
        places = np.arange(before, before + q.shape[2]) if places is None else places[item]
        cos, sin = cos[places][None].astype(wide), sin[places][None].astype(wide)
        turned = []
        for x in (q, k):
            steps = x.transpose(0, 2, 1, 3).astype(wide)
            rotate(steps, steps, cos, sin, interleaved=self._interleaved)
            turned.append(steps.transpose(0, 2, 1, 3).astype(x.dtype))
        return turned[0], turned[1]
