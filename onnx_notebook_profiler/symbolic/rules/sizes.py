"""Arithmetic on the engine's dimensions, which may be numbers or expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import sympy

__all__ = ["Dim", "ceil_div", "dim_of", "expression", "ints", "known_dims"]

Dim = int | ir.SymbolicDim


def expression(dim: Dim) -> Any:
    """A sympy expression.

    Raises:
        ValueError: The dimension has no name.
    """
    if isinstance(dim, int):
        return sympy.Integer(dim)
    found = dim._expr  # noqa: SLF001 - the engine's own expression of the dimension
    if found is None:
        raise ValueError("a dimension is not known")
    return found


def dim_of(value: Any) -> Dim:
    """A dimension of a sympy expression."""
    simple = sympy.sympify(value)
    return int(simple) if simple.is_Integer else ir.SymbolicDim(simple)


def ceil_div(value: Any, divisor: int) -> Any:
    """*value* / *divisor*, rounded up."""
    return sympy.floor((value + divisor - 1) / sympy.Integer(divisor))


def known_dims(value: ir.Value | None) -> list[Dim] | None:
    """The dimensions of a value, all of them numbers or expressions; None where one is not known."""
    if value is None or value.shape is None:
        return None
    dims = list(value.shape.dims)
    return None if any(not isinstance(dim, int) and dim.value is None for dim in dims) else dims


def ints(node: ir.Node, name: str, default: Sequence[int]) -> list[int]:
    """An attribute of integers."""
    return list(node.attributes[name].as_ints()) if name in node.attributes else list(default)
