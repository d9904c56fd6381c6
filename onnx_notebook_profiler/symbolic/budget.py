"""Amounts of memory as people write them: 8192, "512 MiB", "1.5 GB"."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from onnx_notebook_profiler.errors import SizeError

__all__ = ["Budget", "parse_bytes"]

Budget = int | str
"""Bytes as a number, or as text with a unit."""

_TEXT: Final = re.compile(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([A-Za-z]{0,5})\s*")
_UNITS: Final = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    name: factor
    for power, letter in enumerate("kmgtp", 1)
    for name, factor in (
        (f"{letter}ib", 1024**power),
        (f"{letter}b", 1000**power),
        (letter, 1024**power),
    )
}


def parse_bytes(budget: Budget) -> int:
    """*budget* in bytes, rounded down: ``KiB MiB GiB TiB`` are powers of 1024, ``kB MB GB TB`` of 1000.

    Raises:
        SizeError: It is no amount of memory.
    """
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return budget
    found = _TEXT.fullmatch(budget) if isinstance(budget, str) else None
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise SizeError(
            f"a budget is a number of bytes, or text such as '512 MiB' or '1.5 GB', not {str(budget)[:80]!r}"
        )
    return int(Fraction(found[1]) * unit)
