"""Small constants are computed by the evaluator's kernels, so that sizes follow through any operator and rank."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.kernel import Kernel
from onnx_notebook_profiler.evaluator.registry import find_kernel

__all__ = ["fold", "small_constant"]

_MAX_ELEMENTS: Final = 256
_MAX_INPUTS: Final = 16


def small_constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a value that is known and small; never reads data that lies outside the model."""
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    if tensor is None or isinstance(tensor, ir.ExternalTensor) or tensor.size > _MAX_ELEMENTS:
        return None
    return np.asarray(tensor.numpy())


def fold(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Compute the outputs of a node whose inputs are all known and small, where a kernel is there for it."""
    outputs = [value for value in node.outputs if value.name]
    if len(node.inputs) > _MAX_INPUTS or len(outputs) != 1 or outputs[0].const_value is not None:
        return
    inputs = []
    for value in node.inputs:
        array = small_constant(value)
        if value is not None and array is None:
            return
        inputs.append(array)
    if not inputs or any(
        attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()
    ):
        return
    kernel_type: Any = find_kernel(
        node.domain or "", node.op_type, ctx.get_opset_version(node.domain or "")
    )
    if kernel_type is None or not issubclass(kernel_type, Kernel) or not kernel_type.repeatable:
        return
    result = _computed(ctx, node, kernel_type, inputs)
    if result is not None and result.size <= _MAX_ELEMENTS:
        _keep(ctx, outputs[0], result)


def _computed(
    ctx: ShapeInferenceContext, node: ir.Node, kernel_type: type[Kernel], inputs: list[Any]
) -> np.ndarray[Any, Any] | None:
    spec = node_spec(ir.to_proto(node), ctx.get_opset_version(node.domain or ""))
    try:
        kernel = kernel_type(spec)
        (shape, dtype), *_ = kernel.infer(inputs)
        if int(np.prod(shape)) > _MAX_ELEMENTS or dtype.kind == "O":
            return None
        result = np.empty(shape, dtype)
        with np.errstate(all="ignore"):
            kernel.compute(
                [
                    None if one is None else np.ascontiguousarray(one).reshape(one.shape)
                    for one in inputs
                ],
                [result],
            )
    except Exception:  # noqa: BLE001 - the node may be wrong, or never run: it is the evaluator's to say so
        return None
    return result


def _keep(ctx: ShapeInferenceContext, value: ir.Value, result: np.ndarray[Any, Any]) -> None:
    """Make *result* known as the constant that *value* is."""
    tensor = ir.tensor(result, name=value.name)
    value.shape, value.dtype = ir.Shape(result.shape), tensor.dtype
    value.const_value = tensor
    if result.dtype.kind in "iu" and result.ndim <= 1:
        ctx.set_symbolic_value(value, [int(item) for item in result.reshape(-1)])
