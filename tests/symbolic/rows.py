"""Short ways to build models and to read the account of a context, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, TensorProto, helper, parser

from onnx_notebook_profiler.symbolic.context import ComputeContext

HEADER = '<ir_version: 10, opset_import: ["" : 18, "d" : 1]>\n'

Row = tuple[int | str, int | str, int | str]


def graph(text: str) -> ModelProto:
    """The model of one graph in ONNX's textual form, at opset 18; domain `d` has no schemas."""
    return parser.parse_model(HEADER + text)


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str | None] | None],
    outputs: Sequence[str],
    *,
    data_type: int = TensorProto.FLOAT,
    opset: int = 18,
    **parts: Any,
) -> ModelProto:
    """A model whose inputs all have one element type; outputs carry no shapes."""
    return helper.make_model(
        helper.make_graph(
            list(nodes),
            "g",
            [helper.make_tensor_value_info(name, data_type, dims) for name, dims in inputs.items()],
            [helper.make_tensor_value_info(name, data_type, None) for name in outputs],
            **parts,
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=10,
    )


def computed(
    model: Any, reuse: Any = "operator", *, account: Any = "model", overwrite: bool = False
) -> ComputeContext:
    context = ComputeContext(reuse, account)
    context.compute(model, allow_input_overwrite=overwrite)
    return context


def rows(context: ComputeContext) -> list[Row]:
    """(already, fresh, total) of each node, as the specification lists them."""
    return [
        (
            memory["already_allocated_bytes"],
            memory["output_allocation_bytes"],
            memory["total_bytes"],
        )
        for memory in context.memory
    ]


def reused(context: ComputeContext) -> list[list[tuple[int, int, str]]]:
    """(output, input, kind) of each reuse, node by node."""
    return [
        [(one.output_index, one.input_index, one.kind) for one in node] for node in context.reuse
    ]


def notes(model: ModelProto) -> list[dict[str, str]]:
    """The annotations of each node without their common prefix."""
    return [
        {entry.key.removeprefix("onnx_light."): entry.value for entry in node.metadata_props}
        for node in model.graph.node
    ]
