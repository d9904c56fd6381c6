"""Turns what a kernel returned into a value that owns exactly its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["adopt", "copy_value", "owners", "value_bytes"]


def value_bytes(value: object) -> int:
    """Bytes of the arrays that a value holds: 0 for strings, the sum of the elements for sequences and maps."""
    if isinstance(value, np.ndarray):
        return 0 if value.dtype.kind in "OUS" else value.nbytes
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], dict) and not _holds_arrays(value[0]):
            return 0  # maps of a sequence are alike
        return sum(value_bytes(one) for one in value)
    if isinstance(value, dict):
        return sum(value_bytes(one) for one in value.values())
    return 0


def _holds_arrays(value: dict[Any, Any]) -> bool:
    """True for a map whose values are tensors or sequences: they are all of one type."""
    return isinstance(next(iter(value.values()), None), np.ndarray | list | tuple)


def _owner(array: Array) -> object:
    """The object at the end of the chain of bases: what really holds the bytes."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


def owners(values: Iterable[object]) -> frozenset[int]:
    """Identities of what holds the bytes of *values*, elements of sequences included."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, np.ndarray):
            found.add(id(_owner(value)))
        elif isinstance(value, list | tuple):
            found.update(owners(value))
    return frozenset(found)


def adopt(value: Any, foreign: frozenset[int]) -> Any:
    """*value* with bytes of its own: C-contiguous, nothing beyond its elements, shared with nobody in *foreign*.

    A fresh array is taken as it is. A view into something larger, strided or foreign is copied.
    """
    if isinstance(value, np.ndarray):
        owner = _owner(value)
        exact = isinstance(owner, np.ndarray) and owner.nbytes == value.nbytes
        if exact and value.flags.c_contiguous and id(owner) not in foreign:
            return value
        return np.array(value, order="C", copy=True)
    if isinstance(value, list | tuple):
        taken: list[Any] = []
        for one in value:
            taken.append(adopt(one, foreign))
            foreign |= owners(taken[-1:])
        return taken
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "todense"):
        return np.asarray(value.todense())
    return value


def copy_value(value: Any) -> Any:
    """A copy with bytes of its own."""
    if isinstance(value, np.ndarray):
        return value.copy(order="C")
    if isinstance(value, list | tuple):
        return [copy_value(one) for one in value]
    return value
