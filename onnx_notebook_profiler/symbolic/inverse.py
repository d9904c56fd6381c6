"""Which sizes fit into a budget: answered exactly, roundings included, from the nodes that can be the peak."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.budget import Budget, parse_bytes
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.limits import Limit, allowed
from onnx_notebook_profiler.symbolic.peak import Peak
from onnx_notebook_profiler.symbolic.ranges import (
    Range,
    bounds,
    is_never_negative,
)
from onnx_notebook_profiler.symbolic.sizes import check_sizes

__all__ = ["feasible", "largest"]

_GREATEST = 2**48
_FEW = 16_384

Sizes = int | npt.NDArray[np.int64]
_MAX_GRID = 20_000_000


def largest(
    peak: Peak,
    dims: Sequence[str],
    dim: str,
    budget: Budget,
    others: Mapping[str, int],
    limits: Sequence[Limit] = (),
) -> int:
    """The greatest size of *dim*, 1 or more, at which the peak is within *budget*; 0 where none fits.

    Sizes at which the model cannot run (two dimensions that must be equal are not) do not fit.

    Raises:
        SizeError: A size is missing or wrong, *budget* is no amount of memory, or every size fits.
    """
    limit = parse_bytes(budget)
    needed = [name for name in dims if name != dim]
    check_sizes({dim: 1, **others}, needed, dims)
    at = {dim: 1, **others}

    def fits(asked: Sizes) -> npt.NDArray[np.bool_]:
        sizes = {**at, dim: asked}
        return peak.fits(limit, sizes) & allowed(limits, tuple(dims), sizes)

    positive = all(size > 0 for size in others.values())
    rivals = [one.substitute(dict(others)) for one in peak.rivals(all_positive=positive)]
    beyond = _too_large_from(rivals, dim, limit)
    ends = [dataclasses.replace(one, size=one.size.substitute(dict(others))) for one in limits]
    for one in ends:
        end = _broken_from(one, dim)
        beyond = end if beyond is None or (end is not None and end < beyond) else beyond
    if beyond is None:
        if not any(dim in rival.symbols for rival in rivals) and not fits(1)[0]:
            return 0
        raise SizeError(
            f"no size of {dim!r} is known to be too large: the peak stays within {limit:,} bytes, or does not grow "
            f"with it"
        )

    def never(low: int, high: int) -> bool:
        own = {dim: (low, high)}
        return _never_fits(rivals, limit, own) or any(_never_holds(one, own) for one in ends)

    return _greatest(beyond, fits, never)


def _too_large_from(rivals: Sequence[Expr], dim: str, limit: int) -> int | None:
    """A size from which on the peak is proved to be beyond *limit*; None where there is none."""
    low = 1
    while low <= _GREATEST:
        if any(is_never_negative(rival - limit - 1, {dim: (low, None)}) for rival in rivals):
            return low
        low *= 2
    return None


def _broken_from(limit: Limit, dim: str) -> int | None:
    """A size of *dim* from which on *limit* is proved to be broken; None where there is none."""
    if limit.size.symbols != {dim}:
        return None
    most = max(limit.number, 1) if limit.kind == "1 or" else limit.number
    end = _too_large_from([limit.size], dim, most)
    return _too_large_from([-limit.size], dim, -most) if end is None and limit.kind == "is" else end


def _greatest(
    beyond: int,
    fits: Callable[[Sizes], npt.NDArray[np.bool_]],
    never: Callable[[int, int], bool],
) -> int:
    """The greatest size below *beyond* that fits: ranges that are proved not to fit are skipped, from the top."""
    pending = [(1, beyond - 1)]
    while pending:
        low, high = pending.pop()
        if low > high or never(low, high):
            continue
        if high - low < _FEW:
            found = np.flatnonzero(fits(np.arange(low, high + 1)))
            if len(found):
                return low + int(found[-1])
            continue
        middle = (low + high) // 2
        pending += [(low, middle), (middle + 1, high)]
    return 0


def _never_fits(rivals: Sequence[Expr], limit: int, ranges: Mapping[str, Range]) -> bool:
    """True where some rival is beyond *limit* at every size of the ranges."""
    for rival in rivals:
        try:
            if bounds(rival, ranges, cuts=0)[0] > limit:
                return True
        except SizeError:
            continue  # no bound is known
    return False


def _never_holds(limit: Limit, ranges: Mapping[str, Range]) -> bool:
    """True where *limit* is broken at every size of the ranges."""
    if not limit.size.symbols <= ranges.keys():
        return False
    try:
        low, high = bounds(limit.size, ranges, cuts=0)
    except SizeError:
        return False
    if limit.kind == "at most":
        return low > limit.number
    within = low <= limit.number and (high is None or limit.number <= high)
    one = low <= 1 and (high is None or high >= 1)
    return not within and not (limit.kind == "1 or" and one)


def feasible(
    peak: Peak,
    dims: Sequence[str],
    grid: Mapping[str, Iterable[int]],
    budget: Budget,
    others: Mapping[str, int],
    limits: Sequence[Limit] = (),
) -> npt.NDArray[np.bool_]:
    """Whether the peak is within *budget* at each combination of sizes; an axis for each dimension of *grid*, in order.

    Sizes at which the model cannot run are False.

    Raises:
        SizeError: As :func:`largest`; or there are more than 20 million combinations.
    """
    limit = parse_bytes(budget)
    axes = {
        name: np.asarray(values := list(sizes), None if values else np.int64)
        for name, sizes in grid.items()
    }
    shape = tuple(len(axis) for axis in axes.values())
    if math.prod(shape) > _MAX_GRID:
        raise SizeError(
            f"{math.prod(shape):,} combinations of sizes are too many: {_MAX_GRID:,} at most"
        )
    check_sizes({**dict.fromkeys(axes, 1), **others}, dims, dims)
    for name, axis in axes.items():
        check_sizes({name: axis}, (), dims)
    if not math.prod(shape):
        return np.zeros(shape, np.bool_)
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    flat = {name: part.reshape(-1) for name, part in zip(axes, mesh, strict=True)}
    given = {**others, **flat}
    return (peak.fits(limit, given) & allowed(limits, tuple(dims), given)).reshape(shape)
