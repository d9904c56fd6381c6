"""com.microsoft's Attention, PackedAttention and PackedMultiHeadAttention.

ContribOperators.md of onnxruntime; attention_cpu_base.h there for masks and the cache. Scratch: see ``_attention.py``;
queries, keys and values after the projection, and joined with their past where no present is asked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._attention import (
    Mask,
    Rules,
    attend,
    heads_first,
    joined,
)
from onnx_notebook_profiler.evaluator.kernels._expected import expect
from onnx_notebook_profiler.evaluator.kernels._key_masks import key_bias
from onnx_notebook_profiler.evaluator.kernels._shared import given, operands, work_type
from onnx_notebook_profiler.evaluator.kernels.matmul import multiply
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["ContribAttention", "PackedAttention", "PackedMultiHeadAttention"]

_MS: Final = "com.microsoft"


def _sizes(spec: NodeSpec, weights: Array, heads: int) -> tuple[int, int, int]:
    """Widths of queries, keys and values, side by side in *weights*.

    Raises:
        ValueError: They do not add up, or do not divide into the heads.
    """
    sizes = list(spec.attributes.get("qkv_hidden_sizes") or [weights.shape[-1] // 3] * 3)
    if (
        len(sizes) != 3
        or sum(sizes) != weights.shape[-1]
        or sizes[0] != sizes[1]
        or any(size % heads for size in sizes)
    ):
        raise ValueError(
            f"{spec.op_type}: weights {list(weights.shape)} do not hold {sizes} for {heads} heads"
        )
    return sizes[0], sizes[1], sizes[2]


def _projected(x: Array, weights: Array, bias: Any) -> Array:
    """X weights + bias, in float32 for narrower floats."""
    wide = work_type(x.dtype)
    made = np.empty((*x.shape[:-1], weights.shape[1]), wide)
    multiply(x.astype(wide, copy=False), weights.astype(wide, copy=False), made)
    if bias is not None:
        np.add(made, bias, made)
    return made


def _split(made: Array, sizes: Sequence[int], heads: int) -> tuple[Array, Array, Array]:
    """Queries, keys and values of *made* [B, S, sum of sizes], heads first."""
    ends = (sizes[0], sizes[0] + sizes[1], sum(sizes))
    q, k, v = (
        heads_first(made[:, :, end - size : end], heads)
        for end, size in zip(ends, sizes, strict=True)
    )
    return q, k, v


@register("Attention", since_version=1, domain=_MS)
class ContribAttention(Kernel):
    """input [B, S, I], weights [I, 3 H D], bias, mask_index, past [2, B, H, P, D], attention_bias -> output, cache.

    With ``past_present_share_buffer`` the cache has room for more than the ``past_sequence_length`` that is filled.
    """

    value_inputs: ClassVar[tuple[int, ...]] = (6,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes["num_heads"])
        self._right = 0 if attributes.get("unidirectional", 0) else -1
        self._filtered = float(attributes.get("mask_filter_value", -10000.0))
        self._scale = float(attributes.get("scale", 0.0))
        self._shared = bool(attributes.get("past_present_share_buffer", 0))
        if attributes.get("do_rotary", 0):
            raise UnsupportedOperatorError("Attention of com.microsoft with do_rotary")

    def _before(self, inputs: Sequence[Any]) -> int:
        """The filled part of the past."""
        past, length = given(inputs, 4), given(inputs, 6)
        if past is None:
            return 0
        if self._shared and length is not None:
            return int(length.reshape(-1)[0])
        return int(past.shape[3])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H E], present [2, B, H, T, D]."""
        x, weights = operands(self.spec, inputs, 2)
        if x.ndim != 3 or weights.ndim != 2 or x.shape[2] != weights.shape[0]:
            raise ValueError(
                f"Attention: input {list(x.shape)} and weights {list(weights.shape)} do not multiply"
            )
        sizes = _sizes(self.spec, weights, self._heads)
        past, extra = given(inputs, 4), given(inputs, 5)
        expect(self.spec, "bias", given(inputs, 2), (sum(sizes),))
        batch, heads = x.shape[0], self._heads
        expect(self.spec, "attention_bias", extra, (f"{batch}|1", f"{heads}|1", x.shape[1], None))
        size = sizes[2] // self._heads
        if (past is not None or len(self.spec.wanted) > 1) and sizes[1] != sizes[2]:
            raise ValueError(
                f"Attention: keys and values of one cache have one size, got {sizes[1:]}"
            )
        state = (2, x.shape[0], self._heads, 0, size)
        if past is not None and (
            past.ndim != 5 or past.shape[:3] != state[:3] or past.shape[4] != size
        ):
            raise ValueError(
                f"Attention expects past {['P' if i == 0 else i for i in state]}, got {list(past.shape)}"
            )
        keys = self._before(inputs) + x.shape[1]
        if extra is not None and (extra.ndim != 4 or extra.shape[2:] != (x.shape[1], keys)):
            raise ValueError(
                f"Attention: attention_bias {list(extra.shape)} does not fit {x.shape[1]} queries and {keys} keys"
            )
        room = past.shape[3] if past is not None and self._shared else keys
        if room < keys:
            raise ValueError(f"Attention: {keys} keys do not fit a cache of {room}")
        present = (2, x.shape[0], self._heads, room, size)
        return (TensorSpec((*x.shape[:2], sizes[2]), x.dtype), TensorSpec(present, x.dtype))[
            : len(self.spec.wanted)
        ]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One product for all three, then the rest."""
        x, weights, bias = [*inputs, None][:3]
        self.attend(_projected(x, weights, bias), weights, inputs, outputs)

    def attend(
        self, made: Array, weights: Array, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """The cache, the mask and the core, from queries, keys and values that are made."""
        x, _, _, mask, past, extra = [*inputs, *[None] * 4][:6]
        q, k, v = _split(made, _sizes(self.spec, weights, self._heads), self._heads)
        y, present = [*outputs, None][:2]
        before = self._before(inputs)
        keys = before + x.shape[1]
        if past is not None and past.shape[3] > before:
            if present is not None:
                present[:, :, :, keys:] = past[:, :, :, keys:]
            past = past[:, :, :, :before]
        news = (
            (None, None) if present is None else (present[0, :, :, :keys], present[1, :, :, :keys])
        )
        caches = (None, None) if past is None else (past[0], past[1])
        k, v = joined(caches[0], k, news[0]), joined(caches[1], v, news[1])
        if y is None:
            return
        biases = []
        if mask is not None:
            biases.append(key_bias(mask, x.shape[1], keys, x.shape[0], self._filtered))
        if extra is not None:
            biases.append(extra)
        rules = Rules(self._scale or 1 / math.sqrt(max(q.shape[3], 1)))
        attend(
            q,
            k,
            v,
            heads_first(y, self._heads),
            rules,
            Mask(tuple(biases), before, right=self._right),
        )


class _Packed(Kernel):
    """Sequences of several lengths one after the other, without padding."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self.heads = int(spec.attributes["num_heads"])
        self.scale = float(spec.attributes.get("scale", 0.0))

    def attend(self, q: Array, k: Array, v: Array, ends: Array, extra: Any, y: Array) -> None:
        """Sequence by sequence; q, k, v and y are [1, tokens, H D].

        Raises:
            ValueError: The sequences are not as many tokens as there are.
        """
        places = ends.tolist()
        if not places or places[0] != 0 or places[-1] != y.shape[1] or places != sorted(places):
            raise ValueError(
                f"{self.spec.op_type}: cumulative_sequence_length {places} does not cover {y.shape[1]} tokens"
            )
        q, k, v, out = (
            one if one.ndim == 4 else heads_first(one, self.heads) for one in (q, k, v, y)
        )
        rules = Rules(self.scale or 1 / math.sqrt(max(q.shape[3], 1)))
        for item, (first, last) in enumerate(itertools.pairwise(places)):
            own = slice(first, last)
            biases: tuple[Array, ...] = ()
            if extra is not None:
                one = extra[item if extra.shape[0] > 1 else 0]
                biases = (one[None, :, : last - first, : last - first],)
            attend(q[:, :, own], k[:, :, own], v[:, :, own], out[:, :, own], rules, Mask(biases))


@register("PackedAttention", since_version=1, domain=_MS)
class PackedAttention(_Packed):
    """input [tokens, I], weights [I, 3 H D], bias, token_offset, sequence ends, attention_bias -> output."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[tokens, H E]."""
        x, weights, _, _, _ = operands(self.spec, inputs, 5)
        if x.ndim != 2 or weights.ndim != 2 or x.shape[1] != weights.shape[0]:
            raise ValueError(
                f"PackedAttention: input {list(x.shape)} and weights {list(weights.shape)} do not multiply"
            )
        return (TensorSpec((x.shape[0], _sizes(self.spec, weights, self.heads)[2]), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One product for all three, then the core."""
        x, weights, bias = inputs[:3]
        sizes = _sizes(self.spec, weights, self.heads)
        q, k, v = _split(_projected(x, weights, bias)[None], sizes, self.heads)
        self.attend(q, k, v, inputs[4], given(inputs, 5), outputs[0][None])


@register("PackedMultiHeadAttention", since_version=1, domain=_MS)
class PackedMultiHeadAttention(_Packed):
    """query, key, value [tokens, H D], or packed [tokens, H, 3, D], bias, token_offset, ... -> output [tokens, H E]."""

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """Each [1, H, tokens, D]."""
        query, key, value = inputs[:3]
        if query.ndim == 4:
            q, k, v = (query[None, :, :, part].transpose(0, 2, 1, 3) for part in range(3))
            return q, k, v
        if key is None or value is None:
            raise ValueError("PackedMultiHeadAttention needs keys and values, alone or packed")
        if any(one.ndim != 2 or one.shape[1] % self.heads for one in (query, key, value)):
            raise ValueError(
                f"PackedMultiHeadAttention: {self.heads} heads do not divide query {list(query.shape)}, "
                f"key {list(key.shape)}, value {list(value.shape)}"
            )
        q, k, v = (heads_first(one[None], self.heads) for one in (query, key, value))
        return q, k, v

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[tokens, H E]."""
        (query,) = operands(self.spec, inputs, 1)
        if given(inputs, 5) is None:
            raise ValueError("PackedMultiHeadAttention needs cumulative_sequence_length")
        q, k, v = self._views(inputs)
        if q.shape != k.shape or k.shape[:3] != v.shape[:3]:
            raise ValueError(
                f"PackedMultiHeadAttention: heads {list(q.shape)}, {list(k.shape)}, {list(v.shape)} do not fit"
            )
        return (TensorSpec((q.shape[2], self.heads * v.shape[3]), query.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Biases, then the core."""
        q, k, v = self._views(inputs)
        bias = given(inputs, 3)
        if bias is not None:
            width, size = self.heads * q.shape[3], self.heads * v.shape[3]
            parts = (bias[:width], bias[width : 2 * width], bias[2 * width : 2 * width + size])
            q, k, v = (
                one + heads_first(part[None, None], self.heads)
                for one, part in zip((q, k, v), parts, strict=True)
            )
        self.attend(q, k, v, inputs[5], given(inputs, 6), outputs[0][None])
