"""Which of onnxruntime's CPU kernels hand an input's buffer on to an output, and which operators it has no kernel for.

Found by running 1.32.0 on onnx's node cases and on one node after the other, and in its sources (``Alias``,
``MayInplace``).
"""

from __future__ import annotations

import functools

import onnx
from onnx import NodeProto, TensorProto
from onnx.defs import SchemaError

__all__ = ["aliased_input", "may_be_expanded", "operator_key", "overwritten_input"]

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
"""Operators whose output 0 always has the buffer of input 0."""

_RUNNING_STATISTICS = {1: 3, 2: 4}
"""BatchNormalization in training: the outputs that have the buffers of its mean and variance."""

# fmt: off
_IN_PLACE = {
    "": frozenset({
        "BitCast", "Cast", "Celu", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax", "Relu", "Scatter",
        "ScatterElements", "Selu", "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh", "TensorScatter",
        "ThresholdedRelu", "Trilu",
    }),
    "ai.onnx.ml": frozenset({"Normalizer", "Scaler", "TreeEnsemble", "TreeEnsembleRegressor"}),
}
# fmt: on
"""Operators whose output 0 may be written over input 0, where nothing else needs it."""

_WITH_SUMMAND = frozenset({("com.microsoft", "FusedConv"), ("com.microsoft.nchwc", "Conv")})
_SUMMAND = 3
"""The input of a fused convolution that is added to its result, which may be written over it."""

# fmt: off
_KERNELS = {
    **dict.fromkeys((
        "AffineGrid", "BlackmanWindow", "Celu", "Clip", "DynamicQuantizeLinear", "GreaterOrEqual",
        "HammingWindow", "HannWindow", "LayerNormalization", "LessOrEqual", "LogSoftmax", "RMSNormalization", "Range",
        "ReduceL1", "ReduceL2", "ReduceSumSquare", "RotaryEmbedding", "Shrink", "Softmax",
    ), 28),
    "Attention": 24, "ReduceLogSum": 18, "ReduceLogSumExp": 18,
}
_FLOAT_KERNELS = frozenset({
    "DepthToSpace", "Elu", "Gelu", "HardSigmoid", "LeakyRelu", "MeanVarianceNormalization", "PRelu", "Relu", "Selu",
    "Softplus", "Softsign", "SpaceToDepth", "ThresholdedRelu",
})
# fmt: on
"""Operators that onnx defines by a function and that have a kernel all the same: up to a version, or for floats."""


def operator_key(node: NodeProto) -> tuple[str, str]:
    """Domain and operator of *node*; the default domain is the empty string."""
    return ("" if node.domain == "ai.onnx" else node.domain), node.op_type


def aliased_input(node: NodeProto, output: int) -> int | None:
    """The input whose buffer *output* of *node* shares, whatever else reads it; None where there is none."""
    domain, operator = operator_key(node)
    if domain:
        return None
    if operator == "BatchNormalization":
        return _RUNNING_STATISTICS.get(output)
    return 0 if output == 0 and operator in _VIEWS else None


def overwritten_input(node: NodeProto, output: int) -> int | None:
    """The input that *output* of *node* may be written over, if sizes are equal and nothing else needs it."""
    domain, operator = operator_key(node)
    if output != 0:
        return None
    if operator in _IN_PLACE.get(domain, ()):
        return 0
    return _SUMMAND if (domain, operator) in _WITH_SUMMAND else None


def may_be_expanded(node: NodeProto, opset: int, data_type: int) -> bool:
    """Whether the runtime may put the nodes of a function in the place of *node*.

    Args:
        opset: Version of the default domain.
        data_type: Element type of the first input.
    """
    domain, operator = operator_key(node)
    version = 0 if domain else _function_version(operator, opset)
    if not version or version <= _KERNELS.get(operator, 0):
        return False
    return operator not in _FLOAT_KERNELS or data_type != TensorProto.FLOAT


@functools.cache
def _function_version(operator: str, opset: int) -> int:
    """Version of an operator that onnx defines by a function; 0 where it does not."""
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except SchemaError:
        return 0
    is_function = any(
        getattr(schema, name) for name in ("has_function", "has_context_dependent_function")
    )
    return int(schema.since_version) if is_function else 0
