"""com.microsoft's SkipLayerNormalization, SkipSimplifiedLayerNormalization and EmbedLayerNormalization.

ContribOperators.md of onnxruntime. Sums are made and normalised block by block, in float32, and rounded once; scratch
is a block or two of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import (
    normalize_block,
    ones_for,
    per_block,
    row_type,
)
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["EmbedLayerNormalization", "QEmbedLayerNormalization", "SkipLayerNormalization"]

_MS: Final = "com.microsoft"


def _wide(value: Any, dtype: np.dtype[Any]) -> Any:
    return None if value is None else value.astype(dtype, copy=False)


@register("SkipLayerNormalization", since_version=1, domain=_MS)
@register("SkipSimplifiedLayerNormalization", since_version=1, domain=_MS)
class SkipLayerNormalization(Kernel):
    """Rows of input + skip + bias, normalised; Simplified leaves the mean in and has no beta.

    Skip is input's shape, or the last axes of it: each of its rows serves several of the input.
    """

    in_place: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-12))
        self._centers = spec.op_type == "SkipLayerNormalization"

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """output, mean and inv_std_var [..., 1] float32, input_skip_bias_sum."""
        x, skip, gamma = operands(self.spec, inputs, 3)
        if gamma.shape != x.shape[-1:] or not _is_tail(skip.shape, x.shape):
            raise ValueError(
                f"{self.spec.op_type}: skip {list(skip.shape)} and gamma {list(gamma.shape)} do not fit "
                f"input {list(x.shape)}"
            )
        for name, value in zip(("beta", "bias")[not self._centers :], inputs[3:], strict=False):
            if value is not None and value.shape != gamma.shape:
                raise ValueError(
                    f"{self.spec.op_type} expects {name} {list(gamma.shape)}, got {list(value.shape)}"
                )
        whole, row = TensorSpec(x.shape, x.dtype), TensorSpec((*x.shape[:-1], 1), FLOAT32)
        return (whole, row, row, whole)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Add, then normalise, block by block."""
        x, skip, gamma = inputs[:3]
        if not x.size:
            for one in outputs:
                if one is not None:
                    one.fill(0)
            return
        beta = given(inputs, 3) if self._centers else None
        bias = given(inputs, 4 if self._centers else 3)
        width = x.shape[-1]
        wide = row_type(x.dtype)
        bias = _wide(bias, wide)
        if not self._centers and len(outputs) > 1 and outputs[1] is not None:
            outputs[1].fill(0)  # no mean is taken off
        if not x.size:
            return
        rows, period = x.reshape(-1, width), skip.size // max(width, 1)
        added = skip.reshape(-1, width)

        def load(block: slice, part: Array) -> None:
            if period == rows.shape[0]:
                np.add(rows[block], added[block], part, dtype=wide)
            else:
                chosen = np.arange(block.start, block.stop) % period
                np.add(rows[block], added[chosen], part, dtype=wide)
            if bias is not None:
                np.add(part, bias, part)

        _normalize_sums(
            load,
            [None if one is None else one.reshape(-1, one.shape[-1]) for one in outputs],
            self._epsilon,
            (_wide(gamma, wide), _wide(beta, wide)),
            center=self._centers,
        )


def _is_tail(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return len(shape) <= len(whole) and shape == whole[len(whole) - len(shape) :]


def _normalize_sums(
    load: Callable[[slice, Array], None],
    outputs: list[Any],
    epsilon: float,
    pair: tuple[Array, Any],
    *,
    center: bool,
) -> None:
    """What *load* puts into a block of its own, normalised.

    Args:
        outputs: y [rows, width], and optionally mean and inverse deviation [rows, 1] and the sum [rows, width].
        pair: Factor and offset [width], the second may be None.
    """
    y, mean, inverse, total = [*outputs, None, None, None][:4]
    some = next(one for one in outputs if one is not None)
    width, wide = pair[0].size, pair[0].dtype
    ones = ones_for(some.shape[0], width, wide) if center else None

    def apply(block: slice) -> None:
        part = _block(y, block, wide, width)
        load(block, part)
        if total is not None:
            np.copyto(total[block], part, casting="unsafe")
        normalize_block(
            part,
            part,
            epsilon,
            ones,
            center=center,
            mean=None if mean is None else mean[block, 0],
            inverse=None if inverse is None else inverse[block, 0],
            scale=pair[0],
            bias=pair[1],
        )
        if y is not None and y.dtype != wide:
            np.copyto(y[block], part, casting="unsafe")

    per_block(some.shape[0], width, apply)


def _block(y: Any, block: slice, dtype: np.dtype[Any], width: int) -> Array:
    """The rows of y themselves where they have the type, else fresh ones."""
    if y is not None and y.dtype == dtype:
        rows: Array = y[block]
        return rows
    return np.empty((block.stop - block.start, width), dtype)


@register("EmbedLayerNormalization", since_version=1, domain=_MS)
class EmbedLayerNormalization(Kernel):
    """Word, position and segment embeddings of ids [N, S], added and normalised; mask_index counts each row's ones."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._epsilon = float(spec.attributes.get("epsilon", 1e-12))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [N, S, H], mask_index [N] int32, embedding_sum."""
        ids, words = inputs[0], inputs[2]
        if ids is None or words is None or ids.ndim != 2 or words.ndim != 2:
            raise ValueError(
                "EmbedLayerNormalization expects input_ids [N, S] and word_embedding [V, H]"
            )
        places = given(inputs, 8)
        if places is not None and places.shape not in {ids.shape, (1, ids.shape[1])}:
            raise ValueError(
                f"EmbedLayerNormalization expects position_ids {list(ids.shape)} or [1, {ids.shape[1]}], got "
                f"{list(places.shape)}"
            )
        whole = TensorSpec((*ids.shape, words.shape[1]), words.dtype)
        mask = TensorSpec(ids.shape[:1], np.dtype(np.int32))
        return (whole, mask, whole)[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Gather, add, normalise, block by block."""
        ids, segments, words, positions, kinds, gamma, beta = inputs[:7]
        mask, places = given(inputs, 7), given(inputs, 8)
        y, counts, total = [*outputs, None, None][:3]
        if counts is not None:
            counts[...] = 0 if mask is None else np.count_nonzero(mask == 1, axis=1)
        if places is None:
            places = np.arange(ids.shape[1], dtype=np.int32)
        tables = [(words, ids.reshape(-1)), (positions, _repeated(places, ids.shape))]
        if segments is not None and kinds is not None:
            tables.append((kinds, segments.reshape(-1)))
        for table, chosen in tables:
            _check_range(chosen, table.shape[0])
        width, wide = words.shape[1], row_type(words.dtype)

        def load(block: slice, part: Array) -> None:
            for number, (table, chosen) in enumerate(tables):
                if number == 0 and table.dtype == wide:
                    np.take(table, chosen[block], axis=0, out=part, mode="clip")
                elif number == 0:
                    part[...] = np.take(table, chosen[block], axis=0)
                else:
                    np.add(part, np.take(table, chosen[block], axis=0), part, dtype=wide)

        _normalize_sums(
            load,
            [
                None if y is None else y.reshape(-1, width),
                None,
                None,
                None if total is None else total.reshape(-1, width),
            ],
            self._epsilon,
            (_wide(gamma, wide), _wide(beta, wide)),
            center=True,
        )


@register("QEmbedLayerNormalization", since_version=1, domain="com.microsoft")
class QEmbedLayerNormalization(EmbedLayerNormalization):
    """The same of tables of eight bits, each with scale and zero point; they are taken to float32 as wholes."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Output [N, S, H] of the scales' type, mask_index [N]."""
        words, scale = inputs[2], given(inputs, 8)
        if words is None or scale is None:
            raise ValueError(
                "QEmbedLayerNormalization expects word_embedding_quant with a word_embedding_scale"
            )
        table = np.broadcast_to(np.zeros((), scale.dtype), words.shape)
        return super().infer([*inputs[:2], table])

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """(table - zero point) * scale, then as the base."""
        plain: list[Any] = [inputs[0], inputs[1]]
        for number in range(5):
            table, scale, zero = (given(inputs, first + number) for first in (2, 8, 13))
            if table is None:
                plain.append(None)
                continue
            offset = np.float32(0) if zero is None else zero.astype(np.float32)
            plain.append((table.astype(np.float32) - offset) * scale.astype(np.float32))
        super().compute([*plain, given(inputs, 7)], outputs)


def _repeated(places: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(np.broadcast_to(places, shape)).reshape(-1)


def _check_range(chosen: Array, count: int) -> None:
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < count:
        raise ValueError(
            f"EmbedLayerNormalization: an index in [{chosen.min()}, {chosen.max()}] into a table of {count} rows"
        )
