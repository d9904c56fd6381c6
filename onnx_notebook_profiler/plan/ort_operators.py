"""Which of onnxruntime's CPU kernels hand an input's buffer on to an output, and which operators it has no kernel for.

Found by probing 1.32.0 with one node after the other, and in its sources (``Alias``, ``MayInplace``).
"""

from __future__ import annotations

from onnx import NodeProto

__all__ = ["aliased_input", "expands", "overwritten_input"]

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
"""Operators whose output 0 always has the buffer of input 0."""

# fmt: off
_IN_PLACE = {
    "": frozenset({
        "Cast", "Celu", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax", "Relu", "ScatterElements", "Selu",
        "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Trilu",
    }),
    "ai.onnx.ml": frozenset({"Normalizer", "Scaler", "TreeEnsembleRegressor"}),
}
# fmt: on
"""Operators whose output 0 may be written over input 0, where nothing else needs it."""

_SUMMAND = 3
"""The input of a fused convolution that is added to its result, which may be written over it."""

_EXPANDED = frozenset({"HardSwish", "Mish", "Swish"})
"""Operators without a kernel: the runtime puts the nodes of their function in their place."""


def aliased_input(node: NodeProto, output: int) -> int | None:
    """The input whose buffer *output* of *node* shares, whatever else reads it; None where there is none."""
    if node.domain not in ("", "ai.onnx"):
        return None
    return 0 if output == 0 and node.op_type in _VIEWS else None


def overwritten_input(node: NodeProto, output: int) -> int | None:
    """The input that *output* of *node* may be written over, if sizes are equal and nothing else needs it."""
    if output != 0:
        return None
    domain = "" if node.domain == "ai.onnx" else node.domain
    if node.op_type in _IN_PLACE.get(domain, ()):
        return 0
    fused = (domain, node.op_type)
    if fused in {("com.microsoft.nchwc", "Conv"), ("com.microsoft", "FusedConv")}:
        return _SUMMAND
    return None


def expands(node: NodeProto) -> bool:
    """Whether several nodes run in the place of *node*."""
    return node.domain in ("", "ai.onnx") and node.op_type in _EXPANDED
