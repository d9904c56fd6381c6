"""Cast and CastLike against exact arithmetic and the tables of the specification."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper, numpy_helper

from tests.evaluator.kernels.harness import run, typed

INF, NAN = math.inf, math.nan
NARROW = {
    "BFLOAT16": 2.0**128,
    "FLOAT8E4M3FN": 480.0,
    "FLOAT8E4M3FNUZ": 256.0,
    "FLOAT8E5M2": 65536.0,
    "FLOAT8E5M2FNUZ": 65536.0,
    "FLOAT16": 65536.0,
}
"""Type: what the next number above the largest finite one would be."""


def number(name: Any) -> Any:
    return getattr(TensorProto, name)


def dtype_of(name: Any) -> Any:
    return helper.tensor_dtype_to_np_dtype(number(name))


@cache
def representable(name: Any) -> Any:
    """The finite values of a type from 0 on, ascending, and the pattern of bits of each."""
    dtype = np.dtype(dtype_of(name))
    codes = np.arange(2 ** (8 * dtype.itemsize - 1)).astype(f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        values = codes.view(dtype).astype(np.float64)
    pairs = {float(v): int(c) for v, c in zip(values, codes, strict=True) if math.isfinite(v)}
    return [*sorted(pairs), NARROW[name]], pairs


def nearest(name: Any, value: Any) -> Any:
    """The number of type *name* nearest to *value* (a Fraction), the even one of two; or None.

    None: rounding to the type's precision leaves its range.
    """
    values, codes = representable(name)
    sign = -1 if value < 0 else 1
    value = abs(value)
    place = bisect_left(values, value)
    near = values[max(0, place - 2) : place + 2]
    best = min(near, key=lambda v: (abs(Fraction(v) - value), v != NARROW[name] and codes[v] & 1))
    if best == NARROW[name]:
        return None
    return sign * best


def midpoints(name: Any) -> Iterator[float]:
    """Ties between neighbours of *name*, and values beside them that only float64 can tell."""
    values, _ = representable(name)
    for place in range(0, len(values) - 1, max(1, len(values) // 60)):
        low, high = values[place : place + 2]
        middle = (low + high) / 2
        yield from (middle, math.nextafter(middle, INF), math.nextafter(middle, -INF))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("sign", [1, -1])
def test_float64_is_rounded_once(name: Any, sign: Any) -> None:
    x = np.array([sign * v for v in midpoints(name)])
    expected = [nearest(name, Fraction(v)) for v in x]
    result = run("Cast", x, to=number(name), saturate=0).astype(np.float64)
    for value, wanted, got in zip(x, expected, result, strict=True):
        if wanted is None:
            assert not math.isfinite(got), value
        else:
            assert got == wanted, value


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E5M2", "FLOAT16"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@given(st.data())
def test_integers_are_rounded_once(name: Any, dtype: Any, data: Any) -> None:
    info = np.iinfo(dtype)
    power = 2 ** data.draw(st.integers(0, info.bits - 1))
    offset = data.draw(st.sampled_from([-1, 0, 1]))
    tie = power + power // 2**8 + offset  # halfway between two bfloat16, or just beside
    value = max(info.min, min(info.max, data.draw(st.sampled_from([tie, -tie, power * 3 // 2]))))
    wanted = nearest(name, Fraction(value))
    got = float(run("Cast", np.array(value, dtype), to=number(name), saturate=0))
    assert got == wanted if wanted is not None else math.isinf(got)


# rows: the value; then what E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ make of it
SATURATED = [
    (0.0, 0, 0, 0, 0),
    (NAN, NAN, NAN, NAN, NAN),
    (INF, 448, 240, 57344, 57344),
    (-INF, -448, -240, -57344, -57344),
    (1e6, 448, 240, 57344, 57344),
    (-1e6, -448, -240, -57344, -57344),
    (460, 448, 240, 448, 448),
]
UNSATURATED = [
    (0.0, 0, 0, 0, 0),
    (NAN, NAN, NAN, NAN, NAN),
    (INF, NAN, NAN, INF, NAN),
    (-INF, NAN, NAN, -INF, NAN),
    (1e6, NAN, NAN, INF, NAN),
    (-1e6, NAN, NAN, -INF, NAN),
    (460, 448, NAN, 448, 448),
]
FLOAT8 = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("saturate", "table"), [(1, SATURATED), (0, UNSATURATED)])
@pytest.mark.parametrize("opset", [19, 24])
def test_the_tables_of_the_specification(dtype: Any, saturate: Any, table: Any, opset: Any) -> None:
    for value, *expected in table:
        for name, wanted in zip(FLOAT8, expected, strict=True):
            if opset == 19 and math.isinf(value) and name.endswith("UZ"):
                wanted = NAN  # noqa: PLW2901 - opset 24 changed this row
            with np.errstate(over="ignore"):
                x = np.array(value).astype(dtype)
            if not np.isfinite(x) and math.isfinite(value):
                continue  # 1e6 in float16
            result = run("Cast", x, opset=opset, to=number(name), saturate=saturate)
            np.testing.assert_equal(float(result), float(wanted))


def test_negative_zero() -> None:
    for name, negative in zip(FLOAT8, [True, False, True, False], strict=True):
        result = run("Cast", typed.float32(-0.0), to=number(name))
        assert math.copysign(1, float(result)) == (-1 if negative else 1)


@pytest.mark.parametrize(
    ("mode", "codes"),
    [
        # 1, 1.25, 1.5, 1.75, 2, 2**-127, 1.25 * 2**-127, 1.5 * 2**-127
        ("up", [127, 128, 128, 128, 128, 0, 1, 1]),
        ("down", [127, 127, 127, 127, 128, 0, 0, 0]),
        ("nearest", [127, 127, 128, 128, 128, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_two(mode: Any, codes: Any, dtype: Any) -> None:
    low = 2.0**-127
    x = np.array([1, 1.25, 1.5, 1.75, 2, low, 1.25 * low, 1.5 * low], dtype)
    result = run("Cast", x, opset=24, to=number("FLOAT8E8M0"), round_mode=mode)
    assert result.view(np.uint8).tolist() == codes


def test_powers_of_two_out_of_range() -> None:
    x = np.array([0, 2.0**-149, 3.4e38, INF, NAN], np.float32)
    to = number("FLOAT8E8M0")
    result = run("Cast", x, opset=24, to=to)
    assert result.view(np.uint8).tolist() == [0, 0, 254, 254, 255]
    result = run("Cast", x, opset=24, to=to, saturate=0, round_mode="nearest")
    assert result.view(np.uint8).tolist() == [255] * 5


def test_a_value_beside_a_power_of_two_is_seen_in_float64() -> None:
    x = np.array([1 + 2.0**-40, 1.5 - 2.0**-40])
    up = run("Cast", x, opset=24, to=number("FLOAT8E8M0"))
    assert up.view(np.uint8).tolist() == [128, 128]
    near = run("Cast", x, opset=24, to=number("FLOAT8E8M0"), round_mode="nearest")
    assert near.view(np.uint8).tolist() == [127, 127]


@pytest.mark.parametrize(
    ("x", "name", "expected"),
    [
        (typed.int16([200, -129, 5]), "INT8", [-56, 127, 5]),  # the first is in the specification
        (typed.int64([2**40 + 7, -1]), "UINT8", [7, 255]),
        (typed.int32([-9, 8, 200, 7]), "INT4", [7, -8, -8, 7]),
        (typed.int64([-1, 16, 2**40 + 3]), "UINT4", [15, 0, 3]),
        (typed.float32([3.9, -3.9, 0.5]), "INT64", [3, -3, 0]),
        (typed.float32([-3.9, 7]), "INT4", [-3, 7]),
        (typed.float64([0.1, -0.0, NAN, 0]), "BOOL", [True, False, True, False]),
        (np.array([True, False]), "FLOAT16", [1, 0]),
        (np.array([True, False]), "BFLOAT16", [1, 0]),
        (np.array([True, False]), "INT4", [1, 0]),
        (typed.float32([70000, -1e30]), "FLOAT16", [INF, -INF]),
        (typed.float64([1e300]), "FLOAT", [INF]),
        (typed.float32([7, -8, INF]), "FLOAT4E2M1", [6, -6, 6]),
    ],
)
def test_numbers_between_types(x: Any, name: Any, expected: Any) -> None:
    result = run("Cast", x, opset=24, to=number(name))
    assert result.dtype == dtype_of(name)
    assert result.astype(np.float64).tolist() == expected


ALL_TYPES = [
    "BFLOAT16", "BOOL", "DOUBLE", "FLOAT", "FLOAT16", "FLOAT4E2M1", *FLOAT8, "INT16", "INT32",
    "INT4", "INT64", "INT8", "UINT16", "UINT32", "UINT4", "UINT64", "UINT8",
]  # fmt: skip


@pytest.mark.parametrize("source", ALL_TYPES)
@pytest.mark.parametrize("target", [*ALL_TYPES, "STRING"])
def test_zero_and_one_survive_every_cast(source: Any, target: Any) -> None:
    x = np.array([[0, 1, 1]]).astype(dtype_of(source))
    result = run("Cast", x, opset=24, to=number(target))
    assert result.shape == (1, 3)
    back = run("Cast", result, opset=24, to=number("INT64"))
    assert back.tolist() == [[0, 1, 1]]


def test_numbers_as_text() -> None:
    x = np.array([314.15926, 1e20, 1e-7, 1, 0.1, NAN, INF, -INF], np.float32)
    assert run("Cast", x, to=number("STRING")).tolist() == [
        "314.15927", "100000000000000000000.0", "0.0000001", "1.0", "0.1", "NaN", "INF", "-INF",
    ]  # fmt: skip
    assert run("Cast", typed.int8([-7, 0]), to=number("STRING")).tolist() == ["-7", "0"]
    assert run("Cast", np.array([True]), to=number("STRING")).tolist() == ["1"]
    assert run("Cast", typed.float16([0.1]), to=number("STRING")).tolist() == ["0.1"]


# the literals of the specification
def test_text_as_numbers() -> None:
    text = np.array(["3.14", "1000", "1e-5", "1E8", "+INF", "inf", "-INF", "nAn"], object)
    expected = np.array([3.14, 1000, 1e-5, 1e8, INF, INF, -INF, NAN])
    for name in ("FLOAT", "DOUBLE"):
        result = run("Cast", text, to=number(name))
        np.testing.assert_array_equal(result, expected.astype(dtype_of(name)))
    text = np.array(["100.5", "-7", "9223372036854775807"], object)
    assert run("Cast", text, to=number("INT64")).tolist() == [100, -7, 2**63 - 1]
    largest = np.array(["18446744073709551615"], object)
    assert run("Cast", largest, to=number("UINT64")).tolist() == [2**64 - 1]
    assert run("Cast", np.array(["0", "2"], object), to=number("BOOL")).tolist() == [False, True]
    same = run("Cast", text, to=number("STRING"))
    assert same.tolist() == text.tolist()
    for other in ("1_000", "\u0663", "", "0x10"):
        for name in ("FLOAT", "INT64", "BOOL"):
            with pytest.raises(ValueError, match="cannot read"):
                run("Cast", np.array([other], object), to=number(name))


@pytest.mark.parametrize(("text", "name"), [("Hello", "FLOAT"), ("inf", "INT32"), ("", "BOOL")])
def test_text_that_is_no_number(text: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        run("Cast", np.array([text], object), to=number(name))


def test_cast_like_takes_the_type_alone() -> None:
    result = run("CastLike", typed.float32([[1.5, 2.5]]), np.zeros(7, np.int8))
    assert result.dtype == np.int8
    assert result.tolist() == [[1, 2]]


def test_what_onnx_itself_makes_of_bfloat16() -> None:
    x = typed.float32([1.0039062, 3.3895314e38, 1e-40, NAN])
    expected = numpy_helper.to_array(helper.make_tensor("t", TensorProto.BFLOAT16, [4], x.tolist()))
    result = run("Cast", x, to=number("BFLOAT16"))
    np.testing.assert_array_equal(result.astype(float), expected.astype(float))


@pytest.mark.parametrize("attributes", [{}, {"to": 999}, {"to": 1, "round_mode": "sideways"}])
def test_unknown_targets_and_modes(attributes: Any) -> None:
    with pytest.raises(ValueError, match=r"0 is no|999|sideways"):
        run("Cast", typed.float32([1]), opset=24, **attributes)
