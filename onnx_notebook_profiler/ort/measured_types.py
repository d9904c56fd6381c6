"""What onnxruntime itself infers of the values of a graph: the types that it plans with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from onnx import ModelProto, TensorProto, ValueInfoProto

from onnx_notebook_profiler.errors import MissingExtraError, ModelError
from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.ort.observed_sessions import unobserved
from onnx_notebook_profiler.plan.ort_types import RuntimeType, runtime_types, source_symbols

__all__ = ["data_type_of", "session_types"]

_TENSOR = re.compile(r"tensor\((\w+)\)")
# fmt: off
_DATA_TYPES = {
    "float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16, "string": TensorProto.STRING, "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4,
}
# fmt: on
"""What the runtime calls element types."""


def data_type_of(name: str) -> int:
    """TensorProto code of what the runtime calls *name*; UNDEFINED where it is not known."""
    return _DATA_TYPES.get(name, TensorProto.UNDEFINED)


def session_types(model: LoadedModel) -> Mapping[str, RuntimeType]:
    """Types of the main graph's values as a session reports them, every value made an output; nothing is run.

    Operators of other domains have inference of their own, which no package but the runtime knows. Optimizations are
    off: give the model that the session runs, such as the optimized one that it saved.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ModelError: onnxruntime refuses the model.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            "onnxruntime is needed to ask it for its types: pip install onnx-notebook-profiler[onnxruntime]"
        ) from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", "1")
    if model.folder is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(model.folder)
        )
    exposed = _exposed(model)
    try:
        with unobserved():
            session = onnxruntime.InferenceSession(
                exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
    except Exception as error:  # its classes differ from version to version
        raise ModelError(f"onnxruntime refuses the model: {error}") from error
    known = runtime_types(model)
    symbols = source_symbols(model.proto.graph)
    found = dict(known)
    for value in session.get_outputs():
        found[value.name] = _read(value.type, value.shape, symbols, known.get(value.name))
    return found


def _exposed(model: LoadedModel) -> ModelProto:
    """A copy of the model whose every named value is an output."""
    copy = ModelProto()
    copy.CopyFrom(model.proto)
    known = {value.name for value in copy.graph.output}
    for node in model.proto.graph.node:
        new = [name for name in node.output if name and name not in known]
        copy.graph.output.extend(ValueInfoProto(name=name) for name in new)
    return copy


def _read(
    kind: str, shape: Sequence[int | str | None], symbols: set[str], known: RuntimeType | None
) -> RuntimeType:
    """A type in the runtime's words."""
    match = _TENSOR.fullmatch(kind)
    if match is None:
        return RuntimeType(0, None, "maps" if "map(" in kind else "tensors")
    data_type = _DATA_TYPES.get(match[1], known.data_type if known else 0)
    if not shape and (known is None or known.shape != ()):
        return RuntimeType(data_type, None)  # the runtime shows an unknown rank as it shows rank 0
    return RuntimeType(
        data_type,
        tuple(size if not isinstance(size, str) or size in symbols else None for size in shape),
    )
