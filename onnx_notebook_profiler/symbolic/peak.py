"""The highest total over the nodes of a model: as a formula, at given sizes, and where it moves."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.atoms import Atom
from onnx_notebook_profiler.symbolic.domination import undominated
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.ranges import Range, check_ranges
from onnx_notebook_profiler.symbolic.sizes import LARGEST
from onnx_notebook_profiler.symbolic.straight_line import compile_greatest

__all__ = ["Breakpoint", "Peak", "PeakCurve", "Piece", "Place"]

_CHUNK = 65_536
_MAX_SWEEP = 50_000_000
_CALLS_BEFORE_PIECES = 16
"""Evaluations of all nodes before it pays to find out which of them can be the peak."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A node of the main graph, or one inside it."""

    node: int
    """In the main graph."""
    inside: str = ""
    """``Loop_3/body/MatMul_7``, from the main graph inwards; empty for the node itself."""

    def __str__(self) -> str:
        return f"node {self.node}" + (f" ({self.inside})" if self.inside else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A node that may be the peak, and the bytes alive at it."""

    place: Place
    bytes: Expr

    @property
    def node(self) -> int:
        """In the main graph."""
        return self.place.node

    def __str__(self) -> str:
        return f"{self.place}: {self.bytes}"


@dataclasses.dataclass(frozen=True, slots=True)
class Breakpoint:
    """The peak is at node *before* below *size*, and at node *after* from there on."""

    size: int
    before: int
    after: int


@dataclasses.dataclass(frozen=True, slots=True)
class PeakCurve:
    """The peak at many sizes."""

    nodes: npt.NDArray[np.intp]
    """First node that reaches it, [sizes]."""
    bytes: npt.NDArray[np.int64]
    """[sizes]."""


class Peak:
    """The maximum over nodes, taken anew at every size: another size may have another peak node.

    Args:
        totals: Bytes alive at each place.
        evaluator: The same, ready to be evaluated.
        ranges: Where the sizes may lie, see :meth:`within`.
        places: What the totals belong to, in the order of the nodes; without them the nodes of the main graph.
    """

    def __init__(
        self,
        totals: Sequence[Expr],
        evaluator: CompiledForms,
        ranges: Mapping[str, Range] | None = None,
        places: Sequence[Place] | None = None,
    ) -> None:
        self._totals = totals
        self._evaluator = evaluator
        self._places = [Place(node) for node in range(len(totals))] if places is None else places
        self._nodes = np.array([place.node for place in self._places], np.intp)
        self._ranges = dict(ranges or {})
        self._calls = 0

    def within(self, ranges: Mapping[str, Any] | None = None, /, **dims: Any) -> Peak:
        """The peak where each named dimension lies in a range: fewer nodes can be it there.

        Args:
            ranges: One mapping, for dimensions whose names are no identifiers.
            dims: (least, greatest) of a dimension; None as greatest for "and more". Others are 0 and more.

        Raises:
            SizeError: A name is unknown, or something is no range of sizes.
        """
        asked = check_ranges({**(ranges or {}), **dims}, self._evaluator.dims)
        return Peak(self._totals, self._evaluator, {**self._ranges, **asked}, self._places)

    @functools.cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Nodes of which one is the peak wherever the sizes lie in the ranges, in the order of the nodes.

        A node is left out only where it is proved that another one always holds as much.
        """
        kept = undominated(self._totals, self._evaluator, self._ranges, first_ones=False)
        return tuple(Piece(self._places[at], self._totals[at]) for at in kept)

    @property
    def expression(self) -> str:
        """The peak as text: the totals of :attr:`pieces`, joined by ``^`` (maximum)."""
        return "^".join(sorted({str(piece.bytes) for piece in self.pieces})) or "0"

    def evaluate(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Any:
        """Peak bytes: int, or int64 [sizes] where a size is an array. 0 for a model without nodes.

        Raises:
            SizeError: As :meth:`~onnx_notebook_profiler.ComputeContext.totals`.
        """
        given = {**(sizes or {}), **dims}
        if self._calls < _CALLS_BEFORE_PIECES:
            self._calls += 1
        elif all(type(size) is int and size > 0 for size in given.values()):
            value = self._contest.greatest(given)
            if value is not None:
                return value
        totals = self._evaluator(given)
        if totals.shape[-1] == 0:
            return 0 if totals.ndim == 1 else np.zeros(len(totals), np.int64)
        return int(totals.max()) if totals.ndim == 1 else totals.max(axis=-1)

    def node(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Any:
        """Index of the first node that reaches the peak: int, or int64 [sizes]. -1 for a model without nodes.

        Raises:
            SizeError: As :meth:`evaluate`.
        """
        totals: npt.NDArray[np.int64] = self._evaluator({**(sizes or {}), **dims})
        if totals.shape[-1] == 0:
            return -1 if totals.ndim == 1 else np.full(len(totals), -1)
        found = self._nodes[totals.argmax(axis=-1)]
        return int(found) if totals.ndim == 1 else found

    def place(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Place:
        """Where the peak is at one size, down to the node inside a branch, loop body or function.

        Raises:
            SizeError: As :meth:`evaluate`; or the model has no nodes, or a size is an array.
        """
        totals = self._evaluator({**(sizes or {}), **dims})
        if totals.ndim != 1 or not len(totals):
            raise SizeError("the peak has one place at one size of a model with nodes")
        return self._places[int(totals.argmax())]

    def by_node(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> Any:
        """The most that is alive while each node runs: int64 [nodes] or [sizes, nodes].

        Raises:
            SizeError: As :meth:`evaluate`.
        """
        totals: npt.NDArray[np.int64] = self._evaluator({**(sizes or {}), **dims})
        if len(self._nodes) == 0 or self._nodes[-1] == len(self._nodes) - 1:
            return totals
        starts = np.flatnonzero(np.diff(self._nodes, prepend=-1))
        return np.maximum.reduceat(totals, starts, axis=-1)

    def over(self, sizes: Mapping[str, Any] | None = None, /, **dims: Any) -> PeakCurve:
        """Peak and peak node at each of many sizes, from the few nodes that can be it.

        Args:
            sizes: One mapping, for dimensions whose names are no identifiers.
            dims: A size for each dimension; arrays of one length are gone through side by side.

        Raises:
            SizeError: As :meth:`evaluate`.
        """
        given = {**(sizes or {}), **dims}
        if not self._totals:
            raise SizeError("a model without nodes has no peak")
        small = any(np.size(size) and np.min(size) < 1 for size in given.values())
        curve = (self._all if small else self._contest).over(given)
        return PeakCurve(self._nodes[curve.nodes], curve.bytes)

    def fits(self, limit: int, sizes: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Whether the peak is at most *limit* at each of many sizes; not where the model cannot run. bool [sizes].

        Raises:
            SizeError: A size is missing, unknown, negative or no integer.
        """
        if not self._totals:
            return np.ones(max((np.size(size) for size in sizes.values()), default=1), np.bool_)
        small = any(np.size(size) and np.min(size) < 1 for size in sizes.values())
        return (self._all if small else self._contest).fits(limit, sizes)

    def breakpoints(
        self,
        dim: str,
        low: int,
        high: int,
        /,
        sizes: Mapping[str, int] | None = None,
        **others: int,
    ) -> tuple[Breakpoint, ...]:
        """Where the peak moves from one node to another while *dim* goes from *low* to *high*, every size looked at.

        Args:
            dim: The dimension that changes.
            low: Its least size.
            high: Its greatest size, included.
            sizes: Sizes of the others, for names that are no identifiers.
            others: Sizes of the others.

        Raises:
            SizeError: As :meth:`evaluate`; or there are more than 50 million sizes.
        """
        check_ranges({dim: (low, high)}, self._evaluator.dims)
        if high - low >= _MAX_SWEEP:
            raise SizeError(
                f"{high - low + 1:,} sizes of {dim!r} are too many: at most {_MAX_SWEEP:,}"
            )
        found: list[Breakpoint] = []
        before = -1
        for start in range(low, high + 1, _CHUNK):
            asked = np.arange(start, min(start + _CHUNK, high + 1))
            nodes = self.over({**(sizes or {}), **others, dim: asked}).nodes
            moves = np.flatnonzero(np.diff(nodes)) + 1
            places = [0, *moves.tolist()] if before not in (-1, int(nodes[0])) else moves.tolist()
            for place in places:
                previous = before if place == 0 else int(nodes[place - 1])
                found.append(Breakpoint(start + place, previous, int(nodes[place])))
            before = int(nodes[-1])
        return tuple(found)

    def rivals(self, *, all_positive: bool) -> tuple[Expr, ...]:
        """Bytes of which the most is the peak: where all sizes are 1 and more, or at any sizes."""
        if all_positive:
            return self._contest.rivals
        return tuple(piece.bytes for piece in self.pieces)

    @functools.cached_property
    def _contest(self) -> _Contest:
        """Who can be the peak at sizes of 1 and more."""
        ranges: dict[str, Range] = dict.fromkeys(self._evaluator.dims, (1, None))
        ranges |= {name: (max(1, low), high) for name, (low, high) in self._ranges.items()}
        first = undominated(self._totals, self._evaluator, ranges, first_ones=True)
        return _Contest(self._totals, first, self._evaluator)

    @functools.cached_property
    def _all(self) -> _Contest:
        return _Contest(self._totals, tuple(range(len(self._totals))), self._evaluator)

    def __repr__(self) -> str:
        return f"Peak({self.expression})"


class _Contest:
    """The expressions that can be the greatest, and whatever makes a size impossible, ready to be evaluated."""

    def __init__(
        self, totals: Sequence[Expr], nodes: Sequence[int], evaluator: CompiledForms
    ) -> None:
        self._nodes = np.array(nodes, np.intp)
        self.rivals = rivals = tuple(totals[node] for node in nodes)
        partial = _partial_operations(totals)
        self._forms = CompiledForms([*rivals, *partial], evaluator.dims)
        self._greatest = compile_greatest(rivals, partial) if rivals else None
        self._names = frozenset(evaluator.dims) | evaluator.symbols
        self._needed = evaluator.symbols
        self._count = len(rivals)

    def greatest(self, sizes: Mapping[str, int]) -> int | None:
        """The greatest value at sizes that are ints of 1 and more; None where a closer look is needed."""
        if self._greatest is None or not self._needed <= sizes.keys() <= self._names:
            return None
        try:
            value = self._greatest(sizes)
        except SizeError:
            return None
        return value if value <= LARGEST else None

    def fits(self, limit: int, sizes: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Whether none is beyond *limit*, at each of the sizes that are possible."""
        values, possible = self._forms.where_possible(sizes)
        return np.asarray((values[:, : self._count] <= limit).all(axis=-1) & possible)

    def over(self, sizes: Mapping[str, Any]) -> PeakCurve:
        """The greatest value and its node at each size."""
        values = np.atleast_2d(self._forms(sizes))[:, : self._count]
        where = values.argmax(axis=-1)
        return PeakCurve(self._nodes[where], np.take_along_axis(values, where[:, None], 1)[:, 0])


def _partial_operations(totals: Iterable[Expr]) -> list[Expr]:
    """The operations in *totals* that have no value at some sizes: those sizes are impossible."""
    found: dict[Atom, None] = {}
    seen: set[Expr] = set()
    pending = list(totals)
    while pending:
        expr = pending.pop()
        if expr in seen:
            continue
        seen.add(expr)
        for atom in {atom for monomial in expr.terms for atom, _ in monomial}:
            pending.extend(atom.args)
            total = atom.op in (None, Op.MAX, Op.MIN) or (
                atom.op in (Op.FLOOR, Op.MOD) and atom.args[1].is_constant
            )
            if not total:
                found[atom] = None
    return [Expr({((atom, 1),): 1}) for atom in sorted(found, key=lambda one: one.key)]
