"""Kernels that may write into an input: the same numbers as into a buffer of their own, and no other input touched."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, defs, helper

from onnx_notebook_profiler.evaluator.registry import find_kernel, registrations
from onnx_notebook_profiler.plan.inplace import ELEMENT_WISE
from tests.evaluator.kernels.harness import make_kernel

LATEST = defs.onnx_opset_version()
BROADCASTS_BY_ATTRIBUTE = 7
BOUNDS_ARE_INPUTS = 11
SHAPES = [(5,), (3, 6001), (2, 3, 4)]  # the second one takes more than a block of 16384 elements
ASKING = {"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"}
VARIADIC = {"Max", "Mean", "Min", "Sum"}
TWO = {
    *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "BitShift", "BitwiseAnd"),
    *("BitwiseOr", "BitwiseXor", "PRelu", "CastLike", "ComplexMul", "ComplexMulConj"),
    *(ASKING - {"IsInf", "IsNaN"}),
}
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "BitShift": [{"direction": "LEFT"}, {"direction": "RIGHT"}],
    "Celu": [{}, {"alpha": 0.3}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "IsInf": [{}, {"detect_negative": 0}],
    "LeakyRelu": [{}, {"alpha": 2.0}, {"alpha": -0.5}, {"alpha": 0.0}],
    "Mod": [{"fmod": 1}],
    "Shrink": [{"bias": 0.5, "lambd": 0.4}],
    "Swish": [{}, {"alpha": 1.7}],
}


class Declared(NamedTuple):
    """An operator at an opset whose kernel declares positions."""

    domain: str
    op_type: str
    opset: int
    positions: tuple[int, ...]


# test_rows_in_place.py has those that are not element-wise
BY_ROWS = {
    *("BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "GroupNormalization"),
    *("InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization"),
    *("RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "SwiGLU", "RotaryEmbedding", "NGramRepeatBlock"),
}


def positions_of(kernel: Any) -> tuple[int, ...]:
    """What the class declares; an adopting kernel has no buffers to overwrite."""
    positions: tuple[int, ...] = getattr(kernel, "in_place", ())
    return positions


def declared() -> list[Declared]:
    """All of them, as they began and as they are today."""
    found = set()
    for entry in registrations():
        if entry.op_type in BY_ROWS:
            continue
        if entry.domain in ("", "com.microsoft") and positions_of(entry.kernel):
            for opset in (entry.since_version, 1 if entry.domain else LATEST):
                kernel = find_kernel(entry.domain, entry.op_type, opset)
                found.add(Declared(entry.domain, entry.op_type, opset, positions_of(kernel)))
    return sorted(found)


ALL = declared()


def types_of(one: Declared, position: int) -> list[np.dtype[Any]]:
    """The types that the schema allows for an input."""
    if one.domain:
        return [np.dtype(name) for name in ("float16", "float32", "float64")]
    formal = defs.get_schema(one.op_type, one.opset, one.domain).inputs
    allowed = formal[min(position, len(formal) - 1)].types
    found = []
    for name, number in TensorProto.DataType.items():
        plain = name.lower()
        if f"tensor({plain})" in allowed and plain != "string":
            found.append(np.dtype(helper.tensor_dtype_to_np_dtype(number)))
    return found


def values(
    shape: tuple[int, ...], dtype: np.dtype[Any], seed: str, *, nonzero: bool = False
) -> Any:
    """Numbers of either sign, with infinities and NaN in among the floats."""
    rng = np.random.default_rng(zlib.crc32(f"{shape}{dtype}{seed}".encode()))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu" or "int" in dtype.name:
        low, high = (0, 3) if dtype.name in ("int2", "int4") else (-9, 9)
        found = rng.integers(
            0 if "u" in dtype.name else low, 3 if "int2" in dtype.name else high, shape
        )
        return (found + (found == 0) if nonzero else found).astype(dtype)
    found = np.asarray(rng.standard_normal(shape) * 2)
    if found.size > 3:
        found.reshape(-1)[:3] = [0, np.inf, -np.inf]
        found.reshape(-1)[-1] = np.nan
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def others(one: Declared, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[list[Any]]:
    """What the other inputs may be: full shapes, rows and scalars."""
    if one.op_type == "BatchNormalization":
        numbers = [abs(values(shape[1:2], dtype, str(n))) for n in range(4)]
        yield [
            np.nan_to_num(number.astype(np.float64), posinf=2).astype(dtype) for number in numbers
        ]
    elif one.op_type == "Clip":
        low, high = np.array(-1 if dtype.kind != "u" else 1, dtype), np.array(2, dtype)
        if one.opset >= BOUNDS_ARE_INPUTS:
            yield from ([low, high], [low], [None, high], [])
        else:
            yield []
    elif one.op_type == "Where":
        for size in (shape, shape[-1:], ()):
            for mask in (shape, shape[-1:]):
                yield [values(mask, np.dtype(bool), "m"), values(size, dtype, "o")]
    elif one.op_type in VARIADIC:
        yield []
        if one.opset < 8:  # no broadcasting yet
            yield [values(shape, dtype, "o")]
            return
        yield [values(shape[-1:], dtype, "o")]
        yield [values((), dtype, "o"), values(shape, dtype, "p")]
        yield [values(shape, dtype, "o"), values(shape[-1:], dtype, "p")]
    elif one.op_type in TWO:
        tail = shape[-2:] if one.domain else shape[-1:]
        sizes = {shape, tail} if one.domain else {shape, tail, ()}
        for size in sorted(sizes):
            yield [values(size, dtype, "o", nonzero=True)]
            if one.op_type == "Pow" and one.opset >= 12:
                yield [values(size, np.dtype(np.int64), "p")]
                yield [np.full((), 2, dtype)]
    else:
        yield []


def attributes_of(one: Declared, dtype: np.dtype[Any], *, broadcasts: bool) -> list[dict[str, Any]]:
    """The attributes to try."""
    if one.op_type == "Cast":
        number = helper.np_dtype_to_tensor_dtype(dtype)
        return [{"to": number if one.opset > 5 else TensorProto.DataType.Name(number)}]
    if one.op_type == "Clip" and one.opset < BOUNDS_ARE_INPUTS:
        return [{"min": -1.0, "max": 1.5}, {"min": 0.0}, {"max": 0.0}, {}]
    if one.op_type == "BatchNormalization" and one.opset < 7:
        return [{"is_test": 1}]
    if one.op_type == "Mod" and dtype.kind in "iu":
        return [{}, {"fmod": 1}]
    if one.opset < BROADCASTS_BY_ATTRIBUTE and one.op_type in TWO - {"PRelu"} and broadcasts:
        return [{"broadcast": 1}]
    return ATTRIBUTES.get(one.op_type, [{}])


def arranged(one: Declared, position: int, x: Any, rest: list[Any]) -> list[Any]:
    """The inputs with *x* at *position*."""
    if one.op_type == "Where":
        mask, other = rest
        return [mask, x, other] if position == 1 else [mask, other, x]
    return [*rest[:position], x, *rest[position:]]


def cases(one: Declared, position: int) -> Iterator[tuple[Any, list[Any], int]]:
    """Kernels with inputs, and where in them the input is to be overwritten."""
    for dtype in types_of(one, position):
        for shape in SHAPES:
            if one.domain:
                shape = (*shape, 2)  # noqa: PLW2901 - real and imaginary parts
            if one.op_type == "BatchNormalization" and len(shape) < 2:
                continue
            if one.op_type == "PRelu" and one.opset < BROADCASTS_BY_ATTRIBUTE and len(shape) < 2:
                continue
            x = values(shape, dtype, "x")
            for rest in others(one, shape, dtype):
                full = all(value is None or value.shape == shape for value in rest)
                if one.opset < BROADCASTS_BY_ATTRIBUTE and not full:
                    if position:
                        continue  # A has the shape of the result
                    if one.op_type == "PRelu" and rest[0].size > 1:
                        rest = [values(shape[1:2], dtype, "o")]  # noqa: PLW2901 - a slope per channel
                if position > len(rest) and one.op_type != "Where":
                    continue
                inputs = arranged(one, position, x, rest)
                names = ["" if value is None else f"x{n}" for n, value in enumerate(inputs)]
                for attributes in attributes_of(one, dtype, broadcasts=not full):
                    node = helper.make_node(
                        one.op_type, names, ["y"], domain=one.domain, **attributes
                    )
                    yield make_kernel(node, one.opset), inputs, position


def assert_same_bits(actual: Any, expected: Any, label: Any) -> None:
    """Equal, bit for bit where it is no NaN."""
    if actual.dtype.kind in "fV" and "int" not in actual.dtype.name:
        wide = (actual.astype(np.float64), expected.astype(np.float64))
        np.testing.assert_array_equal(*wide, err_msg=str(label))
    else:
        assert actual.tobytes() == expected.tobytes(), label


@pytest.mark.parametrize(
    ("one", "position"),
    [(one, position) for one in ALL for position in one.positions],
    ids=lambda value: (
        f"{value.op_type}-{value.opset}" if isinstance(value, Declared) else str(value)
    ),
)
def test_output_in_the_place_of_an_input(one: Declared, position: int) -> None:
    tried = 0
    for kernel, inputs, place in cases(one, position):
        (spec,) = kernel.infer(inputs)
        if spec.shape != inputs[place].shape or spec.dtype != inputs[place].dtype:
            continue
        given = [None if value is None else value.copy() for value in inputs]
        expected = np.full(spec.shape, 1, spec.dtype)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel.compute(inputs, [expected])
            kernel.compute(given, [given[place]])
        label = (one, spec, [None if value is None else value.shape for value in inputs])
        assert_same_bits(given[place], expected, label)
        for number, (value, before) in enumerate(zip(given, inputs, strict=True)):
            if number != place and value is not None:
                assert value.tobytes() == before.tobytes(), label
        tried += 1
    natural = np.dtype(bool) in types_of(one, position) or one.op_type not in ASKING
    assert bool(tried) == natural


def test_every_element_wise_operator_declares_its_natural_inputs() -> None:
    found = {one.op_type for one in ALL if not one.domain}
    assert found >= ELEMENT_WISE
    for entry in registrations():
        if entry.domain == "" and entry.op_type in ELEMENT_WISE:
            assert positions_of(entry.kernel), entry
