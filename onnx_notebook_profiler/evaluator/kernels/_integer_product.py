"""Products of integer matrices, exact, by the float32 routines of BLAS: numpy has none for integers.

float32 adds integers without error as long as no partial sum reaches 2 ** 24. The sum of the magnitudes of a row times
the greatest magnitude of the other matrix bounds every partial sum, in whatever order they are added. Where that bound
is too great the depth is cut into slices, which are added up as int32 with wrap-around. Integers of 32 and 64 bits go
through float64 in the same way, up to 2 ** 53; greater ones of 32 bits in halves. Scratch of those: both
matrices, or two halves of each, and the product in float64 and int64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64

__all__ = ["centered", "integer_product", "wrapped_product"]

_EXACT: Final = 2**24
_EXACT_WIDE: Final = 2**53
_FEW: Final = 2**13
"""Multiplications that numpy's own loops do as fast."""
_ROOM: Final = 2**22
"""Bytes of the second matrix that are float32 at a time."""


def centered(x: Array, zero: Any) -> Array:
    """X - zero as float32; *zero* is None, a number or what broadcasts to x."""
    wide = x.astype(FLOAT32)
    if zero is not None and np.any(zero):
        np.subtract(wide, np.asarray(zero).astype(FLOAT32), wide)
    return wide


def integer_product(a: Array, b: Array, b_zero: Any, out: Array) -> None:
    """Out = a @ (b - b_zero) as int32, or as the float type that *out* has.

    Args:
        a: [..., M, K] float32 that holds integers.
        b: [..., K, N] integers.
        b_zero: None, or what broadcasts to b.
        out: [..., M, N].
    """
    depth, columns = b.shape[-2:]
    stack = math.prod(b.shape[:-2])
    width = min(columns, max(16, _ROOM // max(4 * depth * stack, 1)))
    rows = float(np.abs(a).sum(axis=-1).max(initial=0.0))
    top = float(np.abs(a).max(initial=0.0))
    for start in range(0, columns, width):
        part = slice(start, start + width)
        zero = b_zero
        if zero is not None and np.ndim(zero) and np.shape(zero)[-1] == columns:
            zero = zero[..., part]
        right = centered(b[..., part], zero)
        most = max(float(right.max(initial=0.0)), -float(right.min(initial=0.0)))
        if rows * most < _EXACT or b.dtype.kind not in "iu":
            np.copyto(out[..., part], np.matmul(a, right), casting="unsafe")
        else:
            _in_slices(a, right, max(1, int((_EXACT - 1) // max(top * most, 1))), out[..., part])


def _in_slices(a: Array, b: Array, depth: int, out: Array) -> None:
    """The product of *depth* columns and rows at a time, added up as int32."""
    total = np.zeros(out.shape, np.int32)
    for start in range(0, b.shape[-2], depth):
        part = slice(start, start + depth)
        product = np.matmul(a[..., part], b[..., part, :])
        np.add(total, product.astype(np.int32), total)
    np.copyto(out, total, casting="unsafe")


def wrapped_product(a: Array, b: Array, out: Array) -> None:
    """Out = a @ b for integers of one type; what does not fit is wrapped around.

    Args:
        a, b: As numpy's matmul takes them.
        out: Its result, of the same type.
    """
    depth = a.shape[-1]
    if out.size * depth <= _FEW or out.dtype.itemsize < 4:
        np.matmul(a, b, out)
    elif _greatest(a) * _greatest(b) * depth < _EXACT_WIDE:
        product = np.matmul(a.astype(FLOAT64), b.astype(FLOAT64))
        np.copyto(out, product.astype(np.int64), casting="unsafe")
    elif out.dtype.itemsize == 4 and depth < 2**20:
        _in_halves(a.view(np.uint32), b.view(np.uint32), out.view(np.uint32))
    else:
        np.matmul(a, b, out)


def _greatest(x: Array) -> int:
    """The greatest magnitude in an array that is not empty."""
    return max(int(x.max()), -int(x.min()))


def _in_halves(a: Array, b: Array, out: Array) -> None:
    """The product of 32 bits, from those of the lower 16 and, moved up, those of one lower and one upper half."""
    low_a, low_b = (a & 0xFFFF).astype(FLOAT64), (b & 0xFFFF).astype(FLOAT64)
    crossed = np.matmul(low_a, (b >> 16).astype(FLOAT64))
    crossed = crossed + np.matmul((a >> 16).astype(FLOAT64), low_b)
    high = np.asarray(crossed.astype(np.uint64).astype(np.uint32))
    np.copyto(out, np.matmul(low_a, low_b).astype(np.uint64), casting="unsafe")
    np.left_shift(high, 16, high)
    np.add(out, high, out)
