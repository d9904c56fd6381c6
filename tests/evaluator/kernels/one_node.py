"""Models of a single node, for our kernels and for onnxruntime's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from tests.evaluator.kernels.harness import run_node
from tests.oracles import ort

__all__ = ["by_both", "one_node_model"]


def one_node_model(
    node: NodeProto, inputs: Sequence[Any], opsets: dict[str, int], output_type: Any = None
) -> ModelProto:
    """The node with inputs of these types and shapes; outputs of *output_type*, or of what whoever loads it infers."""
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(node.input, inputs, strict=True)
        if name
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    if output_type is not None:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(output_type))
        outputs = [helper.make_tensor_value_info(one.name, code, None) for one in outputs]
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    graph = helper.make_graph([node], "g", declared, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def by_both(
    op_type: str,
    *inputs: Any,
    outputs: int = 1,
    opset: int = 17,
    domain: str = "",
    output_type: Any = None,
    **attributes: Any,
) -> tuple[list[Any], list[Any]]:
    """What our kernel and what onnxruntime's makes of these inputs (None: absent)."""
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(arrays)]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes
    )
    opsets = {"": opset if not domain else 17}
    if domain:
        opsets[domain] = opset
    given = {name: x for name, x in zip(names, arrays, strict=True) if name}
    expected = ort(one_node_model(node, arrays, opsets, output_type), given)
    return run_node(node, arrays, opset), expected
