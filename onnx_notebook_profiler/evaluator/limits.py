"""How many bytes a run may hold, checked before they are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onnx_notebook_profiler.errors import AllocationError, SizeError
from onnx_notebook_profiler.model import free_memory, shorten

__all__ = ["Limit", "check_max_bytes"]

_SHARE: Final = 0.8
"""Of the free memory, where the user sets no limit."""

_HARMLESS: Final = 2**24
"""Bytes of a request below which the free memory is not asked for: it takes longer than a small model."""


def check_max_bytes(max_bytes: int | None) -> None:
    """Raise where *max_bytes* is no size.

    Raises:
        SizeError: It is negative, or no integer.
    """
    if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 0):
        raise SizeError(f"max_bytes is an integer of 0 or more, or None, not {max_bytes!r}")


class Limit:
    """The limit of one run.

    Args:
        max_bytes: What the run may hold at once, initializers included; None: 80 % of what is free, found out at the
            first large request.
    """

    __slots__ = ("_limit", "max_bytes", "unchecked")

    def __init__(self, max_bytes: int | None) -> None:
        self.max_bytes = max_bytes
        self.unchecked = 0 if max_bytes is not None else _HARMLESS
        """Requests up to this size need no check."""
        self._limit = max_bytes

    def check(self, name: str, nbytes: int, live: Callable[[], int]) -> None:
        """Raise where *nbytes* more, for the value *name*, are too many.

        Args:
            live: Tells the bytes that the run holds so far.

        Raises:
            AllocationError: With what was asked for, what is held and what the limit is.
        """
        held = live()
        if self._limit is None:
            free = free_memory()
            if free is None:
                return
            self._limit = int(_SHARE * (free + held))
        if held + nbytes > self._limit:
            source = "max_bytes" if self.max_bytes is not None else "80 % of the free memory"
            raise AllocationError(
                f"{shorten(name)} needs {nbytes:,} bytes beside the {held:,} that are held: more than the limit of "
                f"{self._limit:,} bytes ({source}). Choose smaller sizes, or give the evaluator a greater max_bytes"
            )
