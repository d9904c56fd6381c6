"""Kernels of onnxruntime, one node at a time: a session of a single node, kept for each signature of its inputs.

Nothing is optimised, so that a node costs what its kernel costs. Results are adopted: their bytes are onnxruntime's,
exactly as many as the tensor has. Small constants, and the weights that some kernels pack once, are put into the
session; everything else is handed over without a copy. A session has one thread: a pool for each is many times
slower, and the pool that sessions can share, once it is made, forbids every other session of the process a pool of
its own. Where the user has made that pool already, it is used.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from onnx import NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array, NodeSpec

__all__ = ["OnnxRuntimeKernel", "is_installed", "known_operators"]

_RUNTIME: Final = "onnxruntime"

_SMALL: Final = 256
"""Bytes up to which a constant goes into the session: some kernels take such an input in no other way."""

# fmt: off
_PACKING: Final = frozenset({
    "LSTM", "GRU", "RNN", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat", "DynamicQuantizeLSTM", "QAttention", "QGemm", "MatMulNBits", "MatMulBnb4", "Attention",
})
# fmt: on
"""Operators whose kernels pack constant weights once, when the session is made."""

_KEPT: Final = 4096
"""Sessions that are kept, over all evaluators; the one that was not used for longest goes first."""

_IR_VERSION: Final = 10

_sessions: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def is_installed() -> bool:
    """True where onnxruntime can be imported; it is not imported to find out."""
    return importlib.util.find_spec(_RUNTIME) is not None


@functools.cache
def known_operators() -> frozenset[tuple[str, str]]:
    """(domain, operator) of everything that the installed onnxruntime has a schema for; empty without it."""
    if not is_installed():
        return frozenset()
    state: Any = importlib.import_module(f"{_RUNTIME}.capi.onnxruntime_pybind11_state")
    return frozenset(
        ("" if schema.domain == "ai.onnx" else schema.domain, schema.name)
        for schema in state.get_all_operator_schema()
    )


def _options(runtime: Any, *, shared_pool: bool) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_per_session_threads = not shared_pool
    return options


def _session(model: bytes) -> Any:
    """The runtime's own session object: its Python wrapper takes as long as a small kernel to check the feeds again."""
    state: Any = importlib.import_module(f"{_RUNTIME}.capi.onnxruntime_pybind11_state")
    runtime: Any = importlib.import_module(_RUNTIME)
    refused: Exception | None = None
    for shared_pool in (False, True):
        try:
            session = state.InferenceSession(
                _options(runtime, shared_pool=shared_pool), model, False, False
            )
            session.initialize_session(["CPUExecutionProvider"], [{}], set())
        except Exception as error:  # noqa: BLE001 - the runtime's errors have no base of their own
            refused = refused or error
            if "use_per_session_threads" not in str(error):
                break
        else:
            return session
    raise UnsupportedOperatorError(_first_line(refused)) from refused


class OnnxRuntimeKernel(AdoptingKernel):
    """One node, run by the kernel that onnxruntime has for it.

    Args:
        constants: Values of inputs that no run changes, by name.

    Raises:
        UnsupportedOperatorError: onnxruntime is not installed, or has no such operator.
    """

    fresh: ClassVar[bool] = True

    def __init__(
        self,
        spec: NodeSpec,
        node: NodeProto,
        opsets: Mapping[str, int],
        constants: Mapping[str, Array],
    ) -> None:
        super().__init__(spec)
        if not is_installed():
            raise UnsupportedOperatorError("not installed")
        if (spec.domain, spec.op_type) not in known_operators():
            raise UnsupportedOperatorError("no kernel")
        if any(attribute.g.ByteSize() or attribute.graphs for attribute in node.attribute):
            raise UnsupportedOperatorError("a node with a body runs here only")
        self._opsets = {**opsets, spec.domain: spec.opset}
        self._node = _anonymous(node)
        self._outputs = [name for name in self._node.output if name]
        self._positions = [position for position, name in enumerate(node.output) if name]
        packs = spec.op_type in _PACKING
        self._embedded: dict[int, Array] = {}
        self._fed: list[tuple[int, str]] = []
        for position, (given, name) in enumerate(zip(node.input, self._node.input, strict=True)):
            if not name or name != f"i{position}":
                continue  # absent, or an input that comes twice
            value = constants.get(given)
            if value is not None and (packs or value.nbytes <= _SMALL) and _plain(value):
                self._embedded[position] = value
            else:
                self._fed.append((position, name))
        self._last: tuple[tuple[Any, ...], Any] = ((), None)

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run the node; arrays, sequences as lists.

        Raises:
            UnsupportedOperatorError: onnxruntime has no kernel for inputs of these types.
        """
        fed = self._fed
        key = tuple([_signature(inputs[position]) for position, _ in fed])
        known, session = self._last
        if session is None or key != known:
            session = self._find(key, inputs)
            self._last = (key, session)
        given = {name: inputs[position] for position, name in fed if inputs[position] is not None}
        results = session.run(self._outputs, given, None)
        if len(results) == len(self._node.output):
            return results  # type: ignore[no-any-return]
        placed: list[Any] = [None] * len(self._node.output)
        for position, result in zip(self._positions, results, strict=True):
            placed[position] = result
        return placed

    def _find(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> Any:
        node = self._node
        constants = tuple(
            (position, value.dtype.str, value.shape, hash(value.tobytes()))
            for position, value in self._embedded.items()
        )
        opsets = tuple(sorted(self._opsets.items()))
        whole = (node.SerializeToString(deterministic=True), opsets, constants, key)
        session = _sessions.get(whole)
        if session is None:
            session = _sessions[whole] = self._open(inputs)
            if len(_sessions) > _KEPT:
                _sessions.popitem(last=False)
        else:
            _sessions.move_to_end(whole)
        return session

    def _open(self, inputs: Sequence[Any]) -> Any:
        node = NodeProto()
        node.CopyFrom(self._node)
        declared = []
        for position, name in self._fed:
            if inputs[position] is None:
                node.input[position] = ""
            else:
                declared.append(ValueInfoProto(name=name, type=_type_of(inputs[position])))
        graph = helper.make_graph(
            [node],
            "node",
            declared,
            [ValueInfoProto(name=name) for name in self._outputs],
            [
                numpy_helper.from_array(value, self._node.input[position])
                for position, value in self._embedded.items()
            ],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return _session(model.SerializeToString())


def _anonymous(node: NodeProto) -> NodeProto:
    """*node* with names that depend on positions only, so that equal nodes share a session."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name, copy.doc_string = "", ""
    del copy.metadata_props[:]
    if copy.domain == "ai.onnx":
        copy.domain = ""
    first: dict[str, str] = {}
    for position, name in enumerate(copy.input):
        copy.input[position] = first.setdefault(name, f"i{position}") if name else ""
    for position, name in enumerate(copy.output):
        copy.output[position] = f"o{position}" if name else ""
    return copy


def _plain(value: object) -> bool:
    """True for a tensor of a type that numpy has itself."""
    return isinstance(value, np.ndarray) and value.dtype.char in "?bBhHiIlLqQefdFDO"


def _signature(value: Any) -> Any:
    """What a session is made for: element type and rank."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    if isinstance(value, list | tuple):
        return tuple([_signature(one) for one in value[:1]])
    return type(value)


def _type_of(value: Any) -> TypeProto:
    if _plain(value):
        code = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_type_proto(code, [None] * value.ndim)
    if isinstance(value, list | tuple) and value and _plain(value[0]):
        code = helper.np_dtype_to_tensor_dtype(value[0].dtype)
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(code, None))
    described = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
    raise UnsupportedOperatorError(f"takes no input of type {described} from numpy")


def _first_line(error: Exception | None) -> str:
    """The runtime's message up to its first line break."""
    return next(iter(str(error).splitlines()), type(error).__name__)
