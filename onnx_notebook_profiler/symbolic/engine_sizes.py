"""Dimensions on both sides: expressions here, ints and sympy polynomials in the shape engine.

The engine parses names and simplifies as if no size were 0. So it sees polynomials over names of ours: one for each
dimension of the inputs, and one for each operation (a quotient, a minimum) that a size is made of.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

import onnx_ir as ir
import sympy

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.atoms import Abbreviation, Atom, is_large
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_sympy import from_sympy
from onnx_notebook_profiler.symbolic.value_types import DataDim

__all__ = ["EngineSizes", "Shape"]

Shape = tuple[Expr, ...]

_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_NO_RULE = "decided by data, or by a rule that is not known"
_MOST_NAMES = 8
"""Names of large expressions within names of large expressions."""
_UNKNOWN = "?"
"""First letter of the symbols that stand for a size that nobody knows: no dimension's name may hold it."""


_number = functools.lru_cache(4096)(Expr.constant)


class EngineSizes:
    """Translates sizes, and makes symbols for those that nothing gives.

    Args:
        taken: Names of dimensions that the user sees: no new one is called like them.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = set(taken)
        self._dims: dict[Expr, int | ir.SymbolicDim] = {}
        self._symbols: dict[Atom, sympy.Symbol] = {}
        self._meanings: dict[str, Expr] = {}
        self._read: dict[str, Expr] = {}
        self._reasons: dict[str, str] = {}
        self._short: dict[Expr, Expr] = {}
        self.data_dims: dict[str, DataDim] = {}
        """Sizes that data decides, of all graphs."""
        self.abbreviations: dict[str, Expr] = {}
        """Names of sizes whose expressions are too large to be handed on."""

    # new symbols

    def unknown(self, reason: str) -> Expr:
        """A size that nobody knows, for *reason*; equal to itself alone."""
        name = f"{_UNKNOWN}{len(self._reasons)}"
        self._reasons[name] = reason
        return Expr.symbol(name)

    def decided_by_data(
        self, value: str, axis: int, node: int, op: str, bound: Expr | None
    ) -> Expr:
        """A size that only data decides, with a name of its own."""
        name = self._new_name(value, axis)
        self.data_dims[name] = DataDim(name, value, axis, node, op, bound)
        return Expr.symbol(name)

    def shortened(self, size: Expr, value: str, axis: int) -> Expr:
        """*size*, or a name for it where it is too large to be handed on to other sizes."""
        if not is_large(size):
            return size
        known = self._short.get(size)
        if known is None:
            short = Abbreviation(self._new_name(value, axis), size)
            if short.level > _MOST_NAMES:
                known = self.unknown("its size is an expression that is too large")
            else:
                self.abbreviations[short.name] = size
                known = Expr({((short, 1),): 1})
            self._short[size] = known
        return known

    def _new_name(self, value: str, axis: int) -> str:
        stem = _UNSAFE.sub("_", value).strip("_.")[:40] or "data"
        name = f"{stem}.{axis}" if not stem[0].isdigit() else f"_{stem}.{axis}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def why_unknown(self, size: Expr) -> str | None:
        """Why *size* is not known; None where it is."""
        for name in sorted(size.symbols):
            if name.startswith(_UNKNOWN):
                return self._reasons.get(name, _NO_RULE)
        return None

    # there and back

    def to_dim(self, size: Expr) -> int | ir.SymbolicDim:
        """*size* for the engine.

        Raises:
            ExpressionError: It is a negative number.
        """
        found = self._dims.get(size)
        if found is None:
            if size.is_constant:
                if size.value < 0:
                    raise ExpressionError(f"a size is 0 or more, not {size.value}")
                found = size.value
            else:
                found = ir.SymbolicDim(self._polynomial(size))
                self._read[found.value or ""] = size
            self._dims[size] = found
        return found

    def to_shape(self, shape: Shape) -> ir.Shape:
        """A shape for the engine; ExpressionError for a negative size."""
        return ir.Shape([self.to_dim(size) for size in shape])

    def read(self, shape: ir.Shape | None) -> Shape | None:
        """The sizes of a shape of the engine."""
        return None if shape is None else tuple(map(self.read_dim, shape.dims))

    def read_dim(self, dim: int | ir.SymbolicDim) -> Expr:
        """A size of the engine."""
        if isinstance(dim, int):
            return _number(dim)
        text = dim.value
        if text is None:
            return self.unknown(_NO_RULE)
        found = self._read.get(text)
        if found is None:
            found = self._read[text] = self._translate(dim)
        return found

    def names(self) -> dict[str, Expr]:
        """What each text stands for that the engine was given as a dimension."""
        return dict(self._read)

    def _polynomial(self, size: Expr) -> sympy.Expr:
        return sympy.Add(
            *(
                sympy.Mul(factor, *(self._symbol(atom) ** power for atom, power in monomial))
                for monomial, factor in size.terms.items()
            )
        )

    def _symbol(self, atom: Atom) -> sympy.Symbol:
        symbol = self._symbols.get(atom)
        if symbol is None:
            name = f"onp_{len(self._symbols)}"
            symbol = self._symbols[atom] = sympy.Symbol(name, integer=True, positive=True)
            self._meanings[name] = Expr({((atom, 1),): 1})
        return symbol

    def _translate(self, dim: ir.SymbolicDim) -> Expr:
        try:
            symbolic = dim._expr  # noqa: SLF001 - the only access to the engine's own expression
            size = from_sympy(symbolic)
            return size.substitute({name: self._meaning(name) for name in size.symbols})
        except (ExpressionError, ValueError):
            return self.unknown("the rule of its operator gives no integer expression")

    def _meaning(self, name: str) -> Expr:
        found = self._meanings.get(name)
        if found is None:
            # A symbol that a rule of the engine made up.
            found = self._meanings[name] = self.unknown(_NO_RULE)
        return found
