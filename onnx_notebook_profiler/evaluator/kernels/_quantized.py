"""Rounding to quantised integers and back, element by element in blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._convert import CastRules, convert
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64

__all__ = ["INTEGER_RANGES", "Parts", "dequantize", "parts_of", "quantize", "requantize", "scalar"]

_BLOCK: Final = 2**15

INTEGER_RANGES: Final[dict[str, tuple[int, int]]] = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int32": (-(2**31), 2**31 - 1),
}
"""The least and the greatest value of each quantised integer type."""

Parts = list[tuple[tuple[slice, ...], tuple[int, ...], Array, Array | None]]
"""Boxes of a tensor, each with the shape to see it in, and the scale and zero point that broadcast to that."""


def scalar(value: Any, default: float = 0) -> float:
    """The number in a tensor of one element; *default* where there is none."""
    return default if value is None else value.reshape(-1)[0].item()


def parts_of(
    shape: tuple[int, ...], scale: Array, zero: Array | None, axis: int, block: int
) -> Parts:
    """How scale and zero point apply to a tensor of *shape*: as one number, along *axis*, or in blocks along it.

    Raises:
        ValueError: They do not fit.
    """
    whole = tuple(slice(0, size) for size in shape)
    if scale.size == 1:
        one = None if zero is None else zero.reshape(())
        return [(whole, shape, scale.reshape(()), one)]
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} does not exist in a tensor of rank {len(shape)}")
    axis %= len(shape)
    if scale.ndim == 1:
        if scale.shape[0] != shape[axis]:
            raise ValueError(f"{scale.shape[0]} scales for axis {axis} of {shape}")
        line = (-1, *[1] * (len(shape) - axis - 1))
        return [(whole, shape, scale.reshape(line), None if zero is None else zero.reshape(line))]
    size, count = shape[axis], scale.shape[axis]
    expected = (*shape[:axis], count, *shape[axis + 1 :])
    if scale.shape != expected or not block or count != -(-size // block):
        raise ValueError(
            f"scales {scale.shape} do not fit {shape} in blocks of {block} along axis {axis}"
        )
    return list(_blocked(shape, scale, zero, axis, block))


def _blocked(
    shape: tuple[int, ...], scale: Array, zero: Array | None, axis: int, block: int
) -> Iterator[Any]:
    full = shape[axis] // block
    for start, stop, length in ((0, full, block), (full, scale.shape[axis], shape[axis] % block)):
        if start == stop or not length:
            continue
        box = [slice(0, size) for size in shape]
        box[axis] = slice(start * block, min(shape[axis], stop * block))
        seen = (*shape[:axis], stop - start, length, *shape[axis + 1 :])
        pick = (*[slice(None)] * axis, slice(start, stop))
        narrow = (*shape[:axis], stop - start, 1, *shape[axis + 1 :])
        yield (
            tuple(box),
            seen,
            scale[pick].reshape(narrow),
            None if zero is None else zero[pick].reshape(narrow),
        )


def _rows(arrays: Sequence[Array], shape: tuple[int, ...]) -> Iterator[list[Array]]:
    """Pieces of *arrays*, all of which broadcast to *shape*, along the leading axes; at most a block of elements."""
    if math.prod(shape) <= _BLOCK or not shape:
        yield list(arrays)
        return
    inner = math.prod(shape[1:])
    height = max(1, _BLOCK // max(inner, 1))
    for start in range(0, shape[0], height):
        pieces = []
        for array in arrays:
            spans = array.ndim == len(shape) and array.shape[0] > 1
            pieces.append(array[start : start + height] if spans else array)
        if height == 1 and inner > _BLOCK:
            tail = [piece[0] if piece.ndim == len(shape) else piece for piece in pieces]
            yield from _rows(tail, shape[1:])
        else:
            yield pieces


def requantize(x: Array, out: Array, zero: Any, low: float, high: float) -> None:
    """Round *x*, which is overwritten, half to even, add *zero*, bring it into [low, high] and write it to *out*."""
    np.rint(x, x)
    if not (isinstance(zero, int | float) and zero == 0):
        np.add(x, zero, x)
    np.maximum(x, low, out=x)
    np.minimum(x, high, out=x)
    if out.dtype.char in "bBhHiI":
        np.copyto(out, x, casting="unsafe")
    else:
        np.copyto(out, x.astype(np.int8 if low < 0 else np.uint8), casting="unsafe")


def quantize(x: Array, out: Array, parts: Parts, wide: np.dtype[Any], rules: CastRules) -> None:
    """Out = saturate(round(x / scale) + zero point), computed in *wide*."""
    bounds = INTEGER_RANGES.get(out.dtype.name)
    for piece_of, shape, scale, zero in parts:
        box: Any = (*piece_of, ...)  # an array also of a scalar
        factor = scale.astype(wide)
        offset: Any = 0 if zero is None else zero.astype(wide)
        if not isinstance(offset, int) and not offset.any():
            offset = 0
        arrays = [x[box].reshape(shape), out[box].reshape(shape) if len(parts) == 1 else out[box]]
        if len(parts) > 1:
            arrays[1] = np.empty(shape, out.dtype)
        extra = [factor, offset] if not isinstance(offset, int) else [factor]
        for piece, target, by, *shift in _rows([*arrays, *extra], shape):
            value = np.divide(piece, by, dtype=wide, casting="unsafe")
            if value.ndim == 0:
                value = np.asarray(value)
            if bounds is None:
                convert(value, target, rules)
            else:
                requantize(value, target, shift[0] if shift else 0, *bounds)
        if len(parts) > 1:
            out[box] = arrays[1].reshape(out[box].shape)


def dequantize(x: Array, out: Array, parts: Parts, wide: np.dtype[Any]) -> None:
    """Out = (x - zero point) * scale, computed in *wide*."""
    exact = x.dtype.char in "iI"
    for box, shape, scale, zero in parts:
        factor = scale.astype(wide)
        source = x[box].reshape(shape)
        single = len(parts) == 1
        target = out.reshape(shape) if single else np.empty(shape, out.dtype)
        arrays = [source, target, factor]
        if zero is not None and np.any(zero.astype(FLOAT64) != 0):
            arrays.append(zero.astype(np.int64) if exact else zero.astype(wide))
        for piece, into, by, *offset in _rows(arrays, shape):
            value = piece - offset[0] if exact and offset else piece
            if into.dtype == wide:
                np.copyto(into, value, casting="unsafe")
                total = into
            else:
                total = value.astype(wide)
            if offset and not exact:
                np.subtract(total, offset[0], total)
            np.multiply(total, by, total)
            if total is not into:
                np.copyto(into, total, casting="unsafe")
        if not single:
            out[box] = target.reshape(out[box].shape)


def float_type(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Where scales of these types are applied: float64 for itself, else float32."""
    return FLOAT64 if FLOAT64 in dtypes else FLOAT32
