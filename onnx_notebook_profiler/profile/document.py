"""A profile as headline, sections, tables and a chart, for text and HTML alike."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_notebook_profiler.profile.result import NodeProfile, Order, Profile
from onnx_notebook_profiler.render.sections import Chart, Column, Document, Section, Series, Table
from onnx_notebook_profiler.render.units import format_bytes, format_int, format_ns

__all__ = ["memory_chart", "profile_document"]

_ROWS = 40
"""Rows of a table when nothing else is asked for."""

_EVENT_ROWS = 200


def profile_document(
    profile: Profile, *, top: int | None = None, sort: Order = "order"
) -> Document:
    """The document of a profile.

    Args:
        top: Rows of each table; None: 40. Rows that are left out are counted.
        sort: Order of the nodes.

    Raises:
        ValueError: *top* is negative, or *sort* is no order.
    """
    if sort not in ("order", "time", "memory"):
        raise ValueError(f"sort is 'order', 'time' or 'memory', not {sort!r}")
    limit = _ROWS if top is None else top
    if limit < 0:
        raise ValueError(f"top is a number of rows, 0 or more, not {top}")
    sections = [
        Section("Memory", tuple(_memory(profile))),
        Section("Nodes", tuple(_nodes(profile, limit, sort))),
        Section("Buffers alive at the peak", (_live(profile, limit),)),
        Section("Operators", (_operators(profile, limit),)),
    ]
    if profile.unknown:
        sections.append(Section("Unknown sizes", tuple(_unknown(profile, limit))))
    sections.append(
        Section(
            "Events", tuple(_events(profile, _EVENT_ROWS if top is None else limit)), folded=True
        )
    )
    dims = ", ".join(f"{name}={size}" for name, size in profile.dims.items())
    return Document(
        title=profile.model_name + (f" ({dims})" if dims else ""),
        headline=". ".join(_headline(profile, timed=False)) + ".",
        timed_headline=". ".join(_headline(profile, timed=True)) + ".",
        sections=tuple(sections),
    )


def _headline(profile: Profile, *, timed: bool) -> list[str]:
    if profile.error:
        first = f"The run failed after {len(profile.nodes)} of {profile.node_count} nodes: {profile.error}"
        sentences = [first.rstrip(".")]
    else:
        sentences = []
    if profile.peak_label and profile.peak_bytes is not None:
        sentences.append(f"Peak {format_bytes(profile.peak_bytes)} at {profile.peak_label}")
    if timed and profile.nodes and profile.total_ns:
        slowest = sorted(_time_by_operator(profile), reverse=True)[:3]
        share = sum(time for time, _ in slowest) / profile.total_ns
        names = ", ".join(op for _, op in slowest)
        sentences.append(f"{names} take {share:.0%} of {format_ns(profile.total_ns)}")
    if profile.unknown:
        count = len(profile.unknown)
        what = "value has a size" if count == 1 else "values have sizes"
        sentences.append(f"{count} {what} that no formula gives")
    if profile.generated:
        names = ", ".join(profile.generated)
        sentences.append(f"Generated values were fed to {names}")
    return sentences or ["No node ran"]


def _time_by_operator(profile: Profile) -> list[tuple[int, str]]:
    return [(total.time_ns, total.op) for total in profile.operators]


def memory_chart(profile: Profile) -> Chart:
    """Live bytes over the nodes, the peak so far, and what the formulas predict."""
    nodes = profile.nodes
    position = _peak_position(profile, nodes)
    inside: dict[int, int] = {}
    inside_predicted: dict[int, int] = {}
    for node in profile.body_nodes:
        owner = node.path[0][0]
        inside[owner] = max(inside.get(owner, 0), node.live_bytes or 0)
        inside_predicted[owner] = max(inside_predicted.get(owner, 0), node.predicted_bytes or 0)
    predicted = tuple(
        None
        if node.predicted_bytes is None
        else max(node.predicted_bytes, inside_predicted.get(node.index, 0))
        for node in nodes
    )
    known = sum(value is not None for value in predicted)
    series = [
        Series(
            "live",
            tuple(
                None if one.live_bytes is None else max(one.live_bytes, inside.get(one.index, 0))
                for one in nodes
            ),
            "area",
        ),
        Series("peak so far", tuple(node.peak_bytes for node in nodes), "line"),
    ]
    note = f"{len(nodes)} of {profile.node_count} nodes ran"
    if profile.backend != "reference":
        note = f"{len(nodes)} nodes ran for {profile.node_count} of the model"
    if known:
        series.append(Series("predicted", predicted, "dashed"))
    if known or profile.backend == "reference":
        note += f"; {known} of them are predicted"
    return Chart(
        title=f"Memory of {profile.model_name}",
        labels=tuple(_node_label(node) for node in nodes),
        series=tuple(series),
        peak=position,
        peak_label=profile.peak_label,
        note=note,
    )


def _peak_position(profile: Profile, nodes: Sequence[NodeProfile]) -> int:
    """Which of *nodes* shows the peak, or holds the node inside that does; -1 where none is among them."""
    there = [at for at, node in enumerate(nodes) if node.index == profile.peak_node]
    equal = [at for at in there if nodes[at].live_bytes == profile.peak_bytes]
    found = equal or (there if profile.peak_node >= 0 else [])
    return found[0] if found else -1


def _node_label(node: NodeProfile) -> str:
    return f"{node.index} {node.op}" + (f" {node.name}" if node.name else "")


def _memory(profile: Profile) -> list[str | Table | Chart]:
    if not profile.nodes:
        return ["No node ran, so there is nothing to draw."]
    if profile.peak_bytes is None:
        notes = (f"{note[:1].upper()}{note[1:]}." for note in profile.notes)
        return [" ".join(["There are no bytes to draw.", *notes])]
    peak = _row_at_peak(profile)
    accounts = ""
    if peak is not None and peak.execution_bytes is not None and peak.io_bytes is not None:
        accounts = (
            f": {format_int(peak.execution_bytes)} B in the execution account "
            f"(initializers and intermediates), {format_int(peak.io_bytes)} B of outputs"
        )
    return [
        memory_chart(profile),
        f"Peak {format_int(profile.peak_bytes)} B at {profile.peak_label}{accounts}. {_agreement(profile)}",
    ]


def _row_at_peak(profile: Profile) -> NodeProfile | None:
    """The main graph's row that shows the peak; None where the peak lies inside a body."""
    for node in profile.nodes:
        if node.index == profile.peak_node and node.live_bytes == profile.peak_bytes:
            return node
    return None


def _agreement(profile: Profile) -> str:
    """At how many nodes the measured bytes are what was predicted."""
    if profile.backend != "reference":
        return _runtime_words(profile)
    if not any(node.predicted_bytes is not None for node in profile.nodes):
        return "No node could be predicted: a value of unknown size is alive at each."
    inside = "nodes inside branches, loops and functions"
    equal, rest = [], ""
    for nodes, words in ((profile.nodes, "nodes"), (profile.body_nodes, inside)):
        if not nodes:
            continue
        predicted = [node for node in nodes if node.predicted_bytes is not None]
        apart = [node for node in predicted if node.difference]
        equal.append(f"{len(predicted) - len(apart)} of {len(nodes)} {words}")
        if len(predicted) < len(nodes):
            rest += f" At {len(nodes) - len(predicted)} {words} a value of unknown size is alive."
        if apart:
            reasons = ", ".join(dict.fromkeys(node.difference for node in apart))
            rest += f" They differ at {len(apart)} {words}: {reasons}."
    return f"Measured and predicted bytes are equal at {' and at '.join(equal)}.{rest}"


def _nodes(profile: Profile, limit: int, sort: Order) -> list[str | Table | Chart]:
    rows = list(profile.nodes)
    if sort == "time":
        rows.sort(key=lambda node: -node.time_ns)
    elif sort == "memory":
        rows.sort(key=lambda node: -(node.live_bytes or 0))
    shown = rows[:limit]
    shown += [node for node in rows[limit:] if limit and node.index == profile.peak_node]
    tables: list[str | Table | Chart] = [_node_table(profile, shown, len(rows), bodies=False)]
    if profile.body_nodes:
        inner = sorted(profile.body_nodes, key=lambda node: -(node.live_bytes or 0))
        tables.append("Nodes inside branches, loops and functions, most live bytes first:")
        tables.append(_node_table(profile, inner[:limit], len(inner), bodies=True))
    return tables


def _node_table(
    profile: Profile, rows: Sequence[NodeProfile], count: int, *, bodies: bool
) -> Table:
    differs = any(node.difference for node in rows)
    measured = any(node.scratch_bytes is not None for node in rows)
    is_ours = profile.backend == "reference"
    foreign = is_ours and any(node.tier in {"onnxruntime", "reference"} for node in rows)
    mapped = any(node.mapping not in ("", "same") for node in rows)
    columns = [
        *([Column("inside"), Column("runs", "int")] if bodies else []),
        Column("node", "int"),
        Column("op"),
        Column("name"),
        Column("time", "ns", timed=True),
        Column("of the time", "share", timed=True),
        Column("output", "bytes"),
        Column("live", "bytes"),
        Column("peak", "bytes"),
        *([Column("predicted", "bytes")] if is_ours else []),
        *([Column("scratch", "bytes")] if measured else []),
        *([Column("kernel")] if foreign else []),
        *([Column("stands for")] if mapped else []),
        *([Column("difference")] if differs else []),
    ]
    cells = []
    for node in rows:
        place = " ".join(f"{index}/{name}" for index, name in node.path)
        cells.append(
            (
                *((place, node.runs) if bodies else ()),
                node.index if node.index >= 0 else "",
                node.op,
                node.name,
                node.time_ns,
                node.time_ns / profile.total_ns if profile.total_ns else None,
                node.output_bytes,
                node.live_bytes,
                node.peak_bytes,
                *((node.predicted_bytes,) if is_ours else ()),
                *((node.scratch_bytes,) if measured else ()),
                *((node.tier,) if foreign else ()),
                *((_stands_for(node),) if mapped else ()),
                *((node.difference,) if differs else ()),
            )
        )
    peak = -1 if bodies else _peak_position(profile, rows)
    marked = frozenset(() if peak < 0 else (peak,))
    return Table(tuple(columns), tuple(cells), more=count - len(rows), marked=marked)


def _stands_for(node: NodeProfile) -> str:
    """In words, which of the author's nodes a node of onnxruntime's is."""
    if node.mapping == "fused" or len(node.stands_for) > 1:
        prefix = "part of " if node.mapping == "part" else ""
        return f"{prefix}nodes " + ", ".join(map(str, node.stands_for))
    words = {"part": "part of it", "added": "added by onnxruntime", "unknown": "cannot be told"}
    return words.get(node.mapping, "")


def _runtime_words(profile: Profile) -> str:
    """What the figures of onnxruntime are."""
    later = f", run {len(profile.measured_runs)} of its session" if profile.measured_runs else ""
    first = f"Live bytes of {profile.backend}{later}: asked for and not given back, reserved weights included."
    return " ".join([first, *(f"{note[:1].upper()}{note[1:]}." for note in profile.notes)])


def _live(profile: Profile, limit: int) -> Table:
    columns = (
        Column("buffer"),
        Column("bytes", "bytes"),
        Column("of the peak", "share"),
        Column("account"),
        Column("made by"),
    )
    rows = tuple(
        (
            buffer.name,
            buffer.nbytes,
            buffer.nbytes / profile.peak_bytes if profile.peak_bytes else None,
            buffer.account,
            f"node {buffer.node_index} {buffer.op}" if buffer.node_index >= 0 else "",
        )
        for buffer in profile.live_at_peak[:limit]
    )
    return Table(columns, rows, more=len(profile.live_at_peak) - len(rows))


def _operators(profile: Profile, limit: int) -> Table:
    columns = (
        Column("op"),
        Column("nodes", "int"),
        Column("time", "ns", timed=True),
        Column("of the time", "share", timed=True),
        Column("output", "bytes"),
        Column("most live", "bytes"),
    )
    rows = tuple(
        (
            total.op,
            total.count,
            total.time_ns,
            total.time_ns / profile.total_ns if profile.total_ns else None,
            total.output_bytes,
            total.peak_live_bytes,
        )
        for total in profile.operators[:limit]
    )
    return Table(columns, rows, more=len(profile.operators) - len(rows))


def _unknown(profile: Profile, limit: int) -> list[str | Table | Chart]:
    columns = (Column("value"), Column("node", "int"), Column("op"), Column("reason"))
    rows = tuple(
        (one.value, one.node if one.node >= 0 else "", one.op, one.reason)
        for one in profile.unknown[:limit]
    )
    return [
        f"Sizes are known by formula for {profile.coverage}; no prediction holds the others.",
        Table(columns, rows, more=len(profile.unknown) - len(rows)),
    ]


def _events(profile: Profile, limit: int) -> list[str | Table | Chart]:
    columns = (
        Column("action"),
        Column("kind"),
        Column("name or op"),
        Column("node", "int"),
        Column("duration", "ns", timed=True),
        Column("execution", "bytes"),
        Column("execution peak", "bytes"),
        Column("io", "bytes"),
    )
    rows = tuple(
        (
            event.action.label,
            event.kind if event.kind != "unknown" else "",
            event.name or event.op_type,
            event.node_index if event.node_index >= 0 else "",
            event.duration_ns or "",
            event.allocated_bytes,
            event.peak_bytes,
            event.io_allocated_bytes,
        )
        for event in profile.events[:limit]
    )
    counts: dict[str, int] = {}
    for event in profile.events:
        counts[event.action.label] = counts.get(event.action.label, 0) + 1
    text = ", ".join(f"{count} {label}" for label, count in counts.items()) or "none"
    return [
        f"{len(profile.events)} events: {text}.",
        Table(columns, rows, more=len(profile.events) - len(rows)),
    ]
