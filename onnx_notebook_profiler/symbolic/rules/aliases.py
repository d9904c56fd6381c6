"""Operators of other domains that have the shapes of one of onnx: its rule does for them."""

from __future__ import annotations

from typing import Any, Final

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

__all__ = ["ALIASES"]

_MS: Final = "com.microsoft"
_BLOCKED: Final = f"{_MS}.nchwc"

ALIASES: Final[dict[tuple[str, str], tuple[str, int]]] = {
    (_MS, "DequantizeLinear"): ("DequantizeLinear", 21),
    (_MS, "FusedConv"): ("Conv", 11),
    (_MS, "GatherND"): ("GatherND", 13),
    (_MS, "GridSample"): ("GridSample", 16),
    (_MS, "MaxpoolWithMask"): ("MaxPool", 12),
    (_MS, "Pad"): ("Pad", 11),
    (_MS, "QuantizeLinear"): ("QuantizeLinear", 21),
    (_MS, "Range"): ("Range", 11),
    (_MS, "Unique"): ("Unique", 11),
    (_BLOCKED, "AveragePool"): ("AveragePool", 11),
    (_BLOCKED, "Conv"): ("Conv", 11),
    (_BLOCKED, "GlobalAveragePool"): ("GlobalAveragePool", 1),
    (_BLOCKED, "GlobalMaxPool"): ("GlobalMaxPool", 1),
    (_BLOCKED, "MaxPool"): ("MaxPool", 12),
}
"""(domain, operator) -> operator of onnx and its version. Tensors in blocks of channels are [N, C, H, W] too."""


def _aliased(operator: str, version: int) -> Any:
    rule: Any = registry.get("", operator, version)

    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        rule(ctx, node)

    return infer


for (_domain, _operator), (_target, _version) in ALIASES.items():
    registry.register(_domain, _operator, since_version=1)(_aliased(_target, _version))
