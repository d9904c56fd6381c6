"""Functions of 8-bit numbers as tables that are looked up by their bits.

Large tensors are looked up two bytes at a time, in a table of all pairs. Scratch: one block of indices in 8 bytes each,
and the table of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._quantized import pieces

__all__ = ["ByteMap", "all_bytes", "bits_of", "combined"]

_BLOCK: Final = 2**15
_MANY: Final = 2**17
"""Elements from which on a table of all pairs is worth its making."""


def all_bytes(dtype: np.dtype[Any]) -> Array:
    """The 256 values of an 8-bit type, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype)


def bits_of(x: Array) -> Array:
    """The bits of an 8-bit tensor as uint8."""
    return x.view(np.uint8)


class ByteMap:
    """A table of 256 8-bit numbers, for tensors of *size* elements in all."""

    def __init__(self, table: Array, size: int) -> None:
        self._table = bits_of(table)
        self._pairs: Array | None = None
        self._same = size > 256 and np.array_equal(self._table, all_bytes(np.dtype(np.uint8)))
        if size >= _MANY and not self._same:
            pairs = np.arange(2**16, dtype=np.uint16).view(np.uint8)
            self._pairs = self._table[pairs].view(np.uint16)

    def __call__(self, x: Array, out: Array) -> None:
        """Fill *out* with the numbers of *x*; both are C-contiguous."""
        source, target = bits_of(x.reshape(-1)), bits_of(out.reshape(-1))
        if self._same:
            np.copyto(target, source)
            return
        table = self._table
        if self._pairs is not None:
            even = source.size - source.size % 2
            np.take(table, source[even:], out=target[even:], mode="clip")
            source, target = source[:even].view(np.uint16), target[:even].view(np.uint16)
            table = self._pairs
        for start in range(0, source.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            np.take(table, source[part], out=target[part], mode="clip")


def combined(
    a: Array, b: Array, out: Array, combine: Callable[[Array, Array, Array], None]
) -> None:
    """Fill *out* with a function of each pair of 8-bit numbers from *a* and *b*, which broadcast to it.

    *combine* gets the bits of both, and where to write; for large tensors once, to make a table of all pairs.
    """
    a, b = bits_of(a), bits_of(b)
    if a.shape == b.shape:
        a, b, out = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    if out.size < _MANY:
        for left, right, target in pieces([a, b, out], out.shape):
            combine(left, right, target)
        return
    numbers = all_bytes(np.dtype(np.uint8))
    table: Array = np.empty((256, 256), out.dtype)
    for start in range(0, 256, 64):
        part = slice(start, start + 64)
        combine(numbers[part, None], numbers[None], table[part])
    table = table.reshape(-1)
    for left, right, target in pieces([a, b, out], out.shape):
        index = np.left_shift(left, 8, dtype=np.uint16)
        np.take(table, np.bitwise_or(index, right), out=target, mode="clip")
