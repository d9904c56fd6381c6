"""Calls of functions: those of the model, and operators that their schema defines by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
from onnx import GraphProto, NodeProto, TypeProto, helper

from onnx_notebook_profiler.plan.functions import specialise
from onnx_notebook_profiler.symbolic.rules.control_flow import pass_on
from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided
from onnx_notebook_profiler.symbolic.value_types import Inferred

__all__: list[str] = []


@rule("function call")
def infer_function_call(call: Call) -> None:
    """The body of a function of the model, gone through for each call."""
    function = call.inference.functions[call.domain, call.op_type]
    key = (call.domain, call.op_type)
    if key in call.inference.calls:
        raise Undecided("the function calls itself")
    opsets = {
        "" if entry.domain == "ai.onnx" else entry.domain: entry.version
        for entry in function.opset_import
    }
    nodes = specialise(function, call.proto)
    inferred = _run_function(call, function, nodes, opsets)
    call.inference.keep_body(call, function.name, inferred)


@rule("schema function")
def infer_schema_function(call: Call) -> None:
    """An operator that its schema defines by others, where neither we nor the engine have a rule."""
    try:
        schema: Any = onnx.defs.get_schema(call.op_type, call.opset, call.domain)
    except onnx.defs.SchemaError:
        raise Undecided("no shape rule for its operator") from None
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        kinds = [_type_bytes(value) for value in call.node.inputs]
        function.ParseFromString(
            schema.get_context_dependent_function(call.proto.SerializeToString(), kinds)
        )
    elif schema.has_function:
        function = schema.function_body
    if not function.node or (call.domain, call.op_type) in call.inference.calls:
        raise Undecided("no shape rule for its operator")
    opsets = dict(call.inference.opsets)
    opsets.update(
        {
            entry.domain: entry.version
            for entry in function.opset_import
            if entry.domain not in opsets
        }
    )
    nodes = specialise(function, call.proto)
    _run_function(call, function, nodes, opsets)


def _type_bytes(value: ir.Value | None) -> bytes:
    if value is None or value.dtype is None:
        return bytes(TypeProto().SerializeToString())
    shape = (
        None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    )
    return bytes(helper.make_tensor_type_proto(int(value.dtype), shape).SerializeToString())


def _run_function(
    call: Call, function: onnx.FunctionProto, nodes: Sequence[NodeProto], opsets: Mapping[str, int]
) -> Inferred:
    proto = GraphProto(name=function.name, node=nodes)
    proto.input.extend(onnx.ValueInfoProto(name=one) for one in function.input)
    proto.output.extend(onnx.ValueInfoProto(name=one) for one in function.output)
    graph = ir.serde.deserialize_graph(proto)
    inference = call.inference
    for target, source in zip(graph.inputs, call.node.inputs, strict=False):
        inference.hand_over(source, target)
    outer = inference.calls
    inference.calls = (*outer, (call.domain, call.op_type))
    try:
        inferred = inference.graph(graph, proto.node, opsets)
    finally:
        inference.calls = outer
    for output, result in zip(call.node.outputs, graph.outputs, strict=False):
        if output.name:
            pass_on(call, result, output, inferred)
    return inferred
