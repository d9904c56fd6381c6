"""Runs one node the way the evaluator does: specification, shapes, buffers, numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array
from onnx_notebook_profiler.evaluator.registry import find_kernel

typed: Any = np
"""numpy whose scalar types, such as `typed.int8([1, 2])`, make arrays; its stubs don't know that."""


def make_kernel(node: NodeProto, opset: int) -> Any:
    """The project's own kernel for *node*."""
    kernel_class = find_kernel(node.domain, node.op_type, opset)
    assert kernel_class is not None, f"no kernel for {node.op_type} in opset {opset}"
    return kernel_class(node_spec(node, opset))


def run_node(node: NodeProto, inputs: Sequence[Any], opset: int) -> list[Any]:
    """The outputs that the node names, computed by the project's own kernel."""
    kernel = make_kernel(node, opset)
    with np.errstate(all="ignore"):
        if isinstance(kernel, AdoptingKernel):
            return list(kernel.call(inputs))
        before = [None if x is None else x.copy() for x in inputs]
        specs = kernel.infer(inputs)
        assert len(specs) == len(kernel.spec.wanted)
        outputs = [_dirty(spec.shape, spec.dtype) for spec in specs]
        buffers = list(outputs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kernel.compute(inputs, outputs) is None
    assert all(a is b for a, b in zip(outputs, buffers, strict=True))
    for value, copy in zip(inputs, before, strict=True):
        if value is not None and copy is not None:
            assert value.tobytes() == copy.tobytes() or value.dtype == object
    return outputs


def _dirty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A buffer as an allocator hands it out: whatever was there before."""
    buffer: Array = np.empty(shape, dtype)
    if dtype.kind == "O":
        buffer.fill("left over")
    else:
        buffer.reshape(-1).view(np.uint8)[:] = 0xA5 if dtype != np.bool_ else 1
    return buffer


def run(op_type: str, *inputs: Any, opset: int = 21, outputs: int = 1, **attributes: Any) -> Any:
    """The first output of a node with these inputs (None: absent), or the list of *outputs*."""
    arrays = [None if x is None else np.ascontiguousarray(x).reshape(np.shape(x)) for x in inputs]
    names = ["" if x is None else f"x{position}" for position, x in enumerate(arrays)]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], **attributes)
    results = run_node(node, arrays, opset)
    return results if outputs > 1 else results[0]
