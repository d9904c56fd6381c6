"""Checks what a caller feeds before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TypeProto

from onnx_notebook_profiler.errors import FeedError
from onnx_notebook_profiler.model import LoadedModel, graph_inputs, shorten

__all__ = ["FeedCheck"]


class FeedCheck:
    """What the inputs of a model take, made once for all runs."""

    def __init__(self, model: LoadedModel) -> None:
        graph = model.proto.graph
        self._declared = {value.name: value.type for value in graph.input}
        self._required = [
            value.name
            for value in graph_inputs(graph)
            if value.type.WhichOneof("value") != "optional_type"
        ]
        self._plain = {name: _plain_tensor(kind) for name, kind in self._declared.items()}

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The feeds in their own order, tensors as C-contiguous numpy arrays.

        Raises:
            FeedError: A name is missing or unknown, or a value has another type, rank or fixed dimension than the
                input declares.
        """
        if not isinstance(feeds, Mapping):
            raise FeedError(
                f"feeds are a mapping from input name to value, such as {{'x': array}}; found {type(feeds).__name__}"
            )
        declared = self._declared
        for name in feeds:
            if name not in declared:
                close = difflib.get_close_matches(name, declared, 1)
                hint = f"; did you mean {shorten(close[0])}?" if close else ""
                raise FeedError(
                    f"the model has no input {shorten(str(name))}: its inputs are {_names(declared)}{hint}"
                )
        for name in self._required:
            if name not in feeds:
                raise FeedError(
                    f"input {shorten(name)} is not fed: expected {_names(declared)}, "
                    f"found {_names(feeds) or 'nothing'}"
                )
        return {name: self._checked(name, value) for name, value in feeds.items()}

    def _checked(self, name: str, value: Any) -> Any:
        plain = self._plain[name]
        if plain is not None and type(value) is np.ndarray and value.dtype == plain[0]:
            fits = plain[1] is None or (
                len(plain[1]) == value.ndim and all(map(_fits, plain[1], value.shape))
            )
            if fits and value.flags.c_contiguous:
                return value
        return _checked(name, value, self._declared[name])


def _fits(declared: int, size: int) -> bool:
    return declared in (0, size)


def _plain_tensor(kind: TypeProto) -> tuple[np.dtype[Any], tuple[int, ...] | None] | None:
    """Element type and dimensions (0: any) of a tensor of numbers; None for what takes a closer look."""
    if kind.WhichOneof("value") != "tensor_type":
        return None
    code, tensor = kind.tensor_type.elem_type, kind.tensor_type
    if code in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    shape = tuple(max(0, dim.dim_value) for dim in tensor.shape.dim)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    return dtype, shape if tensor.HasField("shape") else None


def _names(mapping: Mapping[str, Any], limit: int = 12) -> str:
    names = [shorten(str(name)) for name in mapping]
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest


def _checked(name: str, value: Any, kind: TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return None if value is None else _checked(name, value, kind.optional_type.elem_type)
    if which == "sequence_type":
        if not isinstance(value, list | tuple):
            raise FeedError(
                f"input {shorten(name)} is a sequence: expected a list, found {type(value).__name__}"
            )
        return [_checked(name, one, kind.sequence_type.elem_type) for one in value]
    if which is None and (value is None or isinstance(value, list | tuple)):
        # A function or a node says nothing of its inputs: an absent optional value, a sequence.
        return value if value is None else [_checked(name, one, kind) for one in value]
    if which == "map_type":
        return _map(name, value, kind.map_type)
    if which not in (None, "tensor_type"):
        return value
    return _tensor(name, value, kind.tensor_type)


def _map(name: str, value: Any, kind: TypeProto.Map) -> dict[Any, Any]:
    """The map with numbers of its declared type, which its values as Python has them do not tell."""
    if not isinstance(value, Mapping):
        raise FeedError(
            f"input {shorten(name)} is a map: expected a dict, found {type(value).__name__}"
        )
    texts = kind.key_type == TensorProto.STRING
    for key in value:
        if isinstance(key, str) != texts:
            raise FeedError(
                f"input {shorten(name)} is a map from {'strings' if texts else 'integers'}, "
                f"the value fed has the key {shorten(repr(key))}"
            )
    code = kind.value_type.tensor_type.elem_type
    if kind.value_type.WhichOneof("value") != "tensor_type" or code == TensorProto.UNDEFINED:
        return dict(value)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    return {key: _of_map(name, one, dtype) for key, one in value.items()}


def _of_map(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray):
        return value
    text = isinstance(value, str)
    broken = dtype.kind in "iu" and not text and not float(value).is_integer()
    if text != (dtype.kind in "OUS") or broken:
        raise FeedError(
            f"input {shorten(name)} is a map to {'strings' if dtype.kind in 'OUS' else dtype}, "
            f"the value fed has {shorten(repr(value))}"
        )
    return value if text else dtype.type(value)


def _tensor(name: str, value: Any, kind: TypeProto.Tensor) -> np.ndarray[Any, Any]:
    code = kind.elem_type
    expected = None
    if code not in (TensorProto.UNDEFINED, TensorProto.STRING):
        expected = onnx.helper.tensor_dtype_to_np_dtype(code)
    if not isinstance(value, np.ndarray):
        if not isinstance(value, bool | int | float | complex | str | np.generic):
            raise FeedError(
                f"input {shorten(name)} is a tensor: expected a numpy array, found {type(value).__name__}. "
                f"Convert it with numpy.asarray"
            )
        value = np.asarray(value, None if isinstance(value, np.generic) else expected)
    text = value.dtype.kind in "OUS"
    if (code == TensorProto.STRING and not text) or (
        expected is not None and value.dtype != expected
    ):
        raise FeedError(
            f"input {shorten(name)} has type {expected or 'string'}, the value fed is {value.dtype}: "
            f"convert it with astype"
        )
    if kind.HasField("shape"):
        _check_shape(name, value, kind)
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _check_shape(name: str, value: np.ndarray[Any, Any], kind: TypeProto.Tensor) -> None:
    dims = kind.shape.dim
    shown = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]
    if value.ndim != len(dims):
        raise FeedError(
            f"input {shorten(name)} has rank {len(dims)} {shown}, the value fed has rank {value.ndim} "
            f"{list(value.shape)}"
        )
    for axis, (dim, size) in enumerate(zip(dims, value.shape, strict=True)):
        if dim.HasField("dim_value") and dim.dim_value > 0 and dim.dim_value != size:
            raise FeedError(
                f"input {shorten(name)} has shape {shown}: dimension {axis} must be {dim.dim_value}, "
                f"the value fed has {size} {list(value.shape)}"
            )
