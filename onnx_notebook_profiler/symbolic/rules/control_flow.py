"""Loop: a state keeps its shape only where the body gives back what it was given."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

__all__ = ["infer_loop"]

_engine_loop: Any = registry.get("", "Loop", 11)


@registry.register("", "Loop", since_version=1)  # type: ignore[untyped-decorator]
def infer_loop(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """The engine's rule, but for a state that the body changes in shape, which it takes from the first round.

    Any other size than the first one's may then have come out of the last round. https://onnx.ai/onnx/operators/onnx__Loop.html
    """
    _engine_loop(ctx, node)
    body = node.attributes["body"].as_graph()
    for number in range(2, min(len(node.inputs), len(body.inputs))):
        before, after = body.inputs[number], body.outputs[number - 1]
        output = node.outputs[number - 2] if number - 2 < len(node.outputs) else None
        if output is None or output.shape is None or _same(before.shape, after.shape):
            continue
        steady = before.shape is not None and before.shape.rank() == output.shape.rank()
        output.shape = ir.Shape([ctx.new_symbolic_dim() for _ in output.shape]) if steady else None


def _same(before: ir.Shape | None, after: ir.Shape | None) -> bool:
    return before is not None and after is not None and list(before) == list(after)
