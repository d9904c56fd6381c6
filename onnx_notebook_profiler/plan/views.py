"""Which outputs share the bytes of an input: decided from the operator alone, never from what numpy would do."""

from __future__ import annotations

from collections.abc import Callable

from onnx import NodeProto, TensorProto, numpy_helper

__all__ = ["VIEW_OPERATORS", "keeps_bytes", "viewed_inputs"]

VIEW_OPERATORS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"})
"""Operators of the default domain whose first output has the bytes of the first input (Dropout: at inference)."""

_TRAINING_MODE_OPSET = 12
_ALWAYS_INFERENCE_OPSET = 7


def keeps_bytes(node: NodeProto) -> bool:
    """True where the first output has as many bytes as the first input, both given, be it a view or a copy."""
    return bool(
        node.domain in ("", "ai.onnx")
        and node.op_type in VIEW_OPERATORS
        and node.input
        and node.input[0]
        and node.output
        and node.output[0]
    )


def viewed_inputs(
    node: NodeProto, opset: int, constant: Callable[[str], TensorProto | None]
) -> tuple[int, ...]:
    """For each output of *node* the position of the input that it is a view of; -1 where it has bytes of its own.

    Args:
        constant: The tensor that a name holds, where that is known before the run; needed for Dropout's training mode.
    """
    absent = (-1,) * len(node.output)
    if not keeps_bytes(node):
        return absent
    if node.op_type == "Dropout" and not _is_inference(node, opset, constant):
        return absent
    return (0, *absent[1:])


def _is_inference(
    node: NodeProto, opset: int, constant: Callable[[str], TensorProto | None]
) -> bool:
    """Dropout passes its input through: always from opset 7 on, but for a training mode that may be true (opset 12)."""
    if opset >= _TRAINING_MODE_OPSET:
        if len(node.input) <= 2 or not node.input[2]:
            return True
        mode = constant(node.input[2])
        return mode is not None and not numpy_helper.to_array(mode).any()
    if opset >= _ALWAYS_INFERENCE_OPSET:
        return True
    return any(attribute.name == "is_test" and attribute.i for attribute in node.attribute)
