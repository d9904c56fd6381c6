"""Checks the sizes that a user gives for the symbolic dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onnx_notebook_profiler.errors import SizeError

__all__ = ["Size", "check_sizes", "shown_sizes"]

Size: TypeAlias = "int | np.integer | Sequence[int] | NDArray[Any]"
Sizes: TypeAlias = "int | NDArray[np.int64]"
LARGEST = 2**63 - 1


def check_sizes(
    given: Mapping[str, Size], needed: Iterable[str], known: Iterable[str]
) -> dict[str, Sizes]:
    """Return each size as a Python int, or as a 1-D int64 array where an array was given.

    Raises SizeError: a needed size is missing, a name is not known, a size is negative, no integer,
    beyond 64 bits, or an array of more than one axis or of another length.
    """
    names = list(known)
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise SizeError(f"no dimension is called {name!r} (known: {_listed(names)}){hint}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise SizeError(f"sizes are missing: {_listed(missing)}; give each dimension an integer")
    sizes = {name: _checked(name, size) for name, size in given.items()}
    lengths = {name: len(size) for name, size in sizes.items() if not isinstance(size, int)}
    if len(set(lengths.values()) - {1}) > 1:
        raise SizeError(f"arrays of sizes must have one length, found {lengths}")
    return sizes


def _checked(name: str, size: object) -> Sizes:
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        return _in_range(name, int(size))
    array = np.asarray(size)
    if array.dtype.kind not in "iu":
        raise SizeError(f"the size of {name!r} must be an integer, found {str(size)[:80]!r}")
    if array.ndim == 0:
        return _in_range(name, int(array))
    if array.ndim != 1:
        raise SizeError(f"the sizes of {name!r} must have one axis, found shape {array.shape}")
    if array.size:
        _in_range(name, int(array.min()))
        _in_range(name, int(array.max()))
    return array.astype(np.int64)


def _in_range(name: str, size: int) -> int:
    if size < 0:
        raise SizeError(f"the size of {name!r} must not be negative, found {size}")
    if size > LARGEST:
        raise SizeError(f"the size of {name!r} leaves 64-bit integers: {size}")
    return size


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "") or "none"


def shown_sizes(sizes: Mapping[str, int]) -> str:
    """Return sizes for a message: `N=8, seq=128`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "no sizes"
