"""What small tensors hold while shapes are inferred: numbers, or expressions over the dimensions.

Contents of numbers are arrays of the value's type. Others are object arrays of Expr, and of Ratio where a float is a
fraction of a size that the model rounds later. https://onnx.ai/onnx/repo-docs/ShapeInference.html calls it data
propagation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.symbolic.expression import Expr, floor_mod, maximum, minimum
from onnx_notebook_profiler.symbolic.ratio import EXPRESSIONS, Ratio

__all__ = ["combined", "is_float", "truncated", "truncated_quotient"]

Element = Expr | Ratio[Expr]
_EXACT_BITS: Final = 10
"""Floats are taken as fractions with denominators up to 2 to this power, where float32 computes as exactly as we do."""


class NotExact(Exception):  # noqa: N818 - caught where the operator is looked up
    """No expression says what the operator gives."""


def element(value: Any) -> Element:
    """A number as an element; NotExact for a float that is no short binary fraction."""
    if isinstance(value, (Expr, Ratio)):
        return value
    if isinstance(value, (bool, int)):
        return Expr.constant(int(value))
    if not math.isfinite(value):
        raise NotExact
    exact = Fraction(value)
    if exact.denominator > 2**_EXACT_BITS or abs(exact.numerator) > 2**20:
        raise NotExact
    return _simple(Ratio(Expr.constant(exact.numerator), Expr.constant(exact.denominator)))


def _simple(value: Ratio[Expr]) -> Element:
    if value.den is None or value.den == 1:
        return value.num
    quotient = value.num if value.den.is_constant else None
    if quotient is not None and quotient.is_constant:
        exact = Fraction(quotient.value, value.den.value)
        if exact.denominator == 1:
            return Expr.constant(exact.numerator)
    return value


def _ratio(value: Element) -> Ratio[Expr]:
    return value if isinstance(value, Ratio) else Ratio(value)


def _binary(value: Element) -> Ratio[Expr]:
    """*value*, if its denominator is a power of two: no float was rounded on the way to it."""
    ratio = _ratio(value)
    if ratio.den is not None and (
        not ratio.den.is_constant or ratio.den.value & (ratio.den.value - 1)
    ):
        raise NotExact
    return ratio


def _whole(value: Element) -> Expr:
    if isinstance(value, Ratio):
        raise NotExact
    return value


def _add(a: Element, b: Element) -> Element:
    return _simple(EXPRESSIONS.total((_binary(a), _binary(b))))


def _subtract(a: Element, b: Element) -> Element:
    return _simple(EXPRESSIONS.total((_binary(a), EXPRESSIONS.negate(_binary(b)))))


def _multiply(a: Element, b: Element) -> Element:
    return _simple(EXPRESSIONS.multiply(_binary(a), _binary(b)))


def truncated_quotient(a: Expr, b: Expr) -> Expr:
    """The quotient a / b rounded towards 0, as integers divide in ONNX; NotExact where the sign of b is not known."""
    if b.is_constant and b.value < 0:
        a, b = -a, -b
    if not b.is_nonnegative or b == Expr.constant(0):
        raise NotExact
    if a.is_nonnegative:
        return a // b
    return maximum(a, 0) // b - maximum(-a, 0) // b


def _float_quotient(a: Element, b: Element) -> Element:
    divisor = _whole(b)
    if not divisor.is_constant or divisor.value < 1:
        raise NotExact
    return _simple(EXPRESSIONS.divide(_binary(a), Ratio(divisor)))


def _larger(a: Element, b: Element) -> Element:
    return maximum(_whole(a), _whole(b))


def _smaller(a: Element, b: Element) -> Element:
    return minimum(_whole(a), _whole(b))


def _floor(value: Element) -> Element:
    return EXPRESSIONS.floor(_ratio(value))


def _ceiling(value: Element) -> Element:
    return EXPRESSIONS.ceiling(_ratio(value))


def truncated(value: Element) -> Expr:
    """A float rounded towards 0, as Cast to an integer does."""
    if isinstance(value, Expr):
        return value
    num, den = value.num, value.den
    assert den is not None
    return truncated_quotient(num, den)


def _compare(holds: Callable[[int], bool], a: Element, b: Element) -> bool:
    """Whether a - b fulfils a condition on its sign; NotExact where the sizes decide it."""
    gap = _whole(a) - _whole(b)
    if gap.is_constant:
        return holds(gap.value)
    if (gap - 1).is_nonnegative or (-gap - 1).is_nonnegative:
        return holds(1 if (gap - 1).is_nonnegative else -1)
    if gap.is_nonnegative and holds(0) == holds(1):
        return holds(0)
    if (-gap).is_nonnegative and holds(0) == holds(-1):
        return holds(0)
    raise NotExact


_SIGNS: Final[Mapping[str, Callable[[int], bool]]] = {
    "Equal": lambda gap: gap == 0,
    "Less": lambda gap: gap < 0,
    "LessOrEqual": lambda gap: gap <= 0,
    "Greater": lambda gap: gap > 0,
    "GreaterOrEqual": lambda gap: gap >= 0,
}
_FOLDS: Final[Mapping[str, Callable[[Element, Element], Element]]] = {
    "Add": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Sum": _add,
    "Max": _larger,
    "Min": _smaller,
}
_SINGLE: Final[Mapping[str, Callable[[Element], Element]]] = {
    "Neg": lambda value: _subtract(Expr.constant(0), value),
    "Abs": lambda value: _larger(value, -_whole(value)),
    "Floor": _floor,
    "Ceil": _ceiling,
}
_REDUCED: Final[Mapping[str, Callable[[Element, Element], Element]]] = {
    "ReduceProd": _multiply,
    "ReduceSum": _add,
    "ReduceMax": _larger,
    "ReduceMin": _smaller,
}


def is_float(code: int) -> bool:
    """Whether a TensorProto code is a float of 32 or 64 bits: shorter ones count too coarsely."""
    return code in (1, 11)


def combined(
    op_type: str, contents: Sequence[Array], attributes: Mapping[str, Any], code: int
) -> Array | None:
    """What an arithmetic operator gives for contents of which some are expressions; None where none is exact.

    *code* is the element type of the first input; axes of a reduction are all or given in *attributes*.
    """
    try:
        parts = [_elements(content) for content in contents]
        if op_type in _SINGLE:
            return _mapped(_SINGLE[op_type], parts[0])
        if op_type in _SIGNS:
            sign = _SIGNS[op_type]
            return _mapped(lambda a, b: _compare(sign, a, b), *parts).astype(np.bool_)
        if op_type in _REDUCED:
            return _reduced(_REDUCED[op_type], parts[0], attributes)
        if op_type == "Div":
            quotient = _float_quotient if is_float(code) else _integer_quotient
            return _mapped(quotient, *parts)
        if op_type == "Mod":
            c_like = bool(attributes.get("fmod", 0))
            return _mapped(lambda a, b: _rest(a, b, c_like=c_like), *parts)
        fold = _FOLDS.get(op_type)
        if fold is None:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = _mapped(fold, total, part)
        return total
    except NotExact:
        return None


def _elements(content: Array) -> Array:
    flat = np.empty(content.size, object)
    for number, value in enumerate(content.reshape(-1).tolist()):
        flat[number] = element(value)
    return flat.reshape(content.shape)


def _mapped(function: Callable[..., Any], *parts: Array) -> Array:
    return np.asarray(np.frompyfunc(function, len(parts), 1)(*parts), object)


def _integer_quotient(a: Element, b: Element) -> Element:
    return truncated_quotient(_whole(a), _whole(b))


def _rest(a: Element, b: Element, *, c_like: bool) -> Element:
    num, den = _whole(a), _whole(b)
    if den == Expr.constant(0):
        raise NotExact
    return num % den if c_like else floor_mod(num, den)


def _reduced(
    function: Callable[[Element, Element], Element], part: Array, attributes: Mapping[str, Any]
) -> Array:
    axes = attributes.get("axes")
    chosen = tuple(range(part.ndim)) if axes is None else tuple(axis % part.ndim for axis in axes)
    if not all(part.shape[axis] for axis in chosen):
        raise NotExact
    keeps = bool(attributes.get("keepdims", 1))
    ufunc = np.frompyfunc(function, 2, 1)
    for axis in sorted(chosen, reverse=True):
        part = np.asarray(ufunc.reduce(part, axis=axis, keepdims=keeps), object)
    return part
