"""What `max_mem` onnxruntime needs for a model, and why."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from onnx_notebook_profiler.allocators import BFCArena
from onnx_notebook_profiler.allocators.arena_chunks import ArenaRegion, ArenaStatistics
from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings
from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.ort.advice import Variant, kept_results, variants
from onnx_notebook_profiler.ort.limit_trials import Trial, try_limits
from onnx_notebook_profiler.ort.replay import Outcome, Refusal, Session, replay
from onnx_notebook_profiler.ort.waterfall import Waterfall, waterfall
from onnx_notebook_profiler.ort.working_limits import (
    LimitRange,
    WorkingLimits,
    check_limit,
    scan_runs,
)

if TYPE_CHECKING:
    from onnx_notebook_profiler.profile.arena_sweep import ArenaSweep

__all__ = ["ArenaMoment", "ArenaReport", "SessionSource", "Verified"]

Sizes = Mapping[str, int]


class SessionSource(Protocol):
    """Where a session's requests come from: the rules, or a trace of the real runtime."""

    @property
    def name(self) -> str:
        """``rules`` or ``trace``."""

    @property
    def caveat(self) -> str:
        """What is not in the requests; empty where all of them are."""

    @property
    def is_bound(self) -> bool:
        """Whether a real session asks for more than these requests."""

    @property
    def model(self) -> LoadedModel:
        """The author's model."""

    @property
    def labels(self) -> Mapping[int, str]:
        """What each node is called."""

    def key(self, sizes: Sizes) -> int:
        """The key of the memory pattern for runs of these sizes."""

    def prepare(self, sizes: Iterable[Sizes], *, pattern: bool) -> None:
        """These sizes will be asked for, in sessions of runs that are all the same."""

    def session(self, sizes: Sequence[Sizes], *, pattern: bool) -> Session:
        """What a session asks for whose runs have these sizes."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaMoment:
    """The arena when the runs ended, or at the request that it refused."""

    max_mem: int
    outcome: Outcome
    statistics: ArenaStatistics
    regions: tuple[ArenaRegion, ...]

    @property
    def works(self) -> bool:
        """Whether all runs went through."""
        return self.outcome.works

    @property
    def refusal(self) -> Refusal | None:
        """The request that was refused."""
        return self.outcome.refusal

    @property
    def split_loss(self) -> int:
        """Bytes in used chunks beyond the rounded requests: chunks too small to be split, handed out whole."""
        return sum(
            chunk.size - -(-chunk.requested // 256) * 256
            for region in self.regions
            for chunk in region.chunks
            if chunk.in_use
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """Limits tried on the real runtime."""

    version: str
    """onnxruntime's."""
    trials: tuple[Trial, ...]
    expected: tuple[bool, ...]
    """For each limit what the report says."""

    @property
    def agreed(self) -> int:
        """Limits under which the real runtime did what the report says."""
        pairs = zip(self.trials, self.expected, strict=True)
        return sum(one.works == works for one, works in pairs)

    @property
    def disagreed(self) -> tuple[Trial, ...]:
        """The others."""
        pairs = zip(self.trials, self.expected, strict=True)
        return tuple(one for one, works in pairs if one.works != works)

    def __str__(self) -> str:
        text = (
            f"{self.agreed} of {len(self.trials)} limits as predicted by onnxruntime {self.version}"
        )
        if self.disagreed:
            text += f"; otherwise under {', '.join(f'{one.max_mem:,}' for one in self.disagreed)}"
        return text


@dataclasses.dataclass(frozen=True)
class ArenaReport:
    """The limits under which a session's runs go through. Bytes are exact integers."""

    model_name: str
    sizes: tuple[Sizes, ...]
    """Of each run."""
    settings: ArenaSettings
    """Those of the arena; its ``max_mem`` is the one that was asked about, 0 for none."""
    pattern: bool
    """Whether the session keeps memory patterns."""
    optimized: bool
    source: SessionSource
    session: Session
    collisions: tuple[tuple[Sizes, Sizes], ...]
    """Sizes of different runs that share a pattern's key."""
    model: LoadedModel
    feeds: Callable[[Sizes], Mapping[str, Any]]
    """Makes the feeds of a run."""
    verified: Verified | None = None
    """What the real runtime did around the edges; None where it was not asked."""

    # which limits work

    @functools.cached_property
    def limits_by_runs(self) -> tuple[WorkingLimits, ...]:
        """For a session that ends after the first run, after the second, and so on to all of them."""
        return scan_runs(self.session, self._arena)

    @property
    def limits(self) -> WorkingLimits:
        """For all runs."""
        return self.limits_by_runs[-1]

    @property
    def first_run(self) -> WorkingLimits:
        """For a session that runs once."""
        return self.limits_by_runs[0]

    @property
    def least_max_mem(self) -> int:
        """The least `max_mem` from which all larger ones work, for all runs."""
        return self.limits.least

    @property
    def working(self) -> tuple[LimitRange, ...]:
        """Every `max_mem` that works for all runs; those left out that are void."""
        return self.limits.ranges

    def works(self, max_mem: int) -> bool:
        """Whether all runs go through under *max_mem* bytes (0: no limit).

        Raises:
            SizeError: *max_mem* is no integer of 0 or more.
        """
        if 0 < check_limit(max_mem) < self.session.least_bytes:
            return self.at(max_mem).works  # it may be void
        return self.limits.works(max_mem)

    def at(self, max_mem: int | None = None) -> ArenaMoment:
        """The arena under *max_mem* bytes when the runs ended, or at the request that it refused.

        Args:
            max_mem: None: the one that the report was asked about, or the least that works.

        Raises:
            SizeError: *max_mem* is no integer of 0 or more.
        """
        limit = self._asked if max_mem is None else check_limit(max_mem)
        arena = self._arena(limit)
        outcome = replay(self.session, arena)
        return ArenaMoment(limit, outcome, arena.statistics(), arena.regions())

    @property
    def _asked(self) -> int:
        return self.settings.max_mem or self.least_max_mem

    # the real runtime

    def verify(self, *, most: int = 40, timeout: float | None = None) -> ArenaReport:
        """Try the real runtime around the edges of what works, in a process of its own.

        Tried are both sides of each edge to the byte, the limit asked about, and the least one of a single run.

        Args:
            most: How many limits to try, those at the least one first.
            timeout: Seconds that it may take in all.

        Returns:
            This report with :attr:`verified`.

        Raises:
            MissingExtraError, OnnxRuntimeError, FeedError: As
                :func:`~onnx_notebook_profiler.ort.limit_trials.try_limits`.
        """
        edges = [self.least_max_mem, self.least_max_mem - 1, self.settings.max_mem]
        edges += [self.first_run.least, self.first_run.least - 1]
        for one in reversed(self.working[:-1]):
            edges += [one.first, one.first - 1, *([one.last, one.last + 1] if one.last else [])]
        reserved = self.session.reserved_bytes
        edges += [reserved - 1, reserved]
        limits = [limit for limit in dict.fromkeys(edges) if limit > 0][:most]
        made: dict[tuple[tuple[str, int], ...], Mapping[str, Any]] = {}
        feeds = [made.setdefault(tuple(sorted(one.items())), self.feeds(one)) for one in self.sizes]
        version, trials = try_limits(
            self.model,
            feeds,
            limits,
            self.settings,
            pattern=self.pattern,
            optimized=self.optimized,
            timeout=timeout,
        )
        expected = tuple(self.works(one.max_mem) for one in trials)
        return dataclasses.replace(self, verified=Verified(version, trials, expected))

    # what may surprise, and what to do

    @functools.cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The other choices of strategy, pattern and shrinkage, least first, the simpler one of equals before."""
        found = variants(
            self.session,
            self.settings.strategy_name,
            pattern=self.pattern,
            shrink=False,
            new_arena=self._arena,
        )
        return tuple(sorted(found, key=lambda one: (one.least, one.what.count(","))))

    @functools.cached_property
    def least_with_kept_results(self) -> int:
        """The least `max_mem` where the caller keeps the results of all runs: they stay in the arena."""
        return kept_results(self.session, self.settings.strategy_name, self._arena)

    @functools.cached_property
    def waterfall(self) -> tuple[Waterfall, Waterfall]:
        """What a first run takes, and what all runs take: from the bytes that live to those that the arena holds.

        Under the limit that was asked about, or the least that works where that one does not.
        """
        limit = self._asked if self.works(self._asked) else self.least_max_mem
        first, every = self.session.first(), self.session
        return waterfall(first, self._arena(limit)), waterfall(every, self._arena(limit))

    @functools.cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is likely to surprise, in sentences."""
        from onnx_notebook_profiler.profile.arena_document import arena_warnings

        return tuple(arena_warnings(self))

    # other sizes

    def over(self, dim: str, low: int, high: int, *, points: int = 64) -> ArenaSweep:
        """The least `max_mem` at sizes of *dim* from *low* to *high*, the others as in the report.

        Args:
            points: How many sizes to look at; all, where there are no more.

        Raises:
            SizeError: The model has no such dimension, or the range is none.
        """
        from onnx_notebook_profiler.profile.arena_sweep import sweep

        return sweep(self, dim, low, high, points)

    def largest(self, dim: str, max_mem: int | None = None, *, at_most: int = 4_096) -> int | None:
        """The largest size of *dim*, up to *at_most*, that works under *max_mem* (0: no limit).

        Returns:
            None where no size works.

        Raises:
            SizeError: The model has no such dimension, or *max_mem* is no limit.
        """
        from onnx_notebook_profiler.profile.arena_sweep import largest

        return largest(self, dim, self._asked if max_mem is None else check_limit(max_mem), at_most)

    def resized(self, sizes: Sizes) -> ArenaReport:
        """The same question at other sizes, the same in every run."""
        return self.of(self, [sizes] * len(self.sizes))

    @staticmethod
    def of(other: ArenaReport, sizes: Sequence[Sizes]) -> ArenaReport:
        """The report of the same session for runs of these sizes."""
        session, collisions = _session(other.source, sizes, use_patterns=other.pattern)
        return dataclasses.replace(
            other, sizes=tuple(sizes), session=session, collisions=collisions, verified=None
        )

    # arenas

    def fresh_arena(self) -> BFCArena:
        """An arena of these settings that nobody has asked for anything."""
        return self._arena(self.settings.max_mem)

    @functools.cached_property
    def ties(self) -> int:
        """How often the runs choose between equal free chunks of different regions, which depends on addresses."""
        arena = self._arena(self._asked)
        replay(self.session, arena)
        return arena.ties

    def _arena(self, limit: int, strategy: str | None = None) -> BFCArena:
        given = dict(self.settings.as_config())
        given["max_mem"] = limit
        if strategy is not None:
            given["arena_extend_strategy"] = strategy  # type: ignore[assignment]
        return BFCArena(**given)  # type: ignore[arg-type]

    # views

    def to_text(self) -> str:
        """The report as text, the same every time."""
        from onnx_notebook_profiler.profile.arena_document import arena_document
        from onnx_notebook_profiler.render.text import to_text

        return to_text(arena_document(self))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as HTML without scripts: a fragment, or written to *path* a page of its own."""
        from onnx_notebook_profiler.profile.arena_document import arena_document
        from onnx_notebook_profiler.render.html import to_html
        from onnx_notebook_profiler.render.page import to_page

        document = arena_document(self)
        if path is not None:
            Path(path).write_text(to_page(document), encoding="utf-8")
        return to_html(document)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()


def make_report(
    model_name: str,
    source: SessionSource,
    sizes: Sequence[Sizes],
    settings: ArenaSettings,
    feeds: Callable[[Sizes], Mapping[str, Any]],
    *,
    pattern: bool,
    optimized: bool,
) -> ArenaReport:
    """The report of a session whose runs have these sizes; *feeds* makes the feeds of a run."""
    session, collisions = _session(source, sizes, use_patterns=pattern)
    return ArenaReport(
        model_name=model_name,
        sizes=tuple(sizes),
        settings=settings,
        pattern=pattern,
        optimized=optimized,
        source=source,
        session=session,
        collisions=collisions,
        model=source.model,
        feeds=feeds,
    )


def _session(
    source: SessionSource, sizes: Sequence[Sizes], *, use_patterns: bool
) -> tuple[Session, tuple[tuple[Sizes, Sizes], ...]]:
    """The session's requests, and the pairs of different sizes that share a key."""
    session = source.session(sizes, pattern=use_patterns)
    known: dict[int, Sizes] = {}
    pairs: list[tuple[Sizes, Sizes]] = []
    for one in sizes if use_patterns else ():
        first = known.setdefault(source.key(one), one)
        if dict(first) != dict(one) and (first, one) not in pairs:
            pairs.append((first, one))
    return session, tuple(pairs)
