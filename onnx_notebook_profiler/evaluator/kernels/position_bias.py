"""com.microsoft's RelativePositionBias and GatedRelativePositionBias.

ContribOperators.md of onnxruntime; Raffel et al., T5 (2020), and Chi et al., XLM-E (2022). Scratch: the numbers of the
buckets, one for each distance; the gates of all queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GatedRelativePositionBias", "RelativePositionBias"]

_MS: Final = "com.microsoft"


@register("RelativePositionBias", since_version=1, domain=_MS)
class RelativePositionBias(Kernel):
    """bias_table [buckets, H], query_length, key_length -> [1, H, S, T]: a bias for the distance of query and key.

    The table's numbers lie column by column: those of the first head come first, whatever its shape says.
    Distances up to half of the buckets have one each, longer ones share them in steps that grow with the logarithm.
    """

    value_inputs: ClassVar[tuple[int, ...]] = (1, 2)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._farthest = int(spec.attributes["max_distance"])
        self._both = bool(spec.attributes.get("is_bidirectional", 0))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[1, H, S, T]."""
        table, queries, keys = operands(self.spec, inputs, 3)
        if table.ndim != 2 or queries.size != 1 or keys.size != 1:
            raise ValueError(
                f"RelativePositionBias expects bias_table [buckets, H] and two lengths, got {list(table.shape)}, "
                f"{list(queries.shape)}, {list(keys.shape)}"
            )
        shape = (1, table.shape[1], int(queries.reshape(-1)[0]), int(keys.reshape(-1)[0]))
        return (TensorSpec(shape, table.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The biases of all distances, then a window of them for each query."""
        table, (y,) = inputs[0], outputs
        queries, keys = y.shape[2:]
        if not y.size:
            return
        distances = np.arange(1 - queries, keys)
        count, heads = table.shape
        biases = table.reshape(heads, count)[:, self._buckets(distances, count)]
        windows = np.lib.stride_tricks.sliding_window_view(biases, keys, axis=1)
        y[0] = windows[:, ::-1]

    def _buckets(self, distances: Array, count: int) -> Array:
        """The bucket of each *distance*, key minus query."""
        found = np.zeros(distances.shape, np.int64)
        if self._both:
            count //= 2
            found += np.where(distances > 0, count, 0)
            distances = np.abs(distances)
        else:
            distances = np.maximum(-distances, 0)
        exact = count // 2
        near = distances < exact
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.log(np.maximum(distances, 1).astype(np.float32) / np.float32(max(exact, 1)))
            far /= np.log(np.float32(self._farthest) / np.float32(max(exact, 1)))
            far *= np.float32(count - exact)
        steps = np.minimum(exact + far.astype(np.int64), count - 1)
        return found + np.where(near, distances, steps)


@register("GatedRelativePositionBias", since_version=1, domain=_MS)
class GatedRelativePositionBias(Kernel):
    """query_layer [B, S, H D], query_bias, rel_pos [1, H, S, S], weight [D, E], bias, eco_a, offsets -> [B, H, S, S].

    Each query scales its row of rel_pos by a gate that a linear layer makes of it. Tokens without padding come as
    [tokens, H D], with the places [B, S] to which they belong.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._heads = int(spec.attributes["num_heads"])

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[B, H, S, S]."""
        query, query_bias, positions, weight, bias, _ = operands(self.spec, inputs, 6)
        offsets = given(inputs, 6)
        width = query.shape[-1]
        length = positions.shape[-1] if positions.ndim == 4 else -1
        if query.ndim == (3 if offsets is None else 2) and weight.ndim == 2:
            batch, places = query.shape[0], query.shape[1]
            if offsets is not None:
                batch, places = offsets.shape
            if (
                positions.shape == (1, self._heads, places, places)
                and query_bias.shape == (width,)
                and width == self._heads * weight.shape[0]
                and bias.shape == weight.shape[1:]
                and weight.shape[1] % 2 == 0
            ):
                return (TensorSpec((batch, self._heads, places, places), query.dtype),)
        raise ValueError(
            f"GatedRelativePositionBias: query_layer {list(query.shape)}, query_bias {list(query_bias.shape)}, rel_pos "
            f"{list(positions.shape)}, weight {list(weight.shape)} and bias {list(bias.shape)} do not fit "
            f"{self._heads} heads and {length} positions"
        )

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The gates, then one product for each item."""
        query, query_bias, positions, weight, bias, eco = inputs[:6]
        offsets, (y,) = given(inputs, 6), outputs
        batch, heads, length, _ = y.shape
        x = query.astype(FLOAT32) + query_bias.astype(FLOAT32)
        if offsets is not None:
            whole = np.zeros((batch * length, x.shape[-1]), np.float32)
            whole += query_bias.astype(FLOAT32)
            whole[offsets.reshape(-1)[: x.shape[0]]] = x
            x = whole
        x = x.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
        made = np.matmul(x, weight.astype(FLOAT32)) + bias.astype(FLOAT32)
        sums = made.reshape(batch, heads, length, 2, -1).sum(axis=-1)
        gates = 1 / (1 + np.exp(-sums))
        scale = gates[..., :1] * (gates[..., 1:] * eco.astype(FLOAT32) - 1) + 2
        for item in range(batch):
            if y.dtype == FLOAT32:
                np.multiply(scale[item], positions[0], y[item])
            else:
                y[item] = scale[item] * positions[0].astype(FLOAT32)
