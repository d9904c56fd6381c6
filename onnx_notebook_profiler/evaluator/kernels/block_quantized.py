"""com.microsoft's GatherBlockQuantized and MatMulBnb4: tables and matrices whose blocks have a scale each.

ContribOperators.md of onnxruntime; the sixteen numbers of NF4 are those of Dettmers et al., QLoRA (2023), appendix E.
Scratch: what is gathered, or 4 MiB of the matrix, as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    given,
    normalized_axis,
    operands,
)
from onnx_notebook_profiler.evaluator.kernels.matmul_nbits import unpacked
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GatherBlockQuantized", "MatMulBnb4"]

_ROOM: Final = 2**20
"""Elements of the matrix that are made at a time."""

_FP4: Final = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
_TABLES: Final = {
    0: np.array([*_FP4, *(-number for number in _FP4)], np.float32),
    1: np.array(
        [
            *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
            *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
            *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
            *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
        ],
        np.float32,
    ),
}
"""What four bits mean, for each ``quant_type``."""


@register("GatherBlockQuantized", since_version=1, domain="com.microsoft")
class GatherBlockQuantized(Kernel):
    """Rows of quantised data, with (row - zero point) * scale for each block along quantize_axis."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._bits = int(attributes.get("bits", 4))
        self._block = int(attributes.get("block_size", 128))
        if self._bits not in {2, 4, 8}:
            raise ValueError(f"GatherBlockQuantized expects bits to be 2, 4 or 8, got {self._bits}")

    def _axes(self, rank: int) -> tuple[int, int]:
        attributes = self.spec.attributes
        gathered = normalized_axis(self.spec, int(attributes.get("gather_axis", 0)), rank)
        return gathered, normalized_axis(self.spec, int(attributes.get("quantize_axis", 1)), rank)

    def _per_byte(self, data: Array) -> int:
        return 8 // self._bits if data.dtype == np.uint8 else 1

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of data with that of indices in the place of gather_axis; the type of scales."""
        data, indices, scales = operands(self.spec, inputs, 3)
        gathered, quantized = self._axes(data.ndim)
        if data.dtype == np.uint8 and gathered:
            raise ValueError(
                f"GatherBlockQuantized gathers packed data along axis 0, not {gathered}"
            )
        sizes = [*data.shape[:-1], data.shape[-1] * self._per_byte(data)]
        blocks = -(-sizes[quantized] // (self._block or max(sizes[quantized], 1)))
        expected = [*sizes[:quantized], blocks, *sizes[quantized + 1 :]]
        if scales.ndim != data.ndim or any(
            one not in {size, 1} for one, size in zip(scales.shape, expected, strict=True)
        ):
            raise ValueError(
                f"GatherBlockQuantized expects scales {expected}, got {list(scales.shape)}"
            )
        shape = (*sizes[:gathered], *indices.shape, *sizes[gathered + 1 :])
        return (TensorSpec(shape, scales.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Gather data, scales and zero points alike."""
        data, indices, scales = inputs[:3]
        gathered, quantized = self._axes(data.ndim)
        count = data.shape[gathered]
        if indices.size and not -count <= indices.min() <= indices.max() < count:
            raise ValueError(
                f"GatherBlockQuantized: an index in [{indices.min()}, {indices.max()}] into {count} elements"
            )
        rows = np.where(indices < 0, indices + count, indices)
        places = rows.reshape(-1)
        values = self._unpacked(np.take(data, places, axis=gathered), data.dtype)
        if gathered == quantized:  # the block of an index, not of its place in the result
            block = places // (self._block or count)
        else:
            block = np.arange(values.shape[quantized]) // (self._block or values.shape[quantized])

        def spread(table: Array) -> Array:
            """A scale or zero point for each value."""
            if gathered != quantized and table.shape[gathered] != 1:
                table = np.take(table, places, axis=gathered)
            return np.asarray(np.take(table.astype(FLOAT32), block, axis=quantized))

        zeros = given(inputs, 3)
        values = values.astype(FLOAT32)
        if zeros is not None:
            values -= spread(self._unpacked(zeros, data.dtype))
        elif data.dtype == np.uint8:
            values -= np.float32(2 ** (self._bits - 1))
        values *= spread(scales)
        np.copyto(outputs[0], values.reshape(outputs[0].shape), casting="unsafe")

    def _unpacked(self, values: Array, dtype: np.dtype[Any]) -> Array:
        found: Array = unpacked(values, self._bits) if dtype == np.uint8 else values
        return found


@register("MatMulBnb4", since_version=1, domain="com.microsoft")
class MatMulBnb4(Kernel):
    """A times a matrix [N, K] of four bits a number, turned unless transB is 0; the first number has the high bits."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._shape = int(attributes["N"]), int(attributes["K"])
        self._block = int(attributes["block_size"])
        kind = int(attributes["quant_type"])
        if kind not in _TABLES:
            raise ValueError(f"MatMulBnb4: quant_type is 0 (FP4) or 1 (NF4), not {kind}")
        self._table = _TABLES[kind]
        self._turns = bool(attributes.get("transB", 1))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[..., N], or [..., K] with transB 0."""
        a, b, scales = operands(self.spec, inputs, 3)
        rows, columns = self._shape
        depth, width = (columns, rows) if self._turns else (rows, columns)
        count = rows * columns
        if (
            a.shape[-1:] != (depth,)
            or b.size != (count + 1) // 2
            or scales.size != -(-count // self._block)
        ):
            raise ValueError(
                f"MatMulBnb4: A {list(a.shape)}, B {list(b.shape)} and absmax {list(scales.shape)} do not fit "
                f"N={rows}, K={columns} in blocks of {self._block}"
            )
        return (TensorSpec((*a.shape[:-1], width), a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Some rows of the matrix at a time."""
        a, packed, scales = inputs[:3]
        rows, columns = self._shape
        left = a.reshape(-1, a.shape[-1]).astype(FLOAT32, copy=False)
        total = np.zeros((left.shape[0], columns), FLOAT32)
        target = outputs[0].reshape(left.shape[0], -1)
        height = max(1, _ROOM // max(columns, 1))
        for start in range(0, rows, height):
            part = slice(start, min(start + height, rows))
            matrix = self._matrix(packed.reshape(-1), scales.reshape(-1), part, columns)
            if self._turns:
                target[:, part] = np.matmul(left, matrix.T)
            else:
                total += np.matmul(left[:, part], matrix)
        if not self._turns:
            np.copyto(target, total, casting="unsafe")

    def _matrix(self, packed: Array, scales: Array, rows: slice, columns: int) -> Array:
        """Rows of the matrix as float32."""
        first, last = rows.start * columns, rows.stop * columns
        codes = packed[first // 2 : (last + 1) // 2]
        both = np.stack([codes >> 4, codes & 15], axis=-1).reshape(-1)
        values = self._table[both[first % 2 : first % 2 + last - first]]
        values *= scales.astype(FLOAT32)[np.arange(first, last) // self._block]
        return np.asarray(values.reshape(-1, columns))
