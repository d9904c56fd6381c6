"""Which sizes fit into a budget: answered exactly, roundings included, from the nodes that can be the peak."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.budget import Budget, parse_bytes
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.limits import Limit, allowed
from onnx_notebook_profiler.symbolic.peak import Peak
from onnx_notebook_profiler.symbolic.ranges import bounds, grows, is_never_negative, shifted
from onnx_notebook_profiler.symbolic.sizes import check_sizes

__all__ = ["feasible", "largest"]

_GREATEST = 2**48
_FEW = 4_096
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

    def fits(size: int) -> bool:
        sizes = {**at, dim: size}
        try:
            within = int(peak.evaluate(sizes)) <= limit
            return within and bool(allowed(limits, tuple(dims), sizes))
        except SizeError:
            return False

    rivals = [
        piece.bytes.substitute(dict(others)) for piece in peak.within({dim: (1, None)}).pieces
    ]
    beyond = _too_large_from(rivals, dim, limit)
    for one in limits:
        size = one.size.substitute(dict(others))
        if one.kind == "at most" and size.symbols == {dim}:
            end = _too_large_from([size], dim, one.number)
            beyond = end if beyond is None or (end is not None and end < beyond) else beyond
    if beyond is None:
        if not any(dim in rival.symbols for rival in rivals) and not fits(1):
            return 0
        raise SizeError(
            f"no size of {dim!r} is known to be too large: the peak stays within {limit:,} bytes, or does not grow "
            f"with it"
        )
    return _greatest(rivals, dim, limit, beyond, fits)


def _too_large_from(rivals: Sequence[Expr], dim: str, limit: int) -> int | None:
    """A size from which on the peak is proved to be beyond *limit*; None where there is none."""
    low = 1
    while low <= _GREATEST:
        if any(is_never_negative(rival - limit - 1, {dim: (low, None)}) for rival in rivals):
            return low
        low *= 2
    return None


def _greatest(
    rivals: Sequence[Expr], dim: str, limit: int, beyond: int, fits: Callable[[int], bool]
) -> int:
    """The greatest size below *beyond* that fits: ranges that are proved not to fit are skipped, from the top."""
    pending = [(1, beyond - 1)]
    while pending:
        low, high = pending.pop()
        if low > high or _never_fits(rivals, dim, limit, low, high):
            continue
        if high - low < _FEW and not _all_grow(rivals, dim, low):
            found = next((size for size in range(high, low - 1, -1) if fits(size)), 0)
            if found:
                return found
            continue
        if low == high:
            if fits(low):
                return low
            continue
        middle = (low + high) // 2
        pending += [(low, middle), (middle + 1, high)]
    return 0


def _all_grow(rivals: Sequence[Expr], dim: str, low: int) -> bool:
    return all(grows(shifted(rival, {dim: (low, None)})) for rival in rivals)


def _never_fits(rivals: Sequence[Expr], dim: str, limit: int, low: int, high: int) -> bool:
    """True where some rival is beyond *limit* at every size of the range."""
    for rival in rivals:
        try:
            if bounds(rival, {dim: (low, high)}, cuts=0)[0] > limit:
                return True
        except SizeError:
            continue  # no bound is known
    return False


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
    runs = np.broadcast_to(allowed(limits, tuple(dims), {**others, **flat}), math.prod(shape))
    try:
        within = peak.over({**others, **flat}).bytes <= limit
        return np.asarray(within & runs).reshape(shape)
    except SizeError:
        pass  # some combination is impossible: look at each by itself
    result = np.zeros(math.prod(shape), np.bool_)
    for number in range(len(result)):
        try:
            at = {name: int(part[number]) for name, part in flat.items()}
            result[number] = runs[number] and peak.evaluate({**others, **at}) <= limit
        except SizeError:
            continue
    return result.reshape(shape)
