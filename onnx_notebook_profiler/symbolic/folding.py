"""Runs our own kernels while shapes are inferred: on small known contents, and on shapes that are numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import helper

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array, Kernel, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import BFLOAT16
from onnx_notebook_profiler.evaluator.registry import find_kernel
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shape_call import Call

__all__ = [
    "MOST_ELEMENTS",
    "computed",
    "foldable",
    "is_mover",
    "moved",
    "shapes_of_numbers",
    "type_number",
]

MOST_ELEMENTS: Final = 256
"""Contents of more elements are not followed."""
_MOST_FLOATS: Final = 16
"""Floats are data more often than sizes: only few of them, such as scales, are computed."""

_NOT_FOLDED: Final = frozenset(
    {
        *("If", "Loop", "Scan", "SequenceMap", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
        *("Identity", "Dropout", "DequantizeLinear", "Optional", "OptionalGetElement"),
        *("SequenceConstruct", "SequenceInsert", "SequenceAt", "SequenceErase", "SplitToSequence"),
    }
)
"""Operators with bodies, those whose results are views (their contents pass on unchanged), and makers of sequences."""

_MOVERS: Final = {
    "Concat": None,
    "Expand": (0,),
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Pad": (0, 2),
    "ReverseSequence": (0,),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Slice": (0,),
    "Split": (0,),
    "Tile": (0,),
    "Transpose": (0,),
    "Where": (1, 2),
}
"""Operators that put elements elsewhere and look at none, with the inputs that hold these elements (None: all)."""


def computed(call: Call, inputs: Sequence[Array | None]) -> list[Array] | None:
    """The results of a node whose inputs are known numbers; None where they are large, or no kernel repeats them."""
    kernel = _kernel(call)
    if kernel is None or not getattr(kernel, "repeatable", True):
        return None
    with np.errstate(all="ignore"):
        if isinstance(kernel, AdoptingKernel):
            results = list(kernel.call(inputs))
            return results if all(isinstance(one, np.ndarray) for one in results) else None
        specs = kernel.infer(inputs)
        if any(math.prod(spec.shape) > _limit(spec.dtype) for spec in specs):
            return None
        outputs = [np.empty(spec.shape, spec.dtype) for spec in specs]
        kernel.compute(inputs, outputs)
    return outputs


def moved(call: Call, contents: Sequence[Array | None]) -> list[Array] | None:
    """The results of a node that only moves elements: the kernel moves numbers that stand for expressions."""
    positions = _MOVERS[call.op_type]
    carried = range(len(contents)) if positions is None else positions
    table: list[Any] = []
    inputs: list[Array | None] = []
    for position, content in enumerate(contents):
        if content is None and call.has(position):
            return None
        if position in carried and content is not None:
            places = np.arange(len(table), len(table) + content.size).reshape(content.shape)
            table.extend(content.reshape(-1).tolist())
            inputs.append(places)
        elif content is not None and content.dtype == object:
            return None
        else:
            inputs.append(content)
    if call.op_type == "Pad" and (len(inputs) < 3 or inputs[2] is None):
        inputs[2:3] = [np.array(len(table))]
        table.append(0)
    results = computed(call, inputs)
    return None if results is None else [_looked_up(table, places) for places in results]


def foldable(call: Call, contents: Sequence[Array | None]) -> bool:
    """Whether a node with these contents may be worth computing: integers, or a handful of floats."""
    found = [one for one in contents if one is not None]
    return (
        call.domain == ""
        and call.op_type not in _NOT_FOLDED
        and bool(found)
        and all(one.size <= _limit(one.dtype) and is_number(one.dtype) for one in found)
    )


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements are integers, booleans or floats that kernels compute with."""
    return dtype.kind in "iubf" or dtype == BFLOAT16


def type_number(dtype: np.dtype[Any]) -> int:
    """The TensorProto code of a kernel's type."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def is_mover(call: Call) -> bool:
    """Whether :func:`moved` knows the operator."""
    return call.domain == "" and call.op_type in _MOVERS


def shapes_of_numbers(call: Call) -> Sequence[TensorSpec] | None:
    """What the kernel says of inputs whose shapes are numbers; None where one is not, or a content that it needs."""
    kernel = _kernel(call)
    if not isinstance(kernel, Kernel):
        return None
    inputs: list[Array | None] = []
    for position, value in enumerate(call.node.inputs):
        if value is None:
            inputs.append(None)
            continue
        shape, dtype = call.known_shape(position), value.dtype
        if shape is None or dtype is None or not all(size.is_constant for size in shape):
            return None
        if position in kernel.value_inputs:
            content = call.content(position)
            if content is None or content.dtype == object:
                return None
            inputs.append(content)
            continue
        sizes = tuple(size.value for size in shape)
        inputs.append(np.broadcast_to(np.zeros((), dtype.numpy()), sizes))
    return kernel.infer(inputs)


def _kernel(call: Call) -> Kernel | AdoptingKernel | None:
    found = find_kernel(call.domain, call.op_type, call.opset)
    return None if found is None else found(call.spec)


def _limit(dtype: np.dtype[Any]) -> int:
    return MOST_ELEMENTS if dtype.kind in "iub" else _MOST_FLOATS


def _looked_up(table: list[Any], places: Array) -> Array:
    found = np.empty(places.size, object)
    for number, place in enumerate(places.reshape(-1).tolist()):
        value = table[place]
        found[number] = Expr.constant(value) if isinstance(value, int) else value
    return found.reshape(places.shape)
