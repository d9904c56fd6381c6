"""com.microsoft's MultiHeadAttention and DecoderMaskedMultiHeadAttention.

ContribOperators.md of onnxruntime; attention_cpu_base.h there for masks and caches. Queries, keys and values are
[B, S, H D] or packed, caches [B, H, P, D]. Scratch: see ``_attention.py``; queries, keys and values with their biases,
keys and values joined with their past where no present is asked for, or picked from the beams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

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
from onnx_notebook_profiler.evaluator.kernels._shared import given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["DecoderMaskedMultiHeadAttention", "MultiHeadAttention"]

_MS: Final = "com.microsoft"


class _Places(NamedTuple):
    """Positions of the inputs after query, key and value; an operator without one has a number beyond its inputs."""

    bias: int
    mask: int
    extra: int
    past: int
    length: int
    beams: int


class _Given(NamedTuple):
    """The inputs after query, key and value."""

    bias: Any
    mask: Any
    extra: Any
    past_keys: Any
    past_values: Any
    length: int | None
    """How much of the past is filled, where it has room for more."""
    beams: Any


@register("MultiHeadAttention", since_version=1, domain=_MS)
class MultiHeadAttention(Kernel):
    """query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value -> output and present caches.

    Where ``past_sequence_length`` is given, the caches have room for more, and the present ones are as large. Where
    there are more keys than positions of queries, ``unidirectional`` lets the last query see all, as in onnxruntime.
    """

    value_inputs: ClassVar[tuple[int, ...]] = (8,)
    places: ClassVar[_Places] = _Places(3, 4, 5, 6, 8, 9)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes["num_heads"])
        self._right = 0 if attributes.get("unidirectional", 0) else -1
        self._filtered = float(attributes.get("mask_filter_value", -10000.0))
        self._scale = float(attributes.get("scale", 0.0))

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """Queries, keys and values [B, H, S, D], biases not yet added.

        Raises:
            ValueError: Keys or values are missing, or the heads do not divide an axis.
        """
        query, key, value = inputs[0], given(inputs, 1), given(inputs, 2)
        for name, one in (("query", query), ("key", key), ("value", value)):
            if one is not None and one.ndim not in {3, 4, 5}:
                raise ValueError(
                    f"{self.spec.op_type}: {name} {list(one.shape)} has not 3 to 5 axes"
                )
        heads = self._heads
        if query.ndim == 5:
            q, k, v = (query[:, :, :, part].transpose(0, 2, 1, 3) for part in range(3))
            return q, k, v
        if key is not None and key.ndim == 5:
            k, v = (key[:, :, :, part].transpose(0, 2, 1, 3) for part in range(2))
            return heads_first(query, heads), k, v
        if (key is None) != (value is None) or key is None:
            raise ValueError(
                f"{self.spec.op_type} needs keys and values, alone or packed with the queries"
            )
        if any(one.ndim == 3 and one.shape[2] % heads for one in (query, key, value)):
            raise ValueError(
                f"{self.spec.op_type}: {heads} heads do not divide the last axis of query {list(query.shape)}, "
                f"key {list(key.shape)}, value {list(value.shape)}"
            )
        return heads_first(query, heads), heads_first(key, heads), heads_first(value, heads)

    def _given(self, inputs: Sequence[Any]) -> _Given:
        """The other inputs, by name."""
        at = self.places
        past = given(inputs, at.past)
        length = given(inputs, at.length)
        expect(
            self.spec, "past_sequence_length", None if length is None else length.reshape(-1), (1,)
        )
        return _Given(
            given(inputs, at.bias),
            given(inputs, at.mask),
            given(inputs, at.extra),
            past,
            given(inputs, at.past + 1),
            None if length is None or past is None else int(length.reshape(-1)[0]),
            given(inputs, at.beams),
        )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H E], present_key, present_value [B, H, T, D], qk [B, H, S, T]."""
        operands(self.spec, inputs, 1)
        q, k, v = self._views(inputs)
        bias, _, extra, past, old, length, beams = self._given(inputs)
        shapes = f"query {list(q.shape)}, key {list(k.shape)}, value {list(v.shape)}"
        batch, heads, queries, size = q.shape
        if k.shape[:2] != (batch, heads) or k.shape[3] != size or k.shape[:3] != v.shape[:3]:
            raise ValueError(f"{self.spec.op_type}: the heads of {shapes} do not fit each other")
        cache = (batch, heads, None if past is None else (past.shape[-2:] or (0,))[0])
        expect(self.spec, "past_key", past, (*cache, size))
        expect(self.spec, "past_value", old, (*cache, v.shape[3]))
        expect(self.spec, "bias", bias, (heads * (2 * size + v.shape[3]),))
        if beams is not None and length is None:
            raise UnsupportedOperatorError(f"{self.spec.op_type} with beams but no shared buffer")
        if (past is None) != (old is None):
            raise ValueError(f"{self.spec.op_type}: past_key and past_value are given together")
        before = 0 if past is None else past.shape[2] if length is None else length
        keys = before + k.shape[2]
        room = keys if past is None or length is None else past.shape[2]
        if keys > room or before < 0:
            raise ValueError(
                f"{self.spec.op_type}: {before} and {k.shape[2]} keys do not fit a cache of {room}"
            )
        if extra is not None and (
            extra.ndim != 4
            or extra.shape[2:] != (queries, keys)
            or extra.shape[0] not in {1, batch}
            or extra.shape[1] not in {1, heads}
        ):
            raise ValueError(
                f"{self.spec.op_type}: attention_bias {list(extra.shape)} does not broadcast to "
                f"{[batch, heads, queries, keys]}"
            )
        specs = [
            TensorSpec((batch, queries, heads * v.shape[3]), q.dtype),
            TensorSpec((batch, heads, room, size), q.dtype),
            TensorSpec((batch, heads, room, v.shape[3]), q.dtype),
            TensorSpec((batch, heads, queries, keys), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Biases, caches, mask, core."""
        q, k, v = self._views(inputs)
        bias, mask, extra, past, old, length, beams = self._given(inputs)
        if bias is not None:
            q, k, v = self._biased(inputs, bias, (q, k, v))
        y, new_keys, new_values, shown = [*outputs, None, None, None][:4]
        before = 0 if past is None else past.shape[2] if length is None else length
        if length is None:
            k, v = joined(past, k, new_keys), joined(old, v, new_values)
        else:
            k = _written(past, k, new_keys, length, beams)
            v = _written(old, v, new_values, length, beams)
        batch, heads, queries, size = q.shape
        biases = []
        if mask is not None:
            biases.append(key_bias(mask, queries, k.shape[2], batch, self._filtered))
        if extra is not None:
            biases.append(extra)
        right = self._right
        if right >= 0 and (shown is not None or k.shape[2] > before + queries):
            biases.append(_triangle(queries, k.shape[2], before))
            right = -1
        if y is None:
            y = np.empty((batch, queries, heads * v.shape[3]), q.dtype)
        rules = Rules(self._scale or 1 / math.sqrt(max(size, 1)), stage=2)
        band = Mask(tuple(biases), before, right=right)
        attend(q, k, v, heads_first(y, heads), rules, band, shown)

    def _biased(
        self, inputs: Sequence[Any], bias: Array, values: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        """Queries, keys and values plus their parts of *bias*; keys that come heads first have theirs already."""
        q, k, v = values
        width, size = self._heads * q.shape[3], self._heads * v.shape[3]
        q = q + heads_first(bias[None, None, :width], self._heads)
        key = given(inputs, 1)
        if key is None or key.ndim != 4:
            k = k + heads_first(bias[None, None, width : 2 * width], self._heads)
            v = v + heads_first(bias[None, None, 2 * width : 2 * width + size], self._heads)
        return q, k, v


def _triangle(queries: int, keys: int, before: int) -> Array:
    """0 for keys up to the query's own, the least float32 for those after it, as the shown scores have it."""
    seen = np.tri(queries, keys, before, np.bool_)
    if keys > before + queries:
        seen[-1] = True
    return np.where(seen, np.float32(0), np.finfo(np.float32).min)[None, None]


def _written(past: Array, new: Array, present: Any, length: int, beams: Any) -> Array:
    """The first *length* keys or values of *past* and the new ones [B, H, T, D]; *present* is past with them written.

    With *beams* [B / W, W, M], position t of beam w comes from beam ``beams[b, w, t]`` of the same item.
    """
    whole = past.copy() if present is None else present
    if present is not None:
        present[...] = past
    keys = length + new.shape[2]
    whole[:, :, length:keys] = new
    if beams is None:
        view: Array = whole[:, :, :keys]
        return view
    items, width = beams.shape[:2]
    rows = (
        beams.reshape(items * width, -1)[:, :length]
        + np.repeat(np.arange(items) * width, width)[:, None]
    )
    picked = np.empty((*new.shape[:2], keys, new.shape[3]), new.dtype)
    for row, sources in enumerate(rows):
        picked[row, :, :length] = past[sources, :, np.arange(length)].swapaxes(0, 1)
    picked[:, :, length:] = new
    return picked


@register("DecoderMaskedMultiHeadAttention", since_version=1, domain=_MS)
class DecoderMaskedMultiHeadAttention(MultiHeadAttention):
    """One query for each item; its key and value are appended to the past, or the keys come heads first as they are."""

    value_inputs: ClassVar[tuple[int, ...]] = (7,)
    places: ClassVar[_Places] = _Places(10, 3, 4, 5, 7, 9)

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """As the base; three matrices may be packed side by side."""
        query, key = inputs[0], given(inputs, 1)
        if query.ndim != 3 or query.shape[1] != 1:
            raise ValueError(
                f"DecoderMaskedMultiHeadAttention expects query [B, 1, W], got {list(query.shape)}"
            )
        if key is not None:
            return super()._views(inputs)
        width = query.shape[2] // 3
        q, k, v = (
            heads_first(query[:, :, first : first + width], self._heads)
            for first in range(0, 3 * width, max(width, 1))
        )
        return q, k, v

    def _given(self, inputs: Sequence[Any]) -> _Given:
        """Beams count only where there are several."""
        found = super()._given(inputs)
        width = given(inputs, 8)
        alone = width is None or int(width.reshape(-1)[0]) <= 1
        shared = bool(self.spec.attributes.get("past_present_share_buffer", 0))
        return found._replace(
            length=found.length if shared else None, beams=None if alone else found.beams
        )
