"""The geometry that every chart shares: ticks in round numbers, curves cut to the pixels."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_notebook_profiler.render.units import BYTE_UNITS

HEADROOM = 1.06
"""The axis reaches this far beyond the largest value."""


def byte_ticks(top: int, count: int = 5) -> tuple[tuple[int, str], ...]:
    """Ticks (bytes, label) from 0 up to at most `top` bytes, all in one binary unit.

    Steps are 1, 2 or 5 times a power of ten of the unit, or a half or quarter of it.
    """
    unit = 1
    power = 0
    while power + 1 < len(BYTE_UNITS) and unit * 1024 <= top:
        unit *= 1024
        power += 1
    step = _byte_step(max(top, 1), unit, count)
    return tuple(
        (value, f"{value / unit:g} {BYTE_UNITS[power]}" if value else "0")
        for value in range(0, top + 1, step)
    )


def _byte_step(top: int, unit: int, count: int) -> int:
    step = max(unit // 4, 1)
    if top <= count * step:
        return step
    step = max(unit // 2, 1)
    if top <= count * step:
        return step
    return unit * _round_step(-(-top // unit), count)


def _round_step(span: int, count: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... that fits at most `count` times into `span`."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * count >= span:
                return factor * power
        power *= 10


def index_ticks(length: int, count: int = 4) -> tuple[int, ...]:
    """Positions 0 ... length - 1 to be named on the axis, at most `count` + 1 of them."""
    return tuple(range(0, length, _round_step(max(length - 1, 1), count)))


def bucket_count(length: int, limit: int) -> int:
    """How many buckets stand for `length` values: one each up to `limit`, then `limit`."""
    return min(length, max(limit, 1))


def decimate(values: Sequence[int | None], limit: int) -> tuple[int | None, ...]:
    """At most `limit` values: the maximum of each bucket, None where a bucket holds no value.

    Bucket b of B covers the positions from b * n // B up to (b + 1) * n // B.
    """
    buckets = bucket_count(len(values), limit)
    if buckets == len(values):
        return tuple(values)
    return tuple(
        max(
            (value for value in values[low:high] if value is not None),
            default=None,
        )
        for low, high in bucket_bounds(len(values), buckets)
    )


def bucket_bounds(length: int, buckets: int) -> tuple[tuple[int, int], ...]:
    """The half-open range of positions that each bucket covers."""
    return tuple((b * length // buckets, (b + 1) * length // buckets) for b in range(buckets))


def highest(series: Sequence[Sequence[int | None]]) -> int:
    """The largest known value of all, 0 where there is none."""
    return max((value for one in series for value in one if value is not None), default=0)
