"""Element-wise operators of several inputs, which broadcast to a common shape."""

from __future__ import annotations

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.broadcasting import together
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []


_BROADCASTS_ALWAYS = 7


def _old(call: Call) -> bool:
    """Before opset 7 the second operand was laid along the first where it asked for it."""
    return call.opset < _BROADCASTS_ALWAYS and bool(call.attributes.get("broadcast", 0))


@rule("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "BitShift", "StringConcat")
@rule("BitwiseAnd", "BitwiseOr", "BitwiseXor")
@rule("ComplexMul", "ComplexMulConj", domain=CONTRIB)
def infer_binary(call: Call) -> None:
    """The type of the first, the common shape.

    https://onnx.ai/onnx/repo-docs/Broadcasting.html
    """
    left, right = call.shape(0), call.shape(1)
    shape = left if _old(call) or call.op_type == "PRelu" else together(left, right)
    call.give(0, shape, call.dtype(0))


@rule("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor")
def infer_comparison(call: Call) -> None:
    """Booleans of the common shape."""
    left, right = call.shape(0), call.shape(1)
    call.give(0, left if _old(call) else together(left, right), ir.DataType.BOOL)


@rule("Max", "Min", "Sum", "Mean")
def infer_variadic(call: Call) -> None:
    """The common shape of all."""
    shapes = [call.shape(position) for position in range(len(call.node.inputs))]
    call.give(0, together(*shapes), call.dtype(0))


@rule("Where")
def infer_where(call: Call) -> None:
    """The common shape of condition and both sources.

    https://onnx.ai/onnx/operators/onnx__Where.html
    """
    call.give(0, together(call.shape(0), call.shape(1), call.shape(2)), call.dtype(1))


@rule("QLinearAdd", "QLinearMul", domain=CONTRIB)
def infer_quantised_binary(call: Call) -> None:
    """Each operand comes with scale and zero point."""
    call.give(0, together(call.shape(0), call.shape(3)), call.dtype(0))


@rule("QLinearWhere", domain=CONTRIB)
def infer_quantised_where(call: Call) -> None:
    """Condition, X, scale, zero point, Y, scale, zero point."""
    call.give(0, together(call.shape(0), call.shape(1), call.shape(4)), call.dtype(1))


@rule("Expand")
def infer_expand(call: Call) -> None:
    """Both broadcast to a common shape.

    https://onnx.ai/onnx/operators/onnx__Expand.html
    """
    call.give(0, None, call.dtype(0))
    shape = call.shape(0)
    content = call.content(1)
    if content is None:
        length = call.shape(1)
        if not length or not length[0].is_constant:
            raise Undecided("the shape to expand to is not known")
        rank = max(len(shape), length[0].value)
        unknown = [call.unknown("data decides the shape to expand to") for _ in range(rank)]
        call.give(0, unknown, call.dtype(0))
        return
    call.give(0, together(shape, call.entries(1)), call.dtype(0))
