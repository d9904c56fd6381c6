"""Rounding to quantised integers and back, element by element in blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._convert import CastRules, convert
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64

__all__ = [
    "INTEGER_RANGES",
    "Parts",
    "Rounding",
    "dequantize",
    "float_type",
    "parts_of",
    "pieces",
    "quantize",
    "real",
    "rounded",
    "scalar",
    "store",
]

_BLOCK: Final = 2**15
_MAGIC: Final = 3 * 2**22

INTEGER_RANGES: Final[dict[str, tuple[int, int]]] = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
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
    if scale.ndim == 1 and not (block and len(shape) == 1):
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


def pieces(arrays: Sequence[Array], shape: tuple[int, ...]) -> Iterator[list[Array]]:
    """Pieces of *arrays*, all of which broadcast to *shape*, along the leading axes; at most a block of elements."""
    if math.prod(shape) <= _BLOCK or not shape:
        yield list(arrays)
        return
    inner = math.prod(shape[1:])
    height = max(1, _BLOCK // max(inner, 1))
    for start in range(0, shape[0], height):
        parts = []
        for array in arrays:
            spans = array.ndim == len(shape) and array.shape[0] > 1
            parts.append(array[start : start + height] if spans else array)
        if height == 1 and inner > _BLOCK:
            tail = [piece[0] if piece.ndim == len(shape) else piece for piece in parts]
            yield from pieces(tail, shape[1:])
        else:
            yield parts


class Rounding:
    """Rounds half to even, adds the zero point and saturates; made once for many pieces of one tensor.

    The sum of a number below 2 ** 22 and 3 * 2 ** 22 is rounded to an integer, which its lowest bits hold as they are.
    Where there are many pieces the bounds are arrays: numpy has no fast loop for the greater of an array and a number.
    """

    def __init__(self, dtype: np.dtype[Any], zero: float = 0, *, size: int = 0) -> None:
        low, high = INTEGER_RANGES[dtype.name]
        shift = int(zero)
        self._low, self._high = low - shift, high - shift
        self._odd = shift % 2
        self._magic = _MAGIC + shift - self._odd
        self._bounds: tuple[Array, Array] | None = None
        if size > _BLOCK:
            self._bounds = (
                np.full(_BLOCK, self._low, FLOAT32),
                np.full(_BLOCK, self._high, FLOAT32),
            )
        self._direct = dtype.char in "bBhH"

    def __call__(self, x: Array, out: Array, zeros: Array | None = None) -> None:
        """Fill *out* from the float32 *x*, which is overwritten; not a number becomes the least value.

        Args:
            x: The numbers.
            out: Where their integers go.
            zeros: Zero points that differ, as float32 that broadcasts to x; that of the object is 0 then.
        """
        if zeros is not None:
            np.rint(x, x)
            np.add(x, zeros, x)
        if self._bounds is not None and x.size <= _BLOCK and x.flags.c_contiguous:
            flat = x.reshape(-1)
            low, high = self._bounds
            np.fmax(flat, low[: x.size], out=flat)
            np.fmin(flat, high[: x.size], out=flat)
        else:
            np.fmax(x, self._low, out=x)
            np.fmin(x, self._high, out=x)
        np.add(x, self._magic, x)
        bits = x.view(np.int32)
        if self._odd:
            np.add(bits, 1, bits)
        np.copyto(out, bits if self._direct else bits.astype(np.int8), casting="unsafe")


def rounded(x: Array, out: Array, zero: Any = 0) -> None:
    """Like :class:`Rounding` for a whole tensor; *zero* is a number, or an array that broadcasts to x."""
    if isinstance(zero, np.ndarray):
        if zero.size > 1:
            Rounding(out.dtype)(x, out, zero.astype(FLOAT32))
            return
        zero = scalar(zero)
    if x.size <= _BLOCK or not (x.flags.c_contiguous and out.flags.c_contiguous):
        Rounding(out.dtype, zero)(x, out)
        return
    rounding = Rounding(out.dtype, zero, size=x.size)
    source, target = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        rounding(source[start : start + _BLOCK], target[start : start + _BLOCK])


def quantize(
    x: Array, out: Array, parts: Parts, precision: np.dtype[Any], rules: CastRules
) -> None:
    """Out = saturate(round(x / scale) + zero point); the quotient is rounded to *precision*."""
    if len(parts) == 1:
        _, shape, scale, zero = parts[0]
        _quantize(x.reshape(shape), out.reshape(shape), scale, zero, precision, rules)
        return
    for box, shape, scale, zero in parts:
        target = np.empty(shape, out.dtype)
        _quantize(x[box].reshape(shape), target, scale, zero, precision, rules)
        out[box] = target.reshape(out[box].shape)


def _quantize(
    x: Array,
    out: Array,
    scale: Array,
    zero: Array | None,
    precision: np.dtype[Any],
    rules: CastRules,
) -> None:
    """Scale and zero point broadcast to x; float8 has no zero point."""
    wide = FLOAT64 if precision == FLOAT64 else FLOAT32
    by = scale.astype(precision, copy=False).astype(wide, copy=False)
    number, arrays = 0.0, []
    if zero is not None and not out.dtype.name.startswith("float8"):
        shift = zero.astype(FLOAT32)
        if shift.ndim == 0:
            number = shift.item()
        elif shift.any():
            arrays.append(shift)
    if by.ndim == 0:
        x, out = x.reshape(-1), out.reshape(-1)
    rounding = None
    if out.dtype.name in INTEGER_RANGES:
        rounding = Rounding(out.dtype, number, size=x.size)
    for piece, into, divisor, *offset in pieces([x, out, by, *arrays], x.shape):
        value = _quotient(piece, divisor, precision, wide)
        if rounding is not None:
            value = value if wide == FLOAT32 else np.rint(value).astype(FLOAT32)
            rounding(value, into, *offset)
        else:
            if number or offset:
                np.add(value, offset[0] if offset else number, value)
            convert(value, into, rules)


def _quotient(x: Array, by: Array, precision: np.dtype[Any], wide: np.dtype[Any]) -> Array:
    """X / by as an array of *wide*."""
    if precision == wide:
        return np.asarray(np.divide(x, by, dtype=wide, casting="unsafe"))
    value = np.asarray(np.divide(x.astype(precision).astype(wide), by))
    return value.astype(precision).astype(wide)


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
        for piece, into, by, *offset in pieces(arrays, shape):
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


def real(x: Array, scale: Any, zero: Any) -> Array:
    """(x - zero) * scale as float32; scale and zero are tensors of one element, or None."""
    wide = x.astype(FLOAT32)
    shift = scalar(zero)
    if shift:
        np.subtract(wide, shift, wide)
    np.multiply(wide, np.float32(scalar(scale, 1)), wide)
    return wide


def store(value: Array, y: Array, scale: Any, zero: Any) -> None:
    """Quantise the float32 *value*, which is overwritten."""
    np.divide(value, np.float32(scalar(scale, 1)), value)
    rounded(value, y, scalar(zero))


def float_type(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Where scales of these types are applied: float64 for itself, else float32."""
    return FLOAT64 if FLOAT64 in dtypes else FLOAT32
