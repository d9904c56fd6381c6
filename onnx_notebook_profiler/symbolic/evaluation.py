"""Evaluates many expressions at once, at one size or over arrays of sizes, exactly.

All totals of a model are few monomials times an integer matrix: each distinct operation, monomial
and expression is computed once, and the rest is one sparse or dense product.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnx_notebook_profiler.errors import ExpressionError, SizeError
from onnx_notebook_profiler.symbolic.atoms import Atom, Symbol
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op, integer_value
from onnx_notebook_profiler.symbolic.polynomial import ONE, Monomial
from onnx_notebook_profiler.symbolic.size_arrays import (
    Bounded,
    Holes,
    array_value,
    combined,
    product,
)
from onnx_notebook_profiler.symbolic.sizes import (
    LARGEST,
    Size,
    Sizes,
    check_sizes,
    shown_sizes,
)

__all__ = ["CompiledForms"]

_SAFE = 2.0**62
_EXACT_FLOAT = 2.0**53
_DENSE_ENTRIES = 4_000_000
_CHUNK_ENTRIES = 4_000_000
_Row = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation of the program: its arguments are sums of monomials known by then."""

    op: Op
    args: tuple[_Row, ...]
    target: int
    text: str


class CompiledForms:
    """Expressions prepared for evaluation; call it with sizes to get their values.

    `dims` are the names that may be given (default: those that occur); those that occur must be.
    """

    def __init__(self, expressions: Sequence[Expr], dims: Sequence[str] | None = None) -> None:
        self.expressions = tuple(expressions)
        self.symbols = frozenset[str]().union(*(e.symbols for e in self.expressions))
        self.dims = tuple(sorted(self.symbols) if dims is None else dims)
        self._known = tuple(dict.fromkeys((*self.dims, *sorted(self.symbols))))
        self._atoms: dict[Atom, int] = {}
        self._monomials: dict[Monomial, int] = {}
        self._sources: list[tuple[tuple[int, int], ...]] = []
        self._names: dict[str, int] = {}
        self._program: list[_Step | int] = []
        places: dict[Expr, int] = {}
        self._index = np.array(
            [places.setdefault(expr, len(places)) for expr in self.expressions], dtype=np.intp
        )
        self._distinct = tuple(places)
        self._rows = [self._row(expr) or ((self._monomial(ONE), 0),) for expr in self._distinct]
        self._build_matrix()

    def __len__(self) -> int:
        return len(self.expressions)

    def __call__(self, dims: Mapping[str, Size]) -> NDArray[np.int64]:
        """Return the values as int64 [n], or [sizes, n] where any size is an array.

        Arrays have one axis and one length. Raises SizeError: sizes that are missing, unknown,
        negative or no integers; an operation without a value there; a value beyond 64 bits.
        """
        sizes = check_sizes(dims, self.symbols, self._known)
        scalars = {name: size for name, size in sizes.items() if isinstance(size, int)}
        if len(scalars) == len(sizes):
            return self._at(scalars)[self._index]
        return self._over(sizes)[:, self._index]

    def where_possible(
        self, dims: Mapping[str, Size]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The values as int64 [sizes, n], and at which sizes they have a meaning, bool [sizes].

        Raises:
            SizeError: Sizes that are missing, unknown, negative or no integers.
        """
        sizes = check_sizes(dims, self.symbols, self._known)
        lengths = {len(size) for size in sizes.values() if not isinstance(size, int)}
        count = next(iter(lengths - {1}), 1)
        if 0 in lengths:
            return np.zeros((0, len(self)), np.int64), np.zeros(0, np.bool_)
        holes: Holes = []
        monomials = self._bounded_monomials(sizes, count, holes) if self._fits else None
        values = None if monomials is None else self._products(monomials, count)
        if values is not None:
            possible = np.ones(count, np.bool_)
            for hole in holes:
                possible &= ~hole
            return values[:, self._index], possible
        return self._possible_one_by_one(sizes, count)

    def _possible_one_by_one(
        self, sizes: Mapping[str, Sizes], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        values = np.zeros((count, len(self._rows)), np.int64)
        possible = np.zeros(count, np.bool_)
        for place in range(count):
            with contextlib.suppress(SizeError):
                values[place] = self._at(_sizes_at(sizes, place))
                possible[place] = True
        return values[:, self._index], possible

    def _row(self, expr: Expr) -> _Row:
        """Add what an expression needs to the program; return its (monomial, coefficient)."""
        return tuple((self._monomial(m), c) for m, c in expr.terms.items())

    def _monomial(self, monomial: Monomial) -> int:
        if monomial not in self._monomials:
            factors = tuple((self._atom(atom), power) for atom, power in monomial)
            self._monomials[monomial] = len(self._sources)
            self._program.append(len(self._sources))
            self._sources.append(factors)
        return self._monomials[monomial]

    def _atom(self, atom: Atom) -> int:
        if atom not in self._atoms:
            step = None
            if not isinstance(atom, Symbol):
                assert atom.op is not None
                rows = tuple(self._row(arg) for arg in atom.args)
                step = _Step(atom.op, rows, len(self._atoms), atom.text)
                self._program.append(step)
            else:
                self._names[atom.name] = len(self._atoms)
            self._atoms[atom] = len(self._atoms)
        return self._atoms[atom]

    def _build_matrix(self) -> None:
        """Keep the coefficients as compressed rows, and densely where that is small."""
        lengths = [len(row) for row in self._rows]
        self._starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.intp)
        entries = [entry for row in self._rows for entry in row]
        self._outer = sorted({column for column, _ in entries})
        place = {column: i for i, column in enumerate(self._outer)}
        self._columns = np.array([place[column] for column, _ in entries], dtype=np.intp)
        self._fits = all(abs(c) <= LARGEST for _, c in entries)
        self._coefficients = np.array([c if self._fits else 0 for _, c in entries], dtype=np.int64)
        self._magnitudes = np.zeros(len(self._outer))
        np.maximum.at(self._magnitudes, self._columns, np.abs(self._coefficients.astype(float)))
        self._dense: NDArray[np.float64] | None = None
        if self._fits and len(self._outer) * len(self._rows) <= _DENSE_ENTRIES:
            self._dense = np.zeros((len(self._outer), len(self._rows)))
            rows = np.repeat(np.arange(len(self._rows)), lengths)
            self._dense[self._columns, rows] = self._coefficients

    def _at(self, sizes: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the distinct values at one size."""
        if not self._rows:
            return np.zeros(0, dtype=np.int64)
        monomials = self._exact_monomials(sizes)
        outer = [monomials[column] for column in self._outer]
        if self._fits and all(-LARGEST <= value <= LARGEST for value in outer):
            values = np.array(outer, dtype=np.int64)
            if float(self._magnitudes @ np.abs(values.astype(float))) < _SAFE:
                return np.add.reduceat(self._coefficients * values[self._columns], self._starts)
        exact = [sum(c * monomials[column] for column, c in row) for row in self._rows]
        for value, expr in zip(exact, self._distinct, strict=True):
            if not -LARGEST - 1 <= value <= LARGEST:
                used = {name: sizes[name] for name in sorted(expr.symbols)}
                raise SizeError(
                    f"the value of {str(expr)[:200]} leaves 64-bit integers "
                    f"at {shown_sizes(used)}: {value}"
                )
        return np.array(exact, dtype=np.int64)

    def _exact_monomials(self, sizes: Mapping[str, int]) -> list[int]:
        atoms = [0] * len(self._atoms)
        for name, target in self._names.items():
            atoms[target] = sizes[name]
        monomials = [0] * len(self._sources)
        for step in self._program:
            if isinstance(step, int):
                value = 1
                for atom, power in self._sources[step]:
                    value *= atoms[atom] if power == 1 else atoms[atom] ** power
                monomials[step] = value
                continue
            args = [sum(c * monomials[column] for column, c in row) for row in step.args]
            try:
                atoms[step.target] = integer_value(step.op, args)
            except ExpressionError as error:
                raise SizeError(
                    f"{step.text[:200]} has no value at {shown_sizes(sizes)}: {error}"
                ) from None
        return monomials

    def _over(self, sizes: Mapping[str, Sizes]) -> NDArray[np.int64]:
        """Return the distinct values at many sizes [sizes, distinct]."""
        lengths = {len(size) for size in sizes.values() if not isinstance(size, int)}
        count = next(iter(lengths - {1}), 1)
        monomials = self._bounded_monomials(sizes, count) if self._fits and count > 1 else None
        values = None if monomials is None else self._products(monomials, count)
        return self._one_by_one(sizes, count) if values is None else values

    def _products(self, monomials: list[Bounded], count: int) -> NDArray[np.int64] | None:
        """Coefficients times monomials; None where a sum may overflow."""
        outer = [monomials[column] for column in self._outer]
        bound = float(self._magnitudes @ np.array([value.bound for value in outer]))
        values = [np.broadcast_to(value.values, (count,)) for value in outer]
        if bound < _EXACT_FLOAT and self._dense is not None and values:
            matrix = np.stack(values, axis=1).astype(np.float64)
            return np.asarray(matrix @ self._dense).astype(np.int64)
        return None if bound >= _SAFE else self._sparse_product(values, count)

    def _sparse_product(self, values: list[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
        result = np.zeros((count, len(self._rows)), dtype=np.int64)
        if not self._rows:
            return result
        step = max(1, _CHUNK_ENTRIES // len(self._columns))
        for start in range(0, count, step):
            part = np.stack([value[start : start + step] for value in values], axis=1)
            entries = self._coefficients * part[:, self._columns]
            result[start : start + step] = np.add.reduceat(entries, self._starts, axis=1)
        return result

    def _one_by_one(self, sizes: Mapping[str, Sizes], count: int) -> NDArray[np.int64]:
        """Return the values with Python integers, size by size: exact whatever overflows."""
        result = np.zeros((count, len(self._rows)), dtype=np.int64)
        for i in range(count):
            result[i] = self._at(_sizes_at(sizes, i))
        return result

    def _bounded_monomials(
        self, sizes: Mapping[str, Sizes], count: int, holes: Holes | None = None
    ) -> list[Bounded] | None:
        """Return all monomials as int64 arrays, or None where one may overflow or has no value."""
        if not count:
            return None
        atoms = [Bounded.of(0)] * len(self._atoms)
        for name, target in self._names.items():
            atoms[target] = Bounded.of(sizes[name])
        monomials: list[Bounded] = [Bounded.of(0)] * len(self._sources)
        for step in self._program:
            if isinstance(step, int):
                value = product([(atoms[atom], power) for atom, power in self._sources[step]])
                if value is None:
                    return None
                monomials[step] = value
                continue
            args = [combined([(monomials[column], c) for column, c in row]) for row in step.args]
            value = array_value(step.op, args, holes)
            if value is None:
                return None
            atoms[step.target] = value
        return monomials


def _sizes_at(sizes: Mapping[str, Sizes], place: int) -> dict[str, int]:
    """One of many sizes."""
    return {
        name: size if isinstance(size, int) else int(size[place if len(size) > 1 else 0])
        for name, size in sizes.items()
    }
