"""What would make a session need less, and what may surprise: each by playing the session under other options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from onnx_notebook_profiler.ort.replay import Session
from onnx_notebook_profiler.ort.working_limits import LimitedArena, WorkingLimits, scan_limits

__all__ = ["Variant", "kept_results", "variants"]

NewArena = Callable[..., LimitedArena]
"""Makes an arena from a limit and a strategy."""


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """The same session under other options."""

    what: str
    """What to set."""
    limits: WorkingLimits

    @property
    def least(self) -> int:
        """The least limit from which all larger ones work."""
        return self.limits.least


def variants(
    session: Session, strategy: str, *, pattern: bool, shrink: bool, new_arena: NewArena
) -> Iterator[Variant]:
    """Every other choice of strategy, memory pattern and shrinkage."""
    others = {"kNextPowerOfTwo": "kSameAsRequested", "kSameAsRequested": "kNextPowerOfTwo"}
    for use_pattern in (pattern, False) if pattern else (False,):
        for chosen in (strategy, others[strategy]):
            for shrinks in (shrink, True) if not shrink else (True,):
                changes = [
                    *([chosen] if chosen != strategy else []),
                    *(["pattern off"] if use_pattern != pattern else []),
                    *(["shrinkage"] if shrinks != shrink else []),
                ]
                if changes:
                    asked = session if use_pattern else session.without_patterns()
                    limits = _limits(asked, chosen, new_arena, shrink=shrinks)
                    yield Variant(", ".join(changes), limits)


def kept_results(session: Session, strategy: str, new_arena: NewArena, **options: Any) -> int:
    """The least limit where the caller keeps all results instead of copying them."""
    return _limits(session, strategy, new_arena, keep_results=True, **options).least


def _limits(session: Session, strategy: str, new_arena: NewArena, **options: Any) -> WorkingLimits:
    return scan_limits(session, lambda limit: new_arena(limit, strategy), **options)
