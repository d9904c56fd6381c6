"""Models of one node for the tests of work, and what the rules count for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnx_notebook_profiler import ComputeContext
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan import build_plan
from onnx_notebook_profiler.symbolic.data_sizes import Decided
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from onnx_notebook_profiler.symbolic.value_types import Inferred
from onnx_notebook_profiler.symbolic.work import ModelWork, NodeWork
from onnx_notebook_profiler.symbolic.work_count import count_work

Case = tuple[str, list[Any], list[str], dict[str, Any], int | None, int | None]
"""Operator, inputs and outputs as :func:`one_node` takes them, attributes and options; MACs and FLOPs."""

_TYPE = re.compile(r"(\w+)\[(.*)\]")
DOMAINS = {
    "": 24,
    "com.microsoft": 1,
    "com.microsoft.nchwc": 1,
    "com.ms.internal.nhwc": 22,
    "ai.onnx.ml": 5,
    "ai.onnx.preview.training": 1,
    "made.up": 1,
}


def value(name: str, text: str) -> ValueInfoProto:
    """`float[N,2]` as the type of a value."""
    match = _TYPE.fullmatch(text)
    assert match is not None, text
    sizes = [part.strip() for part in match[2].split(",") if part.strip()]
    shape = [int(size) if size.isdigit() else size for size in sizes]
    return helper.make_tensor_value_info(name, getattr(TensorProto, match[1].upper()), shape)


def one_node(
    op: str,
    inputs: Sequence[str | npt.NDArray[Any] | None],
    outputs: Sequence[str],
    *,
    domain: str = "",
    opset: int = 24,
    **attributes: Any,
) -> ModelProto:
    """One node; input k is `i<k>`: a type, or an initializer's array, or absent. Outputs are `o<k>`."""
    names = ["" if one is None else f"i{k}" for k, one in enumerate(inputs)]
    results = [f"o{k}" for k, _ in enumerate(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, domain=domain, **attributes)],
        "g",
        [value(f"i{k}", one) for k, one in enumerate(inputs) if isinstance(one, str)],
        [value(f"o{k}", one) for k, one in enumerate(outputs)],
        [
            numpy_helper.from_array(one, f"i{k}")
            for k, one in enumerate(inputs)
            if isinstance(one, np.ndarray)
        ],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, DOMAINS[domain]))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def computed(model: ModelProto) -> ComputeContext:
    context = ComputeContext()
    context.compute(model)
    return context


def node_work(
    op: str,
    inputs: Sequence[str | npt.NDArray[Any] | None],
    outputs: Sequence[str],
    **options: Any,
) -> NodeWork:
    """The work of one node."""
    return computed(one_node(op, inputs, outputs, **options)).work[0]


def declared_work(proto: ModelProto) -> ModelWork:
    """The work of nodes whose values have the fixed sizes that the model declares."""
    model = load_model(proto)
    graph = model.proto.graph
    types: dict[str, ValueType | UnknownSize] = {
        tensor.name: ValueType(tensor.data_type, tuple(map(Expr.constant, tensor.dims)))
        for tensor in graph.initializer
    }
    for one in (*graph.input, *graph.output):
        kind = one.type.tensor_type
        sizes = (Expr.constant(dim.dim_value) for dim in kind.shape.dim)
        types[one.name] = ValueType(kind.elem_type, tuple(sizes))
    return count_work(
        build_plan(model), Decided(Inferred(types, {}, {}), types, {}, frozenset()), ()
    )


def numbers(work: NodeWork, sizes: Mapping[str, int] | None = None) -> tuple[int | None, ...]:
    """MACs, FLOPs, bytes read and written at these sizes."""
    forms = (work.macs, work.flops, work.read, work.written)
    return tuple(None if form is None else form.evaluate(sizes or {}) for form in forms)


def assert_counts(case: Case) -> None:
    """The rule of the operator gives these MACs and FLOPs, and a reason where it gives none."""
    op, inputs, outputs, options, macs, flops = case
    work = node_work(op, inputs, outputs, **options)
    assert numbers(work)[:2] == (macs, flops), work.reason
    assert work.is_ruled
    assert bool(work.reason) == work.is_unknown
