"""com.microsoft's GroupQueryAttention: several query heads share a key head, with caches, rotation and a window.

ContribOperators.md of onnxruntime; group_query_attention.cc and gqa_attention_base.h there. Items are computed one by
one, each with its own number of keys. Scratch: see ``_attention.py``; the turned queries of one item; the caches where
they are not asked for; for caches of a window's size the keys and values of one item that the step reads.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._attention import Mask, Rules, attend, heads_first
from onnx_notebook_profiler.evaluator.kernels._expected import expect
from onnx_notebook_profiler.evaluator.kernels._rotary import angles_at, rotate
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GroupQueryAttention"]

_MS: Final = "com.microsoft"


class _Step(NamedTuple):
    """What one item does: *fresh* new keys after *before* old ones, of which the cache holds the last *held*."""

    before: int
    fresh: int
    held: int

    @property
    def total(self) -> int:
        """Keys after the step."""
        return self.before + self.fresh


@register("GroupQueryAttention", since_version=1, domain=_MS)
class GroupQueryAttention(Kernel):
    """query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, ... -> output, caches.

    ``seqlens_k`` [B] is the number of valid keys less one; the caches have room for ``total_sequence_length`` or more.
    Of a prompt, which is as long as that, only the first number of ``position_ids`` counts.
    """

    value_inputs: ClassVar[tuple[int, ...]] = (6,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes["num_heads"])
        self._groups = int(attributes["kv_num_heads"])
        self._window = int(attributes.get("local_window_size", -1))
        self._causal = bool(attributes.get("causal", 1))
        self._rotary = bool(attributes.get("do_rotary", 0))
        self._interleaved = bool(attributes.get("rotary_interleaved", 0))
        self._evicts = bool(attributes.get("sliding_window_cache", 0))
        self._scale = float(attributes.get("scale", 0.0))
        epsilon = attributes.get("qk_norm_epsilon", 1e-6)
        self._epsilons = tuple(
            float(attributes.get(f"{name}_norm_epsilon", epsilon)) for name in "qk"
        )
        sink = (
            np.zeros(self._heads, np.float32)
            if int(attributes.get("smooth_softmax", 0)) == 1
            else None
        )
        shown = int(attributes.get("qk_output", 0))
        self._rules = Rules(
            1.0, float(attributes.get("softcap", 0.0)), sink, stage=3 if shown == 2 else 2
        )
        if self._groups < 1 or self._heads % self._groups:
            raise ValueError(
                f"GroupQueryAttention: {self._heads} heads are no multiple of {self._groups}"
            )
        if self._evicts and self._window < 1:
            raise ValueError("GroupQueryAttention: sliding_window_cache needs local_window_size")
        if any(attributes.get(f"{name}_quant_type", "NONE") != "NONE" for name in "kv"):
            raise UnsupportedOperatorError("GroupQueryAttention with quantised caches")

    def _views(self, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
        """Queries [B, H, S, D], keys and values [B, K, S, D]."""
        query, key, value = inputs[:3]
        heads, groups = self._heads, self._groups
        if key is None:
            whole = heads_first(query, heads + 2 * groups)
            return whole[:, :heads], whole[:, heads : heads + groups], whole[:, heads + groups :]
        return heads_first(query, heads), heads_first(key, groups), heads_first(value, groups)

    def _check(self, inputs: Sequence[Array | None]) -> None:
        """Raise where the inputs do not fit.

        Raises:
            ValueError: They do not.
        """
        (query,) = operands(self.spec, inputs, 1)
        key, value, past, old, lengths = (given(inputs, position) for position in range(1, 6))
        if lengths is None or given(inputs, 6) is None:
            raise ValueError("GroupQueryAttention needs seqlens_k and total_sequence_length")
        if (key is None) != (value is None) or (past is None) != (old is None):
            raise ValueError(
                "GroupQueryAttention: keys and values are given together, as is their past"
            )
        divisors = (
            ((query, self._heads + 2 * self._groups),)
            if key is None
            else ((query, self._heads), (key, self._groups), (value, self._groups))
        )
        if any(one is None or one.ndim != 3 or one.shape[2] % count for one, count in divisors):
            raise ValueError(
                f"GroupQueryAttention: query {list(query.shape)} does not divide into {self._heads} heads, or keys "
                f"and values not into {self._groups}"
            )
        q, k, v = self._views(inputs)
        if q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3] or q.shape[::2] != k.shape[::2]:
            raise ValueError(
                f"GroupQueryAttention: heads {list(q.shape)}, {list(k.shape)}, {list(v.shape)} do not fit"
            )
        self._check_optional(inputs, q, v)
        if lengths.size != q.shape[0]:
            raise ValueError(
                f"GroupQueryAttention: seqlens_k {list(lengths.shape)} is not [{q.shape[0]}]"
            )
        if self._rotary and (given(inputs, 7) is None or given(inputs, 8) is None):
            raise ValueError("GroupQueryAttention: do_rotary needs cos_cache and sin_cache")
        if past is not None and past.dtype != query.dtype:
            raise UnsupportedOperatorError("GroupQueryAttention with quantised caches")

    def _check_optional(self, inputs: Sequence[Any], q: Array, v: Array) -> None:
        """Raise where caches, angles, biases or sinks do not fit queries [B, H, S, D] and values.

        Raises:
            ValueError: They do not.
        """
        spec, (batch, heads, queries, size) = self.spec, q.shape
        past, cos = given(inputs, 3), given(inputs, 7)
        held = None if past is None else (past.shape[-2:] or (0,))[0]
        expect(spec, "total_sequence_length of one number", inputs[6].reshape(-1), (1,))
        expect(spec, "past_key", past, (batch, self._groups, held, size))
        expect(spec, "past_value", given(inputs, 4), (batch, self._groups, held, v.shape[3]))
        if self._rotary and cos is not None:
            expect(spec, "cos_cache", cos, (None, None))
            expect(spec, "sin_cache", given(inputs, 8), cos.shape)
            expect(spec, "position_ids", given(inputs, 9), (batch, queries))
        extra = given(inputs, 10)
        expect(spec, "attention_bias", extra, (f"{batch}|1", f"{heads}|1", queries, None))
        total = int(inputs[6].reshape(-1)[0])
        if extra is not None and extra.shape[3] < total:
            raise ValueError(
                f"GroupQueryAttention: attention_bias {list(extra.shape)} ends before key {total}"
            )
        expect(spec, "head_sink", given(inputs, 11), (heads,))

    def _room(self, inputs: Sequence[Any]) -> int:
        """Keys for which the caches have room."""
        past = given(inputs, 3)
        if past is not None and self._evicts:
            return int(past.shape[2])
        return max(int(inputs[6].reshape(-1)[0]), 0 if past is None else past.shape[2])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [B, S, H D], present_key and present_value [B, K, T, D], scores [B, H, S, T]."""
        self._check(inputs)
        q, k, v = self._views(inputs)
        batch, heads, queries, _ = q.shape
        room = self._room(inputs)
        length = inputs[6]
        assert length is not None
        if self._evicts and room < self._window:
            raise ValueError(
                f"GroupQueryAttention: a cache of {room} holds no window of {self._window}"
            )
        specs = [
            TensorSpec((batch, queries, heads * v.shape[3]), q.dtype),
            TensorSpec((batch, self._groups, room, k.shape[3]), q.dtype),
            TensorSpec((batch, self._groups, room, v.shape[3]), q.dtype),
            TensorSpec((batch, heads, queries, int(length.reshape(-1)[0])), q.dtype),
        ]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Item by item: each has a length of its own."""
        q, k, v = self._views(inputs)
        y, keys, values, shown = [*outputs, None, None, None][:4]
        batch, _, queries, size = q.shape
        room = self._room(inputs)
        if keys is None:
            keys = np.empty((batch, self._groups, room, size), q.dtype)
        if values is None:
            values = np.empty((batch, self._groups, room, v.shape[3]), q.dtype)
        if y is None:
            y = np.empty((batch, queries, self._heads * v.shape[3]), q.dtype)
        if given(inputs, 14) is not None:
            q = _normalised(q, inputs[14], self._epsilons[0])
            k = _normalised(k, inputs[15], self._epsilons[1])
        sink = given(inputs, 11)
        rules = dataclasses.replace(
            self._rules,
            scale=self._scale or 1 / math.sqrt(max(size, 1)),
            sink=self._rules.sink if sink is None else sink.astype(FLOAT32),
        )
        out = heads_first(y, self._heads)
        past = (given(inputs, 3), given(inputs, 4))
        for item in range(batch):
            one = slice(item, item + 1)
            step = self._step(inputs, item, queries)
            caches = []
            for new, old, present, turns in (
                (k, past[0], keys, self._rotary),
                (v, past[1], values, False),
            ):
                whole = self._joined(old, present, item, step, new.shape[3])
                target = whole[:, :, step.held : step.held + new.shape[2]]
                source = new[one, :, : target.shape[2]]
                if turns:
                    self._turn(inputs, item, step, source, target)
                else:
                    target[...] = source
                caches.append(whole)
            own = q[one]
            if self._rotary:
                own = np.empty(own.shape, q.dtype)
                self._turn(inputs, item, step, q[one], own)
            self._attend(
                own,
                caches,
                out[one],
                rules,
                given(inputs, 10),
                item,
                step,
                None if shown is None else shown[one],
            )
            if self._evicts:
                self._evict(caches, (keys, values), item, step)

    def _step(self, inputs: Sequence[Any], item: int, queries: int) -> _Step:
        """What *item* does."""
        total = int(inputs[5].reshape(-1)[item]) + 1
        chunk = given(inputs, 16)
        count = min(queries, total) if chunk is None else int(chunk.reshape(-1)[item])
        before = total - count
        if total < 0 or not 0 <= count <= queries or before < 0:
            raise ValueError(
                f"GroupQueryAttention: item {item} has {count} of {queries} queries and {total} keys"
            )
        held = self._resident(before, self._room(inputs)) if self._evicts else before
        past = given(inputs, 3)
        if held > (0 if past is None else past.shape[2]):
            raise ValueError(
                f"GroupQueryAttention: item {item} continues after {before} keys, which its past does not hold"
            )
        if not self._evicts and total > self._room(inputs):
            raise ValueError(
                f"GroupQueryAttention: {total} keys of item {item} do not fit a cache of {self._room(inputs)}"
            )
        return _Step(before, count, held)

    def _resident(self, total: int, room: int) -> int:
        """How many of *total* keys a cache of a window's size keeps: it drops several at once."""
        if total <= room:
            return total
        some = room - self._window + 1
        return total - some * -(-(total - room) // some)

    def _joined(self, past: Any, present: Array, item: int, step: _Step, size: int) -> Array:
        """The keys or values of *item* [1, K, T, D], with room for the new ones after the old ones."""
        if self._evicts:
            whole = np.empty((1, self._groups, step.held + step.fresh, size), present.dtype)
        else:
            whole = present[item : item + 1]
            whole[:, :, step.total :] = 0
        if step.held:
            whole[:, :, : step.held] = past[item, :, : step.held]
        return whole

    def _evict(
        self, caches: Sequence[Array], presents: Sequence[Array], item: int, step: _Step
    ) -> None:
        """Move the keys and values that stay to the front."""
        for whole, present in zip(caches, presents, strict=True):
            kept = self._resident(step.total, present.shape[2])
            present[item, :, :kept] = whole[0, :, whole.shape[2] - kept :]
            present[item, :, kept:] = 0

    def _turn(self, inputs: Sequence[Any], item: int, step: _Step, x: Array, out: Array) -> None:
        """Turn x [1, heads, S, D] by its positions."""
        cos, sin, places = inputs[7], inputs[8], given(inputs, 9)
        length = x.shape[2]
        if places is None:
            places = np.minimum(np.arange(step.before, step.before + length), cos.shape[0] - 1)
        elif inputs[0].shape[1] == int(inputs[6].reshape(-1)[0]):
            places = np.arange(length) + int(places.reshape(-1)[0])
        else:
            places = places.reshape(-1, places.shape[-1])[item, :length]
        cos, sin = angles_at(cos, places), angles_at(sin, places)
        rotate(
            x.transpose(0, 2, 1, 3),
            out.transpose(0, 2, 1, 3),
            cos[None],
            sin[None],
            interleaved=self._interleaved,
        )

    def _attend(
        self,
        q: Array,
        caches: Sequence[Array],
        out: Array,
        rules: Rules,
        extra: Any,
        item: int,
        step: _Step,
        shown: Any,
    ) -> None:
        """The core for one item."""
        keys = step.held + step.fresh
        absent = step.before - step.held
        biases: tuple[Array, ...] = ()
        if extra is not None:
            own = extra[item : item + 1] if extra.shape[0] > 1 else extra
            biases = (own[..., absent : absent + keys],)
        mask = Mask(
            biases,
            step.held,
            left=self._window - 1 if self._window > 0 else -1,
            right=0 if self._causal else -1,
        )
        view = None
        if shown is not None:
            shown[...] = 0
            view = shown[..., absent : absent + keys]
        attend(q, caches[0][:, :, :keys], caches[1][:, :, :keys], out, rules, mask, view)
        if view is not None and rules.stage == 2:
            view[np.isneginf(view.astype(FLOAT32, copy=False))] = 0


def _normalised(x: Array, weight: Array, epsilon: float) -> Array:
    """Each head of x [B, H, S, D] by the root of its mean square, times *weight* [D]."""
    wide = x.astype(FLOAT32)
    power = np.mean(np.square(wide), axis=-1, keepdims=True)
    power += np.float32(epsilon)
    np.sqrt(power, power)
    np.divide(wide, power, wide)
    np.multiply(wide, weight, wide)
    return wide.astype(x.dtype, copy=False)
