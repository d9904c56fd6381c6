"""Conversion between element types, with the rounding and saturation that Cast asks for."""

from __future__ import annotations

import math
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from onnx import TensorProto

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    FLOAT32,
    FLOAT64,
    INT64,
    element_type,
)

__all__ = ["CastRules", "convert", "from_strings", "to_strings"]

RoundMode = Literal["up", "down", "nearest"]

# the largest finite value of each float8 type
_FLOAT8: Final[dict[np.dtype[Any], float]] = {
    element_type(TensorProto.FLOAT8E4M3FN): 448.0,
    element_type(TensorProto.FLOAT8E4M3FNUZ): 240.0,
    element_type(TensorProto.FLOAT8E5M2): 57344.0,
    element_type(TensorProto.FLOAT8E5M2FNUZ): 57344.0,
}
_WITHOUT_INFINITY: Final = frozenset(
    {element_type(TensorProto.FLOAT8E4M3FNUZ), element_type(TensorProto.FLOAT8E5M2FNUZ)}
)
_NATIVE: Final = frozenset("?bBhHiIlLqQefd")
_EXACT_IN_FLOAT32: Final = frozenset("?bBhHef")  # and every type that numpy does not know itself

_E8M0: Final = element_type(TensorProto.FLOAT8E8M0)
_E8M0_LARGEST: Final = 254
_E8M0_NAN: Final = 255


class CastRules(NamedTuple):
    """How values that the target cannot hold are treated."""

    saturate: bool = True
    infinity_saturates: bool = True
    """False: saturating types without infinities make NaN of one, as before opset 24."""
    round_mode: RoundMode = "up"
    """Applies to float8e8m0 alone."""


def _double(x: Array) -> Array:
    """*x* as float64 on the same side of every number of 24 bits or less.

    Of 64-bit integers beyond 2**53 the eleven lowest bits become one sticky bit.
    """
    if x.dtype.itemsize == 8 and x.dtype.kind in "iu":
        limit = x.dtype.type(2**53)
        large = x >= limit
        if x.dtype.kind == "i":
            large |= x <= -limit
        if large.any():
            low = x.dtype.type(2047)
            sticky = ((x & low) != 0).astype(x.dtype) << x.dtype.type(11)
            x = np.where(large, (x & ~low) | sticky, x)
    return x.astype(FLOAT64, copy=False)


def _single(x: Array) -> Array:
    """*x* as float32, such that rounding it to a narrower type equals rounding *x* itself.

    Where float32 cannot hold a value, its last bit is set ("round to odd"): the second rounding
    then sees that the value lies beside, and on which side, of what float32 would have made of it.
    """
    if x.dtype.char in _EXACT_IN_FLOAT32 or x.dtype.char not in _NATIVE:
        return x.astype(FLOAT32, copy=False)
    double = _double(x)
    single = double.astype(FLOAT32)
    back = single.astype(FLOAT64)
    bits = single.view(np.uint32)
    even = (back != double) & ~np.isnan(double) & ((bits & np.uint32(1)) == 0)
    toward_zero = np.abs(back) > np.abs(double)
    np.subtract(bits, np.uint32(1), bits, where=even & toward_zero)
    np.add(bits, np.uint32(1), bits, where=even & ~toward_zero)
    return single


def _to_float8(x: Array, out: Array, rules: CastRules) -> None:
    single = _single(x)
    if rules.saturate:
        limit = _FLOAT8[out.dtype]
        clipped = np.clip(single, -limit, limit)
        if not rules.infinity_saturates and out.dtype in _WITHOUT_INFINITY:
            np.copyto(clipped, single, where=np.isinf(single))
        single = clipped
    np.copyto(out, single, casting="unsafe")


def _to_e8m0(x: Array, out: Array, rules: CastRules) -> None:
    """Powers of two from 2**-127 (code 0) to 2**127 (code 254); the sign is dropped."""
    single = np.abs(_single(x))
    bits = single.view(np.uint32)
    mantissa = bits & np.uint32(0x7FFFFF)
    code = (bits >> np.uint32(23)).astype(np.int32)
    tiny = (code == 0) & (mantissa < 0x400000)
    # below 2**-126 float32 has no hidden bit: 2**-127 is half of the mantissa's range
    subnormal = code == 0
    if rules.round_mode == "up":
        code += np.where(subnormal, mantissa > 0x400000, mantissa > 0)
    elif rules.round_mode == "nearest":
        code += np.where(subnormal, mantissa >= 0x600000, mantissa >= 0x400000)
    large = code > _E8M0_LARGEST
    code[tiny] = 0 if rules.saturate else _E8M0_NAN
    code[large] = _E8M0_LARGEST if rules.saturate else _E8M0_NAN
    code[np.isnan(single)] = _E8M0_NAN
    np.copyto(out.view(np.uint8), code, casting="unsafe")


def convert(x: Array, out: Array, rules: CastRules) -> None:
    """Fill *out* with the numbers *x* in its own type; neither holds strings."""
    source, target = x.dtype, out.dtype
    if source == target or (source.char in _NATIVE and target.char in _NATIVE):
        np.copyto(out, x, casting="unsafe")
        return
    flat, result = x.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part, into = flat[start : start + BLOCK], result[start : start + BLOCK]
        if target in _FLOAT8:
            _to_float8(part, into, rules)
        elif target == _E8M0:
            _to_e8m0(part, into, rules)
        elif target.char in _NATIVE or _is_integer(target):
            np.copyto(into, _native(part), casting="unsafe")
        else:
            np.copyto(into, _single(part), casting="unsafe")


def _native(x: Array) -> Array:
    """*x* in a type of numpy's own that holds every value: not all others convert to one another."""
    if x.dtype.char in _NATIVE:
        return x
    return x.astype(np.int8 if _is_integer(x.dtype) else FLOAT32)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    """True for the packed integers int2, uint2, int4 and uint4, and numpy's own."""
    return dtype.kind in "biu" or "int" in dtype.name


def _number_text(value: Any) -> str:
    """Plain notation, as many digits as tell the value from its neighbours."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return np.format_float_positional(value, unique=True, trim="0")


def to_strings(x: Array, out: Array) -> None:
    """Numbers as text: ``314.15926``, ``-7``, ``NaN``, ``-INF``; bool as ``1`` and ``0``."""
    flat, result = x.reshape(-1), out.reshape(-1)
    if _is_integer(x.dtype):
        result[:] = [str(int(value)) for value in flat]
    else:
        exact = flat if x.dtype.char in _NATIVE else flat.astype(FLOAT32)
        result[:] = [_number_text(value) for value in exact]


def _ascii(text: str) -> str:
    """The text itself; Python would read 1_000 and digits of other scripts as well."""
    if "_" in text or not text.isascii():
        raise ValueError("neither plain nor scientific notation")
    return text


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def from_strings(x: Array, out: Array, rules: CastRules) -> None:
    """Text as numbers; fractions are cut off where integers are asked for.

    Raises:
        ValueError: An element is no number.
    """
    read = _integer if _is_integer(out.dtype) and out.dtype.kind != "b" else float
    values = []
    for item in x.reshape(-1).tolist():
        text = item.decode("utf-8") if isinstance(item, bytes) else str(item)
        try:
            values.append(read(_ascii(text)))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"Cast cannot read {text!r} as {out.dtype}") from error
    if read is float:
        numbers = np.array(values, FLOAT64)
    else:
        numbers = np.array([int(value) % 2**64 for value in values], np.uint64).view(INT64)
    convert(numbers.reshape(x.shape), out, rules)
