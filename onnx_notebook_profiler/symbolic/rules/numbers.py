"""Numbers that follow from sizes, through arithmetic on integers and on floats.

Exporters compute sizes in floats, too: ``floor(H * 0.5)``. The engine follows integers, and takes the quotient of two
floats for one of integers; here each element is an exact expression, rounded where the model rounds. A factor is taken
in only where float32 holds its products with sizes exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import onnx_ir as ir
import sympy
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.symbolic.rules.folding import small_constant
from onnx_notebook_profiler.symbolic.rules.sizes import dim_of, expression

__all__ = ["follow_numbers"]

_FLOATS: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_EXACT: Final = 2**8
"""Greatest numerator and denominator of a float factor: times sizes up to 65,536 float32 holds the product."""
_MAX_ELEMENTS: Final = 64

Elements = list[Any]


def _divided(left: Any, right: Any, *, floats: bool) -> Any:
    if right == 0:
        return None
    if floats:
        return left / right
    # sizes and counts: nothing is negative, so that truncation is floor
    return sympy.floor(left / right) if right.is_positive else None


_BINARY: Final[dict[str, Callable[..., Any]]] = {
    "Add": lambda left, right, floats: left + right,  # noqa: ARG005
    "Sub": lambda left, right, floats: left - right,  # noqa: ARG005
    "Mul": lambda left, right, floats: left * right,  # noqa: ARG005
    "Div": _divided,
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "Floor": sympy.floor,
    "Ceil": sympy.ceiling,
    "Neg": lambda value: -value,
    "Identity": lambda value: value,
}


def follow_numbers(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Work out the elements of a node's output, where they follow from sizes and it has few."""
    output = node.outputs[0]
    if output.const_value is not None or output.shape is None or len(output.shape) > 1:
        return
    if node.op_type in _BINARY:
        left, right = (_elements(ctx, value) for value in node.inputs[:2])
        found = _pairwise(node, left, right, floats=output.dtype in _FLOATS)
    elif node.op_type in _UNARY:
        elements = _elements(ctx, node.inputs[0])
        function = _UNARY[node.op_type]
        found = None if elements is None else [function(element) for element in elements]
    elif node.op_type == "Cast":
        found = _cast(ctx, node)
    else:
        return
    if found is None:
        # the engine may have followed floats as integers
        ctx._symbolic_values.pop(output, None)  # noqa: SLF001 - the engine has no way to take it back
    else:
        ctx.set_symbolic_value(output, [dim_of(element) for element in found])


def _elements(ctx: ShapeInferenceContext, value: ir.Value | None) -> Elements | None:
    """The elements of a value as exact expressions; None where they are not known."""
    if value is None:
        return None
    constant = small_constant(value)
    if constant is None:
        known = ctx._symbolic_values.get(value)  # noqa: SLF001 - the public way reads integers alone
        return (
            None
            if known is None or len(known) > _MAX_ELEMENTS
            else [expression(one) for one in known]
        )
    if constant.ndim > 1 or constant.size > _MAX_ELEMENTS or constant.dtype.kind not in "iuf":
        return None
    found = []
    for item in constant.reshape(-1):
        if not np.isfinite(item):
            return None
        exact = Fraction(float(item)) if constant.dtype.kind == "f" else Fraction(int(item))
        if constant.dtype.kind == "f" and max(abs(exact.numerator), exact.denominator) > _EXACT:
            return None
        found.append(sympy.Rational(exact.numerator, exact.denominator))
    return found


def _pairwise(
    node: ir.Node, left: Elements | None, right: Elements | None, *, floats: bool
) -> Elements | None:
    if left is None or right is None:
        return None
    count = max(len(left), len(right))
    if len(left) not in {1, count} or len(right) not in {1, count}:
        return None
    pairs = zip(
        left * (count // max(len(left), 1)), right * (count // max(len(right), 1)), strict=True
    )
    found = [_BINARY[node.op_type](one, other, floats=floats) for one, other in pairs]
    return None if any(one is None for one in found) else found


def _cast(ctx: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    """To a float as it is; to an integer rounded toward zero, which for sizes is down."""
    source, output = node.inputs[0], node.outputs[0]
    elements = _elements(ctx, source)
    if elements is None or source is None or source.dtype == ir.DataType.BOOL:
        return None
    if output.dtype in (ir.DataType.INT64, ir.DataType.INT32) and source.dtype in _FLOATS:
        return [sympy.floor(element) for element in elements]
    return elements if output.dtype in (*_FLOATS, ir.DataType.INT64, ir.DataType.INT32) else None


def _followed(rule: Any) -> Any:
    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        rule(ctx, node)
        follow_numbers(ctx, node)

    return infer


for _operator in (*_BINARY, *_UNARY, "Cast"):
    for _domain, _name, _versions in list(registry.iter_supported()):
        if _domain == "" and _name == _operator:
            for _version in _versions:
                _rule = registry.get("", _operator, _version)
                registry.register("", _operator, since_version=_version)(_followed(_rule))
