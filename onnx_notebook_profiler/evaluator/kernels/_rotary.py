"""Rotary position embedding: pairs of numbers turned by the angles of their position.

Su et al., RoFormer (2021). Scratch: blocks of 128 thousand numbers, or one position where it has more; cosines and
sines of all positions, as wide as a head.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._rows import row_type

__all__ = ["angles_at", "rotate"]

_BLOCK: Final = 2**17

_COMPLEX: Final[dict[str, np.dtype[Any]]] = {
    "f": np.dtype(np.complex64),
    "d": np.dtype(np.complex128),
}


def angles_at(cache: Array, places: Array) -> Array:
    """The rows of *cache* [P, R / 2] at *places* [B, S].

    Raises:
        ValueError: A place is not in the cache.
    """
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < cache.shape[0]:
        raise ValueError(
            f"positions go from 0 to {cache.shape[0] - 1}, got {int(places.min())} to {int(places.max())}"
        )
    found: Array = cache[places]
    return found


def rotate(x: Array, out: Array, cos: Array, sin: Array, *, interleaved: bool) -> None:
    """Turn x [B, S, H, D], any view, into *out*, which may be x.

    Args:
        cos, sin: [B or 1, S, R / 2]; the first R of the D numbers are turned, the others copied.
        interleaved: Neighbours are pairs; else a number and the one R / 2 after it.
    """
    batch, length, heads, size = x.shape
    if not x.size:
        return
    turned = 2 * cos.shape[-1]
    if turned < size and out is not x:
        out[..., turned:] = x[..., turned:]
    if turned < size:
        x, out = x[..., :turned], out[..., :turned]
    wide = row_type(x.dtype)
    if interleaved:
        kind = _COMPLEX[wide.char]
        factors = np.empty((1, *cos.shape[:2], 1, turned // 2), kind)
        factors.real, factors.imag = cos[:, :, None], sin[:, :, None]
        turn = _turn_neighbours
    else:
        factors = np.empty((2, *cos.shape[:2], 1, turned), wide)
        halves = factors.reshape(2, *cos.shape[:2], 2, turned // 2)
        halves[0] = cos[:, :, None]
        np.negative(sin, halves[1, :, :, 0], casting="unsafe")
        halves[1, :, :, 1] = sin
        turn = _turn_halves
    one = max(heads * turned, 1)
    items = max(1, _BLOCK // (one * length))
    steps = length if items > 1 else max(1, _BLOCK // one)
    for first in range(0, batch, items):
        own = slice(first, first + items)
        angles = own if cos.shape[0] > 1 else slice(0, 1)
        for start in range(0, length, steps):
            part = slice(start, start + steps)
            turn(x[own, part], out[own, part], factors[:, angles, part], wide)


def _turn_neighbours(x: Array, out: Array, factors: Array, wide: np.dtype[Any]) -> None:
    """As products of complex numbers."""
    kind = factors.dtype
    if x.dtype == wide:
        np.multiply(x.view(kind), factors[0], out.view(kind))
        return
    part = x.astype(wide, order="C").view(kind)
    np.multiply(part, factors[0], part)
    out[...] = part.view(wide)


def _turn_halves(x: Array, out: Array, factors: Array, wide: np.dtype[Any]) -> None:
    """Add x times the cosines to x with its halves exchanged times the sines, minus in the first half."""
    part = x if x.dtype == wide else x.astype(wide)
    other = np.empty_like(part)
    half = np.dtype((np.void, x.shape[-1] // 2 * wide.itemsize))
    np.copyto(other.view(half), part.view(half)[..., ::-1])
    np.multiply(other, factors[1], other)
    target = out if x.dtype == wide else part
    np.multiply(part, factors[0], target)
    np.add(target, other, target)
    if target is not out:
        out[...] = target
