"""Which operators pass on what small tensors hold, where it is made of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.symbolic import folding
from onnx_notebook_profiler.symbolic.contents import NotExact, combined, is_float, truncated
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shape_call import Call

__all__ = ["content_of_results"]

_ARITHMETIC: Final = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Sum", "Neg", "Abs", "Floor", "Ceil"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
        *("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"),
    }
)
_WIDE_INTEGERS: Final = frozenset({6, 7, 12, 13})
_KEPT: Final = frozenset({1, 6, 7, 11, 12, 13})
"""Types in which expressions are followed: integers of 32 and 64 bits, and float32 and float64."""


def content_of_results(call: Call) -> Sequence[Array | None]:
    """What each output holds, as numbers or expressions; None where it is not known, or too much."""
    if call.domain != "":
        return ()
    op_type = call.op_type
    if op_type in _OF_SHAPES:
        return (_OF_SHAPES[op_type](call),)
    if op_type not in _ARITHMETIC and op_type != "Cast" and not folding.is_mover(call):
        return ()
    contents = [None if one is None else call.inference.content(one) for one in call.node.inputs]
    if not any(one is not None and one.dtype == object for one in contents):
        return ()  # nothing is made of dimensions: numbers alone have been computed already
    if folding.is_mover(call):
        return [_plain(one) for one in folding.moved(call, contents) or ()]
    return (_computed(call, contents),)


def _computed(call: Call, contents: Sequence[Array | None]) -> Array | None:
    if call.op_type == "Cast":
        return _cast(call, contents[0])
    if call.op_type.startswith("Reduce"):
        return _reduced(call, contents)
    known = [one for one in contents if one is not None]
    code = int(call.dtype(0) or 0)
    if len(known) < len(contents) or code not in _KEPT:
        return None
    return _plain(combined(call.op_type, known, call.attributes, code))


def _objects(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), object)
    for number, value in enumerate(values):
        found[number] = value
    return found


def _plain(content: Array | None) -> Array | None:
    """*content* as int64 where it is all integers; None where it is large."""
    if content is None or content.size > folding.MOST_ELEMENTS or content.dtype != object:
        return content
    flat = content.reshape(-1).tolist()
    if not all(isinstance(one, int) or (isinstance(one, Expr) and one.is_constant) for one in flat):
        return content
    numbers = [one if isinstance(one, int) else one.value for one in flat]
    return np.array(numbers, np.int64).reshape(content.shape)


def _shape(call: Call) -> Array | None:
    shape = call.shape(0)
    start, end = call.attributes.get("start", 0), call.attributes.get("end")
    return _plain(_objects(shape[start:end]))


def _reshaped(call: Call) -> Array | None:
    content = call.content(0)
    shape = call.inference.sizes.read(call.node.outputs[0].shape)
    if content is None or shape is None or not all(size.is_constant for size in shape):
        return None
    return content.reshape([size.value for size in shape])


def _size(call: Call) -> Array | None:
    return _plain(_objects([Expr.product(call.shape(0))]).reshape(()))


def _cast(call: Call, content: Array | None) -> Array | None:
    source, target = int(call.dtype(0) or 0), int(call.attributes.get("to", 0))
    if content is None or source not in _KEPT or target not in _KEPT:
        return None
    if target not in _WIDE_INTEGERS or not is_float(source):
        return content
    try:
        flat = [
            truncated(one) if not isinstance(one, (int, float)) else int(one)
            for one in content.reshape(-1).tolist()
        ]
    except NotExact:
        return None
    return _plain(_objects(flat).reshape(content.shape))


def _reduced(call: Call, contents: Sequence[Array | None]) -> Array | None:
    data, code = contents[0], int(call.dtype(0) or 0)
    if data is None or code not in _KEPT:
        return None
    attributes = dict(call.attributes)
    axes = call.listed(1, "axes")
    if axes is not None:
        attributes["axes"] = axes
    if not axes:
        if attributes.get("noop_with_empty_axes", 0):
            return data
        attributes.pop("axes", None)
    return _plain(combined(call.op_type, [data], attributes, code))


_OF_SHAPES: Final[Mapping[str, Callable[[Call], Array | None]]] = {
    "Shape": _shape,
    "Size": _size,
    **dict.fromkeys(
        ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), _reshaped
    ),
}
"""Operators whose results follow from a shape, or are the input in another one."""
