"""Memory that an operator needs beyond its inputs and outputs, where a rule is known; bytes.

The rules are onnx-light's: attention's score matrix and linear attention's state. Every other operator counts 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType

__all__ = ["scratch_bytes"]

_FLOAT = 4


def scratch_bytes(node: NodeProto, types: Mapping[str, ValueType | UnknownSize]) -> int:
    """Scratch of *node* in bytes; 0 where a dimension that it depends on is symbolic."""
    if node.domain not in ("", "ai.onnx"):
        return 0
    shapes = [_constant_shape(types.get(name)) for name in node.input]
    if node.op_type == "Attention":
        return _attention(shapes)
    if node.op_type == "LinearAttention":
        return _linear_attention(shapes)
    return 0


def _constant_shape(value: ValueType | UnknownSize | None) -> tuple[int, ...] | None:
    if not isinstance(value, ValueType) or not all(size.is_constant for size in value.shape):
        return None
    return tuple(size.value for size in value.shape)


def _attention(shapes: list[tuple[int, ...] | None]) -> int:
    """One float32 score for each pair of query and key: Q [B, H, S, D], K [B, H', T, D] -> B * H * S * T * 4."""
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None:
        return 0
    if len(shapes[0]) != 4 or len(shapes[1]) != 4:
        return 0
    batch, heads, queries, _ = shapes[0]
    return batch * heads * queries * shapes[1][2] * _FLOAT


def _linear_attention(shapes: list[tuple[int, ...] | None]) -> int:
    """The state: that of the past where it is given (input 3), else batch * key size * value size floats."""
    if len(shapes) < 3:
        return 0
    past = shapes[3] if len(shapes) > 3 else None
    if past is not None:
        count = 1
        for size in past:
            count *= size
        return count * _FLOAT
    _, key, value = shapes[:3]
    if key is None or value is None or len(key) != 3 or len(value) != 3:
        return 0
    return key[0] * key[2] * value[2] * _FLOAT
