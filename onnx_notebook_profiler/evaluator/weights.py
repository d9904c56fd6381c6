"""Loads the constants of a model; external data stays inside the model's folder, and is mapped into memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, numpy_helper
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.plan.graph_plan import Weight

__all__ = ["load_weight"]


def load_weight(tensor: Weight, folder: Path | None) -> Array:
    """The tensor as a C-contiguous array.

    Args:
        folder: Where external data may lie: the folder of the model's file, or None where the model came from memory.

    Raises:
        ModelError: The data is missing, incomplete or outside of *folder*.
    """
    if isinstance(tensor, SparseTensorProto):
        return _dense(tensor)
    if uses_external_data(tensor):
        return _external(tensor, folder)
    try:
        return np.ascontiguousarray(numpy_helper.to_array(tensor)).reshape(tuple(tensor.dims))
    except Exception as error:
        raise ModelError(
            f"initializer {shorten(tensor.name)} with dims {list(tensor.dims)} cannot be read: {error}"
        ) from error


def _external(tensor: TensorProto, folder: Path | None) -> Array:
    info = ExternalDataInfo(tensor)
    location = info.location
    place = f"initializer {shorten(tensor.name)} has its data in {shorten(location)}"
    if folder is None:
        raise ModelError(
            f"{place}, and the model came without a folder to look in: give the model's path, or call "
            f"onnx.load_external_data_for_model first"
        )
    path = (folder / location).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ModelError(f"{place}, which lies outside of the model's folder: that is not read")
    if not path.is_file():
        raise ModelError(f"{place}, which is not in the model's folder: put it beside the model")
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        if dtype.itemsize * 8 != _bits(tensor.data_type):
            return _unpacked(tensor, folder)
        return _mapped(path, tensor, info, dtype)
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from error
    except Exception as error:
        raise ModelError(f"{place}, which cannot be read: {error}") from error


def _bits(code: int) -> int:
    """Bits that an element takes in a file."""
    name = TensorProto.DataType.Name(code)
    return (
        4
        if name.endswith("INT4") or name.startswith("FLOAT4")
        else 2
        if name.endswith("INT2")
        else _WHOLE[code]
    )


_WHOLE: Final = {
    code: 8 * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).itemsize
    for code in TensorProto.DataType.values()
    if code not in (TensorProto.UNDEFINED, TensorProto.STRING)
}


def _mapped(path: Path, tensor: TensorProto, info: ExternalDataInfo, dtype: np.dtype[Any]) -> Array:
    """The bytes of the file as an array: paged in where a node reads them, never copied, never written to."""
    shape = tuple(tensor.dims)
    needed = math.prod(shape) * dtype.itemsize
    offset, length = _number(info.offset, 0), _number(info.length, needed)
    size = path.stat().st_size
    if min(shape, default=0) < 0 or offset < 0 or length != needed:
        raise ModelError(
            f"dims {list(shape)} of {dtype} take {needed} bytes, the entry says {length} at offset {offset}"
        )
    if offset + needed > size:
        raise ModelError(
            f"the data ends at byte {offset + needed}, the file at {size}: it was cut off"
        )
    if not needed:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def _number(value: Any, default: int) -> int:
    return int(value) if value else default


def _unpacked(tensor: TensorProto, folder: Path) -> Array:
    """Elements of less than a byte are unpacked, which makes a copy."""
    loaded = TensorProto()
    loaded.CopyFrom(tensor)
    onnx.external_data_helper.load_external_data_for_tensor(loaded, str(folder))
    loaded.data_location = TensorProto.DEFAULT
    return np.ascontiguousarray(numpy_helper.to_array(loaded)).reshape(tuple(tensor.dims))


def _dense(tensor: SparseTensorProto) -> Array:
    """Linear indices, or one index tuple a row, as ONNX's SparseTensorProto allows."""
    values = numpy_helper.to_array(tensor.values)
    indices = numpy_helper.to_array(tensor.indices)
    dense = np.zeros(tuple(tensor.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense
