"""What several kernels need: checked operands, broadcasting, axes, and types to compute in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec

__all__ = [
    "BLOCK",
    "BOOL",
    "FLOAT32",
    "FLOAT64",
    "INT64",
    "Elementwise",
    "broadcast_shape",
    "chosen_bits",
    "element_type",
    "given",
    "in_blocks",
    "integers",
    "keep_where",
    "normalized_axes",
    "normalized_axis",
    "operands",
    "same_type",
    "signature",
    "truncated_divide",
    "work_type",
]

BOOL: Final = np.dtype(np.bool_)
INT64: Final = np.dtype(np.int64)
FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)

BLOCK: Final = 16384
"""Elements that a formula of several steps handles at a time: its temporaries stay in the cache."""

_NUMPY_OWN: Final = frozenset("?bBhHiIlLqQfdFDO")


def element_type(number: int) -> np.dtype[Any]:
    """The numpy type of an element type of ``TensorProto``; strings are Python objects.

    Raises:
        ValueError: The number names no element type.
    """
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except KeyError as error:
        raise ValueError(f"{number} is no element type of TensorProto") from error


BFLOAT16: Final = element_type(TensorProto.BFLOAT16)


def work_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Where sums and formulas of several steps are computed: float32 for narrower floats."""
    return dtype if dtype.char in _NUMPY_OWN else FLOAT32


def given(values: Sequence[Any], position: int) -> Any:
    """An optional input or output; None where the node leaves it out or ends before it."""
    return values[position] if position < len(values) else None


def operands(spec: NodeSpec, inputs: Sequence[Array | None], count: int) -> list[Array]:
    """The first *count* inputs, all of which the operator needs.

    Raises:
        ValueError: One is missing.
    """
    found = [value for value in inputs[:count] if value is not None]
    if len(found) < count:
        raise ValueError(f"{spec.op_type} needs {count} inputs, got {len(found)}")
    return found


def same_type(spec: NodeSpec, values: Sequence[Array]) -> np.dtype[Any]:
    """The element type that all *values* have.

    Raises:
        ValueError: They differ.
    """
    dtype = values[0].dtype
    for value in values:
        if value.dtype != dtype:
            raise ValueError(
                f"{spec.op_type} expects inputs of one type, got {dtype} and {value.dtype}"
            )
    return dtype


def broadcast_shape(spec: NodeSpec, values: Sequence[Array]) -> tuple[int, ...]:
    """The common shape under numpy's rules.

    Raises:
        ValueError: The shapes do not broadcast; the message lists them.
    """
    try:
        return np.broadcast_shapes(*(value.shape for value in values))
    except ValueError as error:
        shapes = " and ".join(str(value.shape) for value in values)
        raise ValueError(f"{spec.op_type}: the shapes {shapes} do not broadcast") from error


def normalized_axis(spec: NodeSpec, axis: int, rank: int) -> int:
    """*axis* counted from the front.

    Raises:
        ValueError: A tensor of *rank* dimensions has no such axis.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"{spec.op_type}: axis {axis} does not exist in a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def normalized_axes(spec: NodeSpec, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """*axes* counted from the front, in the given order.

    Raises:
        ValueError: One does not exist, or comes twice.
    """
    found = tuple(normalized_axis(spec, axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise ValueError(f"{spec.op_type}: an axis comes twice in {list(axes)}")
    return found


def integers(inputs: Sequence[Array | None], position: int) -> list[int] | None:
    """The values of an input that lists integers; None where the node has no such input."""
    value = inputs[position] if position < len(inputs) else None
    if value is None:
        return None
    return [int(item) for item in value.reshape(-1).tolist()]


def truncated_divide(a: Array, b: Array | int, out: Array) -> None:
    """Integer quotient rounded toward zero; numpy's own rounds toward minus infinity."""
    if out.dtype.kind == "u":
        np.floor_divide(a, b, out)
    else:
        np.fmod(a, b, out)
        np.subtract(a, out, out)
        np.floor_divide(out, b, out)


def chosen_bits(mask: Array, itemsize: int) -> Array:
    """All bits set where *mask* is true, none elsewhere, in signed integers of *itemsize* bytes.

    numpy's masked operations take ten times as long where a mask has no pattern.
    """
    bits: Array = mask.view(np.int8).astype(f"i{itemsize}")
    return np.negative(bits, out=bits)


def keep_where(mask: Array, values: Array) -> None:
    """Set *values* to zero where *mask*, of the same shape, is false."""
    bits = chosen_bits(mask, values.itemsize)
    view = values.view(bits.dtype)
    np.bitwise_and(view, bits, view)


def signature(inputs: Sequence[Array | None], first: int) -> tuple[Any, ...]:
    """A key that tells apart the inputs from *first* on: their types and contents."""
    return tuple(
        None if value is None else (value.dtype.char, value.tobytes()) for value in inputs[first:]
    )


def in_blocks(formula: Callable[[Array, Array], None], x: Array, out: Array) -> None:
    """Apply *formula*, from a flat input to a flat output of its type, block by block.

    float32 and float64 are handed on as they are, narrower floats as float32, integers as float64. Where *out* is *x*
    the formula reads a copy of each block.
    """
    source, target = x.reshape(-1), out.reshape(-1)
    dtype = source.dtype
    if dtype.char in "fd" and x is out:
        for start in range(0, source.size, BLOCK):
            part = target[start : start + BLOCK]
            formula(part.copy(), part)
        return
    if dtype.char in "fd":
        if source.size <= BLOCK:
            formula(source, target)
            return
        for start in range(0, source.size, BLOCK):
            formula(source[start : start + BLOCK], target[start : start + BLOCK])
        return
    wide = FLOAT64 if dtype.kind in "iu" else FLOAT32
    for start in range(0, source.size, BLOCK):
        block = source[start : start + BLOCK].astype(wide)
        result = np.empty_like(block)
        formula(block, result)
        np.copyto(target[start : start + BLOCK], result, casting="unsafe")


class Elementwise(Kernel):
    """One output that has the broadcast shape and the type of all inputs."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One output: the shape to which the inputs broadcast, and their type."""
        values = operands(self.spec, inputs, max(1, len(inputs)))
        dtype = same_type(self.spec, values)
        return (TensorSpec(broadcast_shape(self.spec, values), self.result_type(dtype)),)

    def result_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The output's type for inputs of type *dtype*."""
        return dtype
