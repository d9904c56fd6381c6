"""Which `max_mem` a session needs: every limit under which its runs go through, not one bisected number.

A larger limit can fail where a smaller one works, since a larger region may be split otherwise or be taken whole by the
pattern's block. So the limits are gone through from below: the arena says up to which larger limit all of its answers
stay the same, and the next one is tried. Nothing is sampled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.ort.replay import Session, ShrinkingArena, replay

__all__ = ["LimitedArena", "LimitRange", "WorkingLimits", "check_limit", "scan_limits", "scan_runs"]

MOST_STEPS = 20_000


class LimitedArena(ShrinkingArena, Protocol):
    """An arena that knows how far its answers depend on its limit."""

    @property
    def next_limit(self) -> int | None:
        """The least larger limit under which something so far would have gone otherwise; None: there is none."""


@dataclasses.dataclass(frozen=True, slots=True)
class LimitRange:
    """Limits from *first* to *last*, both included; None: and all larger ones."""

    first: int
    last: int | None

    def __contains__(self, limit: int) -> bool:
        return self.first <= limit and (self.last is None or limit <= self.last)

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first:,} and more"
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"


@dataclasses.dataclass(frozen=True, slots=True)
class WorkingLimits:
    """The limits under which a session's runs go through."""

    ranges: tuple[LimitRange, ...]
    """In ascending order, from the most that is live at once on."""

    @property
    def least(self) -> int:
        """The least limit from which all larger ones work."""
        return self.ranges[-1].first

    def works(self, limit: int) -> bool:
        """Whether the runs go through under *limit* bytes; 0 is no limit.

        Limits under which more is reserved than they allow, so that they limit nothing, are not looked at.

        Raises:
            SizeError: *limit* is no integer of 0 or more.
        """
        check_limit(limit)
        return limit == 0 or any(limit in one for one in self.ranges)


def check_limit(limit: object) -> int:
    """*limit* as the bytes of a `max_mem`.

    Raises:
        SizeError: It is no integer of 0 or more.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise SizeError(f"max_mem is a number of bytes, 0 or more (0: no limit), not {limit!r}")
    return limit


def scan_limits(
    session: Session,
    new_arena: Callable[[int], LimitedArena],
    **options: Any,
) -> WorkingLimits:
    """Every limit under which all runs of *session* go through; see :func:`scan_runs`."""
    return scan_runs(session, new_arena, **options)[-1]


def scan_runs(
    session: Session,
    new_arena: Callable[[int], LimitedArena],
    **options: Any,
) -> tuple[WorkingLimits, ...]:
    """Every limit under which the first run of *session* goes through, the first two, and so on to all of them.

    Args:
        new_arena: An arena with this limit.
        options: Those of :func:`~onnx_notebook_profiler.ort.replay.replay`.

    Raises:
        SizeError: The answers change at too many limits to go through them all.
    """
    count = max(1, len(session.runs))
    found: list[list[LimitRange]] = [[] for _ in range(count)]
    limit = max(1, session.least_bytes)
    for _ in range(MOST_STEPS):
        arena = new_arena(limit)
        refusal = replay(session, arena, **options).refusal
        following = arena.next_limit
        last = None if following is None else following - 1
        for ranges in found[: count if refusal is None else max(0, refusal.run)]:
            if ranges and ranges[-1].last == limit - 1:
                ranges[-1] = LimitRange(ranges[-1].first, last)
            else:
                ranges.append(LimitRange(limit, last))
        if following is None:
            return tuple(WorkingLimits(tuple(one)) for one in found)
        limit = following
    raise SizeError(
        f"the arena's answers change at more than {MOST_STEPS:,} limits; the last one tried was {limit:,} bytes"
    )
