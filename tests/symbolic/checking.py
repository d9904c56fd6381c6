"""Compares inferred shapes with those of a real run, every dimension of the inputs a symbol of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, helper

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.symbolic.dims import read_dims
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import Inferred, UnknownSize, ValueType, infer_types

Verdict = Literal["right", "data", "unknown"]


def inferred(model: Any) -> Inferred:
    loaded = load_model(model)
    return infer_types(loaded, read_dims(loaded))


def symbolized(model: ModelProto, feeds: Mapping[str, Any]) -> tuple[ModelProto, dict[str, int]]:
    """A copy whose inputs have a symbol for each dimension, without recorded shapes; and the symbols' true sizes.

    Short integers are sizes, axes and the like: they become constants, as do single numbers.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    sizes: dict[str, int] = {}
    kept = []
    for value in graph.input:
        fed = feeds.get(value.name)
        array = np.asarray(fed) if isinstance(fed, np.ndarray | np.generic | int | float) else None
        if array is None or not value.type.HasField("tensor_type"):
            kept.append(value)
            continue
        if _is_parameter(array):
            code = value.type.tensor_type.elem_type
            graph.initializer.append(
                helper.make_tensor(value.name, code, array.shape, array.tobytes(), raw=True)
            )
            continue
        shape = value.type.tensor_type.shape
        value.type.tensor_type.shape.SetInParent()
        del shape.dim[:]
        for size in array.shape:
            name = f"d{len(sizes)}"
            sizes[name] = size
            shape.dim.add(dim_param=name)
        kept.append(value)
    del graph.input[:]
    graph.input.extend(kept)
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return copy, sizes


def _is_parameter(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype.kind in "OUS":
        return False
    small = array.dtype.kind in "iu" and array.ndim <= 1 and array.size <= 64
    return (small and array.dtype.itemsize >= 4) or array.shape in ((), (1,), (0,))


def verdict(found: Inferred, name: str, actual: Any, sizes: Mapping[str, int]) -> Verdict:
    """Whether the inferred shape of a value is the actual one; a wrong one, or a wrong type, is an AssertionError."""
    kind = found.types.get(name, UnknownSize("it is not there"))
    if isinstance(kind, UnknownSize):
        assert kind.reason, name
        return "unknown"
    array = np.asarray(actual)
    assert len(kind.shape) == array.ndim, (name, list(map(str, kind.shape)), array.shape)
    known, decided = _with_data(found, kind.shape, array.shape, sizes)
    got = tuple(size.evaluate(known) for size in kind.shape)
    assert got == array.shape, (name, list(map(str, kind.shape)), array.shape)
    _check_type(name, kind, array)
    return "data" if decided else "right"


def _with_data(
    found: Inferred, shape: tuple[Expr, ...], actual: tuple[int, ...], sizes: Mapping[str, int]
) -> tuple[dict[str, int], bool]:
    """*sizes* and those that data decided, read off the result and held against their bounds."""
    known = dict(sizes)
    for size, true in zip(shape, actual, strict=True):
        dim = found.data_dims.get(str(size))
        if dim is not None:
            known[dim.name] = true
            assert dim.bound is None or dim.bound.evaluate(sizes) >= true, (dim, true)
    return known, len(known) > len(sizes)


def _check_type(name: str, kind: ValueType, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind in "OUS":
        assert kind.data_type == 8, name
    else:
        assert helper.tensor_dtype_to_np_dtype(kind.data_type) == array.dtype, name
