"""MatMulNBits: A [..., K] times a matrix [K, N] whose numbers have 2, 4 or 8 bits, in blocks with a scale each.

ContribOperators.md of onnxruntime. B is [N, blocks, bytes], scales [N, blocks]; ``zero_points`` are packed like B, or
floats. Rows of B are unpacked as many at a time as fill 4 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["MatMulNBits", "unpacked"]

_ROOM: Final = 2**22


def unpacked(packed: Array, bits: int) -> Array:
    """The numbers in the bytes of the last axis, the lowest bits first."""
    if bits == 8:
        return packed
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return values.reshape(*packed.shape[:-1], -1)


@register("MatMulNBits", since_version=1, domain="com.microsoft")
class MatMulNBits(Kernel):
    """A times the dequantised B', plus a bias [N]."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._depth, self._columns = int(attributes["K"]), int(attributes["N"])
        self._bits, self._block = int(attributes.get("bits", 4)), int(attributes["block_size"])
        if self._bits not in {2, 4, 8}:
            raise ValueError(f"MatMulNBits expects bits to be 2, 4 or 8, got {self._bits}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[..., N]."""
        a, b, _ = operands(self.spec, inputs, 3)
        blocks = -(-self._depth // self._block)
        if (
            a.shape[-1:] != (self._depth,)
            or b.size != self._columns * blocks * self._block * self._bits // 8
        ):
            raise ValueError(
                f"MatMulNBits: A {a.shape} and B {b.shape} do not fit K={self._depth}, N={self._columns}, "
                f"{self._bits} bits in blocks of {self._block}"
            )
        return (TensorSpec((*a.shape[:-1], self._columns), a.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Some rows of B at a time."""
        a, packed, scales, zeros, groups, bias = [*inputs, *[None] * (6 - len(inputs))][:6]
        left = a.reshape(-1, self._depth).astype(FLOAT32, copy=False)
        target = outputs[0].reshape(left.shape[0], self._columns)
        packed = packed.reshape(self._columns, -1, packed.shape[-1])
        blocks = packed.shape[1]
        scales = scales.reshape(self._columns, blocks)
        height = max(1, _ROOM // (4 * blocks * self._block))
        for start in range(0, self._columns, height):
            rows = slice(start, start + height)
            weights = unpacked(packed[rows], self._bits).astype(FLOAT32)
            weights = self._dequantized(
                weights, scales[rows], self._zeros(zeros, rows, blocks), groups
            )
            product = np.matmul(left, weights.T)
            if bias is not None:
                product += bias[rows]
            target[:, rows] = product

    def _zeros(self, zeros: Any, rows: slice, blocks: int) -> Any:
        """Zero points [rows, blocks]; without any the middle of the range."""
        if zeros is None:
            return np.float32(2 ** (self._bits - 1))
        if zeros.dtype != np.uint8:
            return zeros.reshape(self._columns, blocks)[rows].astype(FLOAT32)
        return unpacked(zeros.reshape(self._columns, -1)[rows], self._bits)[:, :blocks].astype(
            FLOAT32
        )

    def _dequantized(self, weights: Array, scales: Array, zeros: Any, groups: Any) -> Array:
        """(weights - zeros) * scales [rows, K]; *groups* says which block each of the K numbers belongs to."""
        scales = scales.astype(FLOAT32)
        if groups is None:
            weights -= zeros[..., None] if zeros.ndim else zeros
            weights *= scales[..., None]
            return weights.reshape(weights.shape[0], -1)[:, : self._depth]
        flat = weights.reshape(weights.shape[0], -1)[:, : self._depth]
        order = groups[: self._depth]
        result: Array = flat - (zeros[:, order] if zeros.ndim else zeros)
        result *= scales[:, order]
        return result
