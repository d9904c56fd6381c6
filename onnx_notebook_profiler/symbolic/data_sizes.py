"""Sizes that only data decides: left open, given by the user, or taken at their greatest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.sizes import check_sizes
from onnx_notebook_profiler.symbolic.value_types import DataDim, Inferred, UnknownSize, ValueType

__all__ = ["DataSizes", "Decided", "decide", "every_data_dim"]

DataSizes = Mapping[str, int] | Literal["bounds"]
"""A size for each dimension named, or the upper bound of all that have one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """A graph at the sizes that were chosen; unknown where a size is still open."""

    inferred: Inferred
    types: Mapping[str, ValueType | UnknownSize]
    chosen: Mapping[str, Expr]
    open_names: frozenset[str]

    def body(self, node: int, name: str) -> Decided | None:
        """A body of one of its nodes; None where its shapes were not worked out."""
        inferred = self.inferred.bodies.get((node, name))
        return None if inferred is None else _decided(inferred, self.chosen, self.open_names)

    def runs(self, node: int, name: str) -> Expr | None:
        """How often a body runs; None where nobody knows."""
        times = self.inferred.runs.get((node, name))
        if times is None:
            return None
        times = times.substitute(self.chosen)
        return times if times.symbols.isdisjoint(self.open_names) else None


def every_data_dim(inferred: Inferred) -> dict[str, DataDim]:
    """Those of the graph, and then those that only its bodies have."""
    found = dict(inferred.data_dims)
    for body in inferred.bodies.values():
        found = {**every_data_dim(body), **found}
    return {**inferred.data_dims, **found}


def decide(inferred: Inferred, data_sizes: DataSizes) -> Decided:
    """The graph with the sizes that are given.

    Raises:
        SizeError: A name is no dimension that data decides, or a size is none.
    """
    dims = every_data_dim(inferred)
    chosen = _chosen(dims, data_sizes)
    return _decided(inferred, chosen, frozenset(dims.keys() - chosen.keys()))


def _decided(inferred: Inferred, chosen: Mapping[str, Expr], open_names: frozenset[str]) -> Decided:
    if not chosen and not open_names:
        return Decided(inferred, inferred.types, chosen, open_names)
    types = {
        name: _settled(kind, chosen, open_names) if isinstance(kind, ValueType) else kind
        for name, kind in inferred.types.items()
    }
    return Decided(inferred, types, chosen, open_names)


def _chosen(dims: Mapping[str, DataDim], data_sizes: DataSizes) -> dict[str, Expr]:
    if data_sizes == "bounds":
        chosen = {name: dim.bound for name, dim in dims.items() if dim.bound is not None}
        # A bound may hold another size of this kind.
        for _ in dims:
            chosen = {name: bound.substitute(chosen) for name, bound in chosen.items()}
        return {name: bound for name, bound in chosen.items() if bound.symbols.isdisjoint(dims)}
    if not isinstance(data_sizes, Mapping):
        raise SizeError(
            f"data_sizes is a mapping from dimension to size, or 'bounds', not {data_sizes!r}"
        )
    sizes = check_sizes(data_sizes, (), dims)
    for name, size in sizes.items():
        if not isinstance(size, int):
            raise SizeError(f"the size of {name!r} is one integer here, not an array")
    return {name: Expr.constant(int(size)) for name, size in data_sizes.items()}


def _settled(
    kind: ValueType, chosen: Mapping[str, Expr], open_names: frozenset[str]
) -> ValueType | UnknownSize:
    shape = tuple(size.substitute(chosen) for size in kind.shape)
    left = sorted(open_names & frozenset[str]().union(*(size.symbols for size in shape)))
    if left:
        return UnknownSize(f"its size is decided by data: {', '.join(left)}")
    return ValueType(kind.data_type, shape)
