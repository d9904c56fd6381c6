"""QuantizeLinear and DequantizeLinear against their formulas, written here with a scale for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.evaluator.kernels.harness import run, typed
from tests.evaluator.kernels.one_node import by_both


def of(number: int) -> Any:
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


INTEGERS: dict[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT2: (0, 3),
    TensorProto.INT2: (-2, 1),
}
FLOATS = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT4E2M1)
WIDE = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
SHAPE = (3, 5, 4)
LAYOUTS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((1,), {}),
    ((5,), {"axis": -2}),
    ((4,), {"axis": 2}),
    ((3, 3, 4), {"axis": 1, "block_size": 2}),
    ((3, 5, 2), {"axis": -1, "block_size": 2}),
    ((1, 5, 4), {"axis": 0, "block_size": 3}),
]


def for_each(value: Any, layout: dict[str, int], shape: tuple[int, ...] = SHAPE) -> Any:
    """*value* as float64 for each element of the tensor."""
    value = value.astype(np.float32).astype(np.float64)
    axis = layout.get("axis", 1)
    if "block_size" in layout:
        return np.take(np.repeat(value, layout["block_size"], axis), range(shape[axis]), axis)
    if value.size == 1:
        return np.broadcast_to(value.reshape(()), shape)
    line = [1] * len(shape)
    line[axis] = -1
    return np.broadcast_to(value.reshape(line), shape)


@pytest.mark.parametrize(("scales", "layout"), LAYOUTS)
@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("number", WIDE)
@pytest.mark.parametrize("precision", [None, TensorProto.FLOAT, TensorProto.FLOAT16])
def test_quantize(
    scales: tuple[int, ...], layout: dict[str, int], kind: int, number: int, precision: int | None
) -> None:
    """Since opset 23 the scale's type, or ``precision``, is where the quotient is rounded."""
    rng = np.random.default_rng(kind + number)
    low, high = INTEGERS.get(kind, (-8, 8))
    x = (rng.standard_normal(SHAPE) * min(high, 9000)).astype(of(number))
    scale = np.asarray(rng.random(scales) + 0.7).astype(of(number))
    divided = of(precision or number)
    with np.errstate(over="ignore"):
        quotient = x.astype(divided) / for_each(scale, layout).astype(divided)
        quotient = quotient.astype(np.float32).astype(np.float64)
    extra: dict[str, int] = {} if precision is None else {"precision": precision}
    if kind in INTEGERS:
        zero = rng.integers(low, high + 1, scales).astype(np.int32).astype(of(kind))
        actual = run("QuantizeLinear", x, scale, zero, opset=25, **layout, **extra)
        expected = np.clip(np.rint(quotient) + for_each(zero, layout), low, high)
    else:
        actual = run("QuantizeLinear", x, scale, opset=25, output_dtype=kind, **layout, **extra)
        expected = quotient.astype(np.float32).astype(of(kind)).astype(np.float64)
    assert actual.dtype == of(kind)
    np.testing.assert_array_equal(actual.astype(np.float32), expected)


@pytest.mark.parametrize(("scales", "layout"), LAYOUTS)
@pytest.mark.parametrize("kind", [*INTEGERS, TensorProto.FLOAT8E5M2, TensorProto.FLOAT4E2M1])
@pytest.mark.parametrize("number", WIDE)
def test_dequantize(
    scales: tuple[int, ...], layout: dict[str, int], kind: int, number: int
) -> None:
    rng = np.random.default_rng(kind + number)
    low, high = INTEGERS.get(kind, (-5, 5))
    x = rng.integers(low, high + 1, SHAPE).astype(np.float32).astype(of(kind))
    zero = rng.integers(low, high + 1, scales) * (kind in INTEGERS)
    zero = np.asarray(zero).astype(np.float32).astype(of(kind))
    scale = np.asarray(rng.random(scales)).astype(of(number))
    actual = run("DequantizeLinear", x, scale, zero, opset=25, **layout)
    exact = (for_each(x, {"axis": 0, "block_size": 1}) - for_each(zero, layout)).astype(np.float32)
    expected = (exact * for_each(scale, layout).astype(np.float32)).astype(of(number))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_vector_in_blocks(op_type: str) -> None:
    """A scale of rank 1 for a tensor of rank 1 may be one for each block."""
    x = np.arange(5, dtype=np.float32 if op_type == "QuantizeLinear" else np.uint8)
    zero = np.array([1, 2], np.uint8)
    scale = np.array([0.5, 2], np.float32)
    ours, theirs = by_both(op_type, x, scale, zero, opset=21, axis=0, block_size=3)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("size", [7, 40000, 70001])
@pytest.mark.parametrize("zero", [0, 3, 100])
def test_halves_and_numbers_out_of_range(dtype: Any, size: int, zero: int) -> None:
    """Halves go to even, infinities to the ends, what is no number to the least value."""
    special = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -2.5, 1e30], np.float32)
    x = np.random.default_rng(size).integers(-600, 600, size).astype(np.float32) / 2
    x[:7] = special
    inputs = (x, typed.float32(1), np.array(zero, dtype))
    ours, theirs = by_both("QuantizeLinear", *inputs, opset=21)
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_types_that_are_no_result() -> None:
    with pytest.raises(ValueError, match="cannot quantise to int32"):
        run("QuantizeLinear", np.ones(2, np.float32), typed.float32(1), typed.int32(0))
