"""Sizes that only data decides: left open, given by the user, or taken at their greatest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.sizes import check_sizes
from onnx_notebook_profiler.symbolic.value_types import Inferred, UnknownSize, ValueType

__all__ = ["DataSizes", "decided_types"]

DataSizes = Mapping[str, int] | Literal["bounds"]
"""A size for each dimension named, or the upper bound of all that have one."""


def decided_types(inferred: Inferred, data_sizes: DataSizes) -> dict[str, ValueType | UnknownSize]:
    """The types with the sizes that are given; unknown where a size is still open.

    Raises:
        SizeError: A name is no dimension that data decides, or a size is none.
    """
    chosen = _chosen(inferred, data_sizes)
    open_names = inferred.data_dims.keys() - chosen.keys()
    types: dict[str, ValueType | UnknownSize] = {}
    for name, kind in inferred.types.items():
        if inferred.data_dims and isinstance(kind, ValueType):
            types[name] = _decided(kind, chosen, open_names)
        else:
            types[name] = kind
    return types


def _chosen(inferred: Inferred, data_sizes: DataSizes) -> dict[str, Expr]:
    dims = inferred.data_dims
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


def _decided(
    kind: ValueType, chosen: Mapping[str, Expr], open_names: set[str]
) -> ValueType | UnknownSize:
    shape = tuple(size.substitute(chosen) for size in kind.shape)
    left = sorted(open_names & frozenset[str]().union(*(size.symbols for size in shape)))
    if left:
        return UnknownSize(f"its size is decided by data: {', '.join(left)}")
    return ValueType(kind.data_type, shape)
