"""Numbers as people read them: bytes in binary units, durations, shares and counts."""

from __future__ import annotations

import math

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
EXACT_BELOW = 10 * 1024
"""Sizes below this many bytes are written exactly."""

_TIME_UNITS = (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9))


def format_int(value: int) -> str:
    """A count with thousands separators: 1,234,567."""
    return f"{value:,}"


def format_bytes(nbytes: int) -> str:
    """A size: exact below 10 KiB ("4,100 B"), else one decimal in binary units ("14.5 MiB")."""
    if abs(nbytes) < EXACT_BELOW:
        return f"{nbytes:,} B"
    scaled = float(nbytes)
    for unit in BYTE_UNITS[1:]:
        scaled /= 1024
        if round(abs(scaled), 1) < 1024:
            return f"{scaled:.1f} {unit}"
    return f"{scaled:,.1f} {BYTE_UNITS[-1]}"


def format_ns(ns: int) -> str:
    """A duration given in nanoseconds, with three figures: "850 ns", "12.3 ms", "1.50 s"."""
    if abs(ns) < 1000:
        return f"{ns} ns"
    for unit, size in _TIME_UNITS[1:]:
        scaled = ns / size
        text = _three_figures(scaled)
        if abs(float(text)) < 1000:
            return f"{text} {unit}"
    return f"{round(ns / 10**9):,} s"


def _three_figures(value: float) -> str:
    for decimals in (2, 1):
        text = f"{value:.{decimals}f}"
        if abs(float(text)) < 10 ** (3 - decimals):
            return text
    return f"{value:.0f}"


def format_share(share: float) -> str:
    """A part of one in percent: 0.453 is "45.3 %"; what would round to nothing is "<0.1 %"."""
    if not math.isfinite(share):
        return "?"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"
