"""Documents that the tests of rendering share."""

from __future__ import annotations

import pytest

from onnx_notebook_profiler.render import Chart, Column, Document, Section, Series, Table

HOSTILE = (
    "<script>alert('x')</script>",
    '"\' onload=alert(1) x="',
    "line\nbreak\ttab\x07bell\x00nul",
    "\u202egnp.exe\u2066 \u200f mark",
    "$x^2$ and \\(y\\)",
    "</td></table></svg>&amp;]]>-->",
    "A" * 5000,
    "長い名前のノード",
    "lone \ud800 surrogate \uffff",
)


@pytest.fixture
def chart() -> Chart:
    """Three nodes, the second the peak, one predicted size unknown."""
    return Chart(
        title="Memory held after each node",
        labels=("node 0 Conv", "node 1 Add", "node 2 Relu"),
        series=(
            Series("live", (1024, 20480, 512), "area"),
            Series("peak so far", (1024, 20480, 20480)),
            Series("predicted", (1024, None, 512), "dashed"),
        ),
        peak=1,
        peak_label="node 1 Add 'sum'",
        note="covers 3 of 3 nodes",
    )


@pytest.fixture
def document(chart: Chart) -> Document:
    """Every kind of block and of column, a folded section, and one that only times fill."""
    nodes = Table(
        columns=(
            Column("#", "int"),
            Column("name"),
            Column("time", "ns", timed=True),
            Column("time share", "share", timed=True),
            Column("live", "bytes"),
            Column("predicted", "bytes"),
        ),
        rows=(
            (0, "conv", 12_345_678, 0.75, 1024, 1024),
            (1, "sum", 850, 0.25, 20480, None),
            (2, "relu", 0, 0.0, 512, "≥ 4,096"),
        ),
        more=7,
        marked=frozenset({1}),
    )
    slowest = Table((Column("time", "ns", timed=True),), ((5,),))
    return Document(
        title="tiny.onnx",
        headline="peak 20.0 KiB at node 1",
        timed_headline="peak 20.0 KiB at node 1, 12.3 ms",
        sections=(
            Section("Memory", ("Where it goes.", chart)),
            Section("Nodes", (nodes,)),
            Section("Slowest", (slowest,)),
            Section("Events", (Table((Column("event"),), (("run_node",),)),), folded=True),
        ),
    )


@pytest.fixture(params=range(len(HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> str:
    """One hostile name after the other."""
    return HOSTILE[request.param]


@pytest.fixture
def hostile_document(hostile: str) -> Document:
    """The hostile name wherever text can stand."""
    picture = Chart(
        hostile, (hostile, "b"), (Series(hostile, (1, 2), "area"),), 1, hostile, note=hostile
    )
    table = Table((Column(hostile), Column("n", "bytes")), ((hostile, 1), ("x", hostile)))
    section = Section(hostile, (hostile, picture, table))
    return Document(hostile, hostile, (section, Section(hostile, (table,), folded=True)))
