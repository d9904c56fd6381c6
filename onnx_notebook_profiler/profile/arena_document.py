"""An arena report as headline, sections, tables and bars, for text and HTML alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from onnx_notebook_profiler.allocators.arena_chunks import ArenaRegion
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.ort.events import PlannedEvent, place_events
from onnx_notebook_profiler.ort.waterfall import Waterfall
from onnx_notebook_profiler.profile.arena_report import ArenaMoment, ArenaReport
from onnx_notebook_profiler.render.sections import (
    Bar,
    Bars,
    Block,
    Column,
    Document,
    Section,
    Segment,
    Table,
)
from onnx_notebook_profiler.render.units import format_bytes

__all__ = ["arena_document", "arena_warnings"]

_USED, _PADDING, _IDLE, _REFUSED = "used", "padding", "idle", "refused"
_KINDS = (_USED, _PADDING, _IDLE, _REFUSED)
_HOLLOW = frozenset({_IDLE, _REFUSED})
_MOST_REGIONS = 24
_MOST_RANGES = 8
_ROWS = 200
_CHUNKS = 20


def arena_document(report: ArenaReport) -> Document:
    """The document of a report."""
    moment = report.at()
    sections = [
        Section("Limits", tuple(_limits(report))),
        Section(f"The arena under max_mem {moment.max_mem:,}", tuple(_arena(report, moment))),
        Section("From values to the arena", tuple(_waterfall(report))),
        Section("What to do", tuple(_advice(report))),
    ]
    if report.warnings:
        sections.append(Section("Warnings", report.warnings))
    sections.append(Section("Requests", (_requests(report),), folded=True))
    first = report.sizes[0]
    sizes = ", ".join(f"{name}={size}" for name, size in first.items())
    return Document(
        title=f"onnxruntime's arena for {report.model_name}" + (f" ({sizes})" if sizes else ""),
        headline=_headline(report, moment),
        sections=tuple(sections),
    )


def _runs(report: ArenaReport) -> str:
    count = len(report.sizes)
    return "one run" if count == 1 else f"{count} runs"


def _headline(report: ArenaReport, moment: ArenaMoment) -> str:
    at_least = "at least " if report.source.is_bound else ""
    text = (
        f"max_mem of {at_least}{report.least_max_mem:,} bytes ({format_bytes(report.least_max_mem)}) and more "
        f"works for {_runs(report)}"
    )
    if len(report.sizes) > 1 and report.first_run.least != report.least_max_mem:
        text += f"; a single run needs {report.first_run.least:,}"
    text += "."
    if report.settings.max_mem:
        text += (
            f" max_mem={moment.max_mem:,} {'works' if moment.works else _failure(report, moment)}."
        )
    return text


def _failure(report: ArenaReport, moment: ArenaMoment) -> str:
    refusal = moment.refusal
    assert refusal is not None
    run = f"in run {refusal.run + 1}" if refusal.run >= 0 else "while the session is made"
    text = f"fails {run} at {_where(report, refusal.event)}"
    return f"{text}: {refusal.message.split(':')[0]}"


def _where(report: ArenaReport, event: PlannedEvent) -> str:
    label = report.source.labels.get(event.node, "the beginning of the run")
    what = f"value {event.value!r}" if event.value else event.rule
    return f"{label}, {what} of {event.nbytes:,} bytes"


# sections


def _limits(report: ArenaReport) -> Iterator[Block]:
    settings = report.settings
    graph = "the graph that onnxruntime optimizes" if report.optimized else "the graph as it is"
    pattern = "with memory patterns" if report.pattern else "without memory patterns"
    source = {"rules": "by the rules", "trace": "traced in the real runtime"}[report.source.name]
    yield f"{settings.strategy_name}, {graph}, {pattern}, one thread; requests {source}."
    if report.source.caveat:
        yield report.source.caveat
    if report.verified is not None:
        yield f"Tried: {report.verified}."
    rows: list[tuple[object, ...]] = []
    for words, limits in (("one run", report.first_run), (_runs(report), report.limits)):
        shown = [str(one) for one in limits.ranges[-_MOST_RANGES:]]
        left = len(limits.ranges) - len(shown)
        text = ("… " if left else "") + "; ".join(shown)
        rows.append((words, limits.least, text))
    if len(report.sizes) == 1:
        rows = rows[:1]
    yield Table(
        (Column("for"), Column("least max_mem", "bytes"), Column("what works")), tuple(rows)
    )


def _arena(report: ArenaReport, moment: ArenaMoment) -> Iterator[Block]:
    statistics = moment.statistics
    if moment.refusal is not None:
        yield f"max_mem={moment.max_mem:,} {_failure(report, moment)}."
    elif moment.outcome.lost_blocks:
        runs = ", ".join(str(run + 1) for run in moment.outcome.lost_blocks)
        yield f"All runs go through; run {runs} without the pattern's block, for which there was no room."
    else:
        yield "All runs go through. The regions are those that the last run leaves behind."
    yield _region_bars(report, moment)
    yield _chunks(moment)
    yield Table(
        (Column("what"), Column("bytes", "bytes")),
        (
            ("held: regions and reserved", statistics.total_allocated),
            ("reserved", report.session.reserved_bytes),
            ("in use, the most", statistics.max_in_use),
            ("in use now", statistics.in_use),
            ("padding in it", statistics.padding),
            ("lost in chunks that were not split", moment.split_loss),
            ("idle", statistics.idle),
        ),
    )


def _chunks(moment: ArenaMoment) -> Table:
    """What is in use, largest first."""
    used = [
        (region.number, chunk.owner, chunk.offset, chunk.requested, chunk.size)
        for region in moment.regions
        for chunk in region.chunks
        if chunk.in_use
    ]
    used.sort(key=lambda row: (-row[4], row[0], row[2]))
    columns = (
        Column("region", "int"),
        Column("in use by"),
        Column("offset", "bytes"),
        Column("requested", "bytes"),
        Column("chunk", "bytes"),
    )
    return Table(columns, tuple(used[:_CHUNKS]), more=max(0, len(used) - _CHUNKS))


def _region_bars(report: ArenaReport, moment: ArenaMoment) -> Bars:
    shown = sorted(moment.regions, key=lambda region: -region.size)[:_MOST_REGIONS]
    bars = [_region_bar(region) for region in sorted(shown, key=lambda region: region.number)]
    left = len(moment.regions) - len(shown)
    refusal = moment.refusal
    if refusal is not None:
        event = refusal.event
        label = event.value or event.rule
        segment = Segment(_REFUSED, event.nbytes, f"{_where(report, event)}")
        bars.append(Bar(f"the request: {label}", (segment,), "does not fit"))
    note = f"{left} smaller regions are left out" if left else ""
    title = "Regions at the refused request" if refusal else "Regions after the last run"
    return Bars(title, _KINDS, tuple(bars), _HOLLOW, note)


def _region_bar(region: ArenaRegion) -> Bar:
    segments = []
    for chunk in region.chunks:
        if not chunk.in_use:
            segments.append(Segment(_IDLE, chunk.size, f"offset {chunk.offset:,}"))
            continue
        title = f"{chunk.owner} at offset {chunk.offset:,}"
        segments.append(Segment(_USED, chunk.requested, title))
        segments.append(Segment(_PADDING, chunk.size - chunk.requested, title))
    return Bar(f"region {region.number}", tuple(segments))


def _waterfall(report: ArenaReport) -> Iterator[Block]:
    first, every = report.waterfall
    yield _waterfall_bars("The first run", first)
    if len(report.sizes) > 1:
        yield _waterfall_bars(f"All {_runs(report)}", every)


def _waterfall_bars(title: str, one: Waterfall) -> Bars:
    steps = (
        ("values: the buffers of the plan", one.tensors),
        ("requested: scratch, weights, pattern too", one.requested),
        ("in use: rounded up to chunks", one.in_use),
        ("held: with what is idle", one.held),
    )
    bars = tuple(Bar(label, (Segment("bytes", nbytes),)) for label, nbytes in steps)
    return Bars(f"{title}: the most at any moment", ("bytes",), bars)


def _advice(report: ArenaReport) -> Iterator[Block]:
    best = report.variants[0] if report.variants else None
    if best is not None and best.least < report.least_max_mem:
        saved = report.least_max_mem - best.least
        yield f"{best.what} needs {format_bytes(saved)} less."
    else:
        yield "No other choice of strategy, pattern and shrinkage needs less."
    yield (
        "kNextPowerOfTwo and kSameAsRequested are values of arena_extend_strategy; pattern off is "
        "SessionOptions.enable_mem_pattern = False; shrinkage is the run option "
        "memory.enable_memory_arena_shrinkage = cpu:0."
    )
    rows = [("as it is", report.least_max_mem), *((one.what, one.least) for one in report.variants)]
    kept = report.least_with_kept_results
    rows.append(("as it is, the caller keeps the results", kept))
    marked = frozenset({0})
    yield Table((Column("options"), Column("least max_mem", "bytes")), tuple(rows), marked=marked)


def arena_warnings(report: ArenaReport) -> Iterator[str]:
    """What is likely to surprise, in sentences."""
    reserved = report.session.reserved_bytes
    if report.settings.max_mem and report.settings.max_mem < reserved:
        yield (
            f"{reserved:,} bytes are reserved for weights, more than max_mem={report.settings.max_mem:,}: the limit is "
            f"void, and nothing is limited."
        )
    for one, other in report.collisions:
        yield (
            f"Runs of {_sizes_text(one)} and of {_sizes_text(other)} share one memory pattern: the block of the first "
            f"is held by the other, beside buffers of its own."
        )
    if report.least_with_kept_results > report.least_max_mem:
        yield (
            f"A result is a view of the arena's memory: if the caller keeps those of all runs, "
            f"{report.least_with_kept_results:,} bytes are needed. A copy frees them."
        )
    if report.first_run.least < report.least_max_mem:
        yield (
            f"From {report.first_run.least:,} to {report.least_max_mem - 1:,} bytes a first run can work and a later "
            f"one fail: from the second run on, the memory pattern takes its block first."
        )
    if len(report.working) > 1:
        yield (
            f"More is not always enough: between {report.working[0].first:,} and {report.least_max_mem:,} bytes there "
            f"are limits that work below others that fail."
        )
    ties = report.ties
    if ties:
        yield (
            f"{ties} times two free chunks of one size lie in different regions: which one is taken depends on their "
            f"addresses, so the real arena may differ."
        )


def _sizes_text(sizes: object) -> str:
    assert isinstance(sizes, dict)
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _requests(report: ArenaReport) -> Table:
    """What the first run asks for, where no limit refuses anything."""
    arena = dataclasses.replace(
        report, settings=dataclasses.replace(report.settings, max_mem=0)
    ).fresh_arena()
    made = list(place_events(report.session.made, arena))
    events = list(place_events(report.session.runs[0].events, arena)) if report.session.runs else []
    asked = [event for event in (*made, *events) if event.action is not RuntimeEventAction.FREE]
    rows = [
        (
            report.source.labels.get(event.node, ""),
            event.value,
            event.rule,
            event.nbytes,
            event.nbytes + (event.padding or 0),
            event.padding,
        )
        for event in asked
    ]
    columns = (
        Column("node"),
        Column("value"),
        Column("rule"),
        Column("requested", "bytes"),
        Column("chunk", "bytes"),
        Column("padding", "bytes"),
    )
    return Table(columns, tuple(rows[:_ROWS]), more=max(0, len(rows) - _ROWS))
