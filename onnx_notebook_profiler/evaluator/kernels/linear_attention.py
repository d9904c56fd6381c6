"""LinearAttention and CausalConvWithState, of the default domain and of com.microsoft.

https://onnx.ai/onnx/operators/onnx__LinearAttention.html, .../onnx__CausalConvWithState.html, and ContribOperators.md
of onnxruntime. Everything is computed in float32 and rounded once. Scratch: the state, float32 copies of the inputs of
LinearAttention; for the convolution blocks of 64 thousand numbers, or one channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._attention import heads_first
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["CausalConvWithState", "LinearAttention"]

_MS: Final = "com.microsoft"
_RULES: Final = ("linear", "gated", "delta", "gated_delta")
_ACTIVATIONS: Final = ("none", "silu", "swish")
_BLOCK: Final = 2**16


@register("LinearAttention", since_version=27)
@register("LinearAttention", since_version=1, domain=_MS)
class LinearAttention(Kernel):
    """query [B, T, H Dk], key [B, T, K Dk], value [B, T, K Dv] -> output [B, T, H Dv] and the state [B, K, Dk, Dv].

    com.microsoft's may have more key heads than query heads, and keep the states after the last W steps, zeros
    where there are fewer.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._heads = int(attributes["q_num_heads"])
        self._groups = int(attributes["kv_num_heads"])
        self._window = int(attributes.get("state_window", 0))
        self._scale = float(attributes.get("scale", 0.0))
        rule = str(attributes.get("update_rule", "gated_delta"))
        if rule not in _RULES:
            raise ValueError(
                f"LinearAttention: update_rule is one of {', '.join(_RULES)}, not {rule!r}"
            )
        self._gated, self._delta = rule.startswith("gated"), rule.endswith("delta")
        fewer, more = sorted((self._heads, self._groups))
        if fewer < 1 or more % fewer or (self._groups > self._heads and spec.domain != _MS):
            raise ValueError(
                f"LinearAttention: q_num_heads {self._heads} is no multiple of kv_num_heads {self._groups}"
            )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output and present_state."""
        q, k, v = operands(self.spec, inputs, 3)
        heads, groups = self._heads, self._groups
        shapes = f"query {list(q.shape)}, key {list(k.shape)}, value {list(v.shape)}"
        if not q.ndim == k.ndim == v.ndim == 3 or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
            raise ValueError(
                f"LinearAttention expects [B, T, heads * size] throughout, got {shapes}"
            )
        size, rest = divmod(q.shape[2], heads)
        if rest or k.shape[2] != groups * size or v.shape[2] % groups:
            raise ValueError(f"LinearAttention: {shapes} do not fit {heads} and {groups} heads")
        width = v.shape[2] // groups
        past, decay, beta = (given(inputs, position) for position in (3, 4, 5))
        for name, value, needed, sizes in (
            ("decay", decay, self._gated, {groups, groups * size}),
            ("beta", beta, self._delta, {groups, 1}),
        ):
            if needed != (value is not None):
                raise ValueError(
                    f"LinearAttention: this update_rule {'needs' if needed else 'has no'} {name}"
                )
            if value is not None and (
                value.shape[:2] != q.shape[:2] or value.shape[2] not in sizes
            ):
                raise ValueError(
                    f"LinearAttention: {name} {list(value.shape)} does not fit {shapes}"
                )
        state = (q.shape[0], groups, size, width)
        if self._window:
            state = (self._window, *state)  # type: ignore[assignment]
        if past is not None and past.shape != state:
            raise ValueError(
                f"LinearAttention expects past_state {list(state)}, got {list(past.shape)}"
            )
        kind = q.dtype if past is None else past.dtype
        made = (*q.shape[:2], max(heads, groups) * width)
        return (TensorSpec(made, q.dtype), TensorSpec(state, kind))[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One step after the other."""
        y, present = [*outputs, None][:2]
        groups = self._groups
        q, k, v = (
            heads_first(one, count).astype(FLOAT32)
            for one, count in zip(inputs[:3], (self._heads, groups, groups), strict=True)
        )
        batch, _, steps, size = q.shape
        q *= self._scale or 1 / np.sqrt(max(size, 1))
        share = max(1, self._heads // groups)
        if groups > self._heads:
            q = np.repeat(q, groups // self._heads, axis=1)
        past, decay, beta = (given(inputs, position) for position in (3, 4, 5))
        state = np.zeros((batch, groups, size, v.shape[3]), np.float32)
        if past is not None:
            state[...] = past[-1] if self._window else past
        gates = None if decay is None else _per_head(decay, groups)
        if gates is not None:
            np.exp(gates, gates)
        rates = None if beta is None else _per_head(beta, groups)
        change = np.empty_like(state)
        if self._window and present is not None:
            present[: max(0, self._window - steps)] = 0
        for step in range(steps):
            if gates is not None:
                np.multiply(state, gates[:, :, step, :, None], state)
            key, value = k[:, :, step, :, None], v[:, :, step, None, :]
            if rates is not None:
                value = value - np.matmul(key.swapaxes(-1, -2), state)
                np.multiply(value, rates[:, :, step, :, None], value)
            np.multiply(key, value, change)
            np.add(state, change, state)
            if y is not None:
                query = q[:, :, step].reshape(batch, groups, share, size)
                y[:, step] = np.matmul(query, state).reshape(batch, -1)
            if self._window and present is not None and step >= steps - self._window:
                present[self._window - steps + step] = state
        if present is not None and not self._window:
            present[...] = state


def _per_head(x: Array, heads: int) -> Array:
    """[B, T, 1], [B, T, K] or [B, T, K D] as float32 [B, K or 1, T, 1 or D]."""
    if x.shape[2] < heads:
        return x.astype(FLOAT32)[:, None]
    return heads_first(x, heads).astype(FLOAT32)


@register("CausalConvWithState", since_version=27)
@register("CausalConvWithState", since_version=1, domain=_MS)
class CausalConvWithState(Kernel):
    """input [B, C, L] after the past, convolved channel by channel with weight [C, 1, k]; the last k - 1 come out.

    com.microsoft's may leave out steps between its taps, and have the channels last.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._dilation = int(attributes.get("dilation", 1))
        self._last = bool(attributes.get("channels_last", 0))
        activation = str(attributes.get("activation", "none"))
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"CausalConvWithState: activation is one of {', '.join(_ACTIVATIONS)}, not {activation!r}"
            )
        self._activated = activation != "none"
        if int(attributes.get("ndim", 1)) != 1 or any(
            int(attributes.get(name, 0))
            for name in ("state_window", "state_length", "input_channels", "state_update_capacity")
        ):
            raise UnsupportedOperatorError(
                "CausalConvWithState of images, or with states of many steps"
            )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output and present_state [B, C, k - 1]."""
        x, weight = operands(self.spec, inputs, 2)
        channels = x.shape[-1 if self._last else 1] if x.ndim == 3 else 0
        if weight.ndim == 3 and not weight.shape[2]:
            raise ValueError("CausalConvWithState expects a weight with taps, got none")
        if x.ndim != 3 or weight.ndim != 3 or weight.shape[:2] != (channels, 1):
            raise ValueError(
                f"CausalConvWithState expects input [B, C, L] and weight [C, 1, k], got {list(x.shape)}, "
                f"{list(weight.shape)}"
            )
        reach = (weight.shape[2] - 1) * self._dilation
        state = (x.shape[0], reach, channels) if self._last else (x.shape[0], channels, reach)
        bias, past = given(inputs, 2), given(inputs, 3)
        if bias is not None and bias.shape != (channels,):
            raise ValueError(
                f"CausalConvWithState expects bias [{channels}], got {list(bias.shape)}"
            )
        if past is not None and past.shape != state:
            raise ValueError(
                f"CausalConvWithState expects past_state {list(state)}, got {list(past.shape)}"
            )
        return (TensorSpec(x.shape, x.dtype), TensorSpec(state, x.dtype))[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One multiplication and addition of the shifted input for each tap, some channels at a time."""
        x, weight = inputs[:2]
        bias, past = given(inputs, 2), given(inputs, 3)
        y, present = [*outputs, None][:2]
        if self._last:
            x, past, y, present = (
                None if one is None else one.swapaxes(1, 2) for one in (x, past, y, present)
            )
        batch, channels, length = x.shape
        reach = (weight.shape[2] - 1) * self._dilation
        width = min(channels, max(1, _BLOCK // max(reach + length, 1)))
        whole = np.empty((width, reach + length), np.float32)
        room = np.empty((2, width, length), np.float32)
        taps, offsets = weight[:, 0].astype(FLOAT32), None if bias is None else bias.astype(FLOAT32)
        for item in range(batch):
            for start in range(0, channels, width):
                some = slice(start, start + width)
                count = min(width, channels - start)
                part = whole[:count]
                part[:, :reach] = 0 if past is None else past[item, some]
                part[:, reach:] = x[item, some]
                if present is not None:
                    present[item, some] = part[:, length:]
                if y is not None:
                    total = room[0, :count]
                    self._convolve(part, taps[some], total, room[1, :count])
                    if offsets is not None:
                        np.add(total, offsets[some, None], total)
                    if self._activated:
                        _silu(total, room[1, :count])
                    y[item, some] = total

    def _convolve(self, x: Array, taps: Array, total: Array, room: Array) -> None:
        """total[c, l] = sum of x[c, l + tap * dilation] * taps[c, tap]; *room* is of the total's shape."""
        length = total.shape[1]
        np.multiply(x[:, :length], taps[:, :1], total)
        for tap in range(1, taps.shape[1]):
            first = tap * self._dilation
            np.multiply(x[:, first : first + length], taps[:, tap : tap + 1], room)
            np.add(total, room, total)


def _silu(x: Array, room: Array) -> None:
    """X times its sigmoid, in place."""
    np.negative(x, room)
    np.exp(room, room)
    np.add(room, 1, room)
    np.divide(x, room, x)
