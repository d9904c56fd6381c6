"""Two dimensions of different names in one element-wise operation: equal, or one of them is 1.

The shape engine takes the first of them, which is wrong wherever that one is 1. While :meth:`Broadcasts.active`
lasts, it gets a symbol of its own for the size that the two take together, and the expression is kept here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import onnx_ir as ir
from onnx_shape_inference import _broadcast as engine

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.atoms import Operation
from onnx_notebook_profiler.symbolic.expression import Expr, broadcast
from onnx_notebook_profiler.symbolic.expression_sympy import from_sympy
from onnx_notebook_profiler.symbolic.operations import Op

__all__ = ["Broadcasts"]

_one_at_a_time = threading.Lock()


class Broadcasts:
    """The sizes that different dimensions take together, and the symbols that the engine knows them by."""

    def __init__(self) -> None:
        self._symbols: dict[Expr, str] = {}
        self._sizes: dict[str, Expr] = {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Let the engine ask here where two symbolic dimensions meet; other threads wait for their turn."""
        original = engine._broadcast_dim  # noqa: SLF001 - the engine has no other place to say it

        def combined(
            left: int | ir.SymbolicDim, right: int | ir.SymbolicDim
        ) -> int | ir.SymbolicDim | None:
            if isinstance(left, ir.SymbolicDim) and isinstance(right, ir.SymbolicDim):
                return self._combine(left, right)
            found: int | ir.SymbolicDim | None = original(left, right)
            return found

        with _one_at_a_time:
            engine._broadcast_dim = combined  # noqa: SLF001 - as above
            try:
                yield
            finally:
                engine._broadcast_dim = original  # noqa: SLF001 - as above

    def expand(self, size: Expr) -> Expr:
        """*size* without the symbols that were made here."""
        return size.substitute(self._sizes) if self._sizes else size

    def _combine(self, left: ir.SymbolicDim, right: ir.SymbolicDim) -> ir.SymbolicDim:
        if left == right:
            return left
        ours, theirs = self._size(left), self._size(right)
        if ours is None or theirs is None:
            return ir.SymbolicDim(None)
        together = broadcast(ours, theirs)
        if together == ours or _is_capped(theirs, ours):
            return left
        if together == theirs or _is_capped(ours, theirs):
            return right
        symbol = self._symbols.setdefault(together, f"onp_b{len(self._symbols)}")
        self._sizes[symbol] = together
        return ir.SymbolicDim(symbol)

    def _size(self, dim: ir.SymbolicDim) -> Expr | None:
        if dim.value is None:
            return None
        try:
            symbolic = dim._expr  # noqa: SLF001 - the engine's own expression
            return None if symbolic is None else self.expand(from_sympy(symbolic))
        except (ExpressionError, ValueError):
            return None


def _is_capped(size: Expr, whole: Expr) -> bool:
    """True where *size* is the minimum of *whole* and numbers above 0, as the slice of a table is.

    Together they are *whole*; beyond the cap the model cannot run.
    """
    (monomial, factor), *more = size.terms.items() or (((), 0),)
    if more or factor != 1 or len(monomial) != 1:
        return False
    atom, power = monomial[0]
    if not isinstance(atom, Operation) or atom.op is not Op.MIN or power != 1:
        return False
    caps = [arg for arg in atom.args if arg != whole]
    return len(caps) < len(atom.args) and all(cap.is_constant and cap.value > 0 for cap in caps)
