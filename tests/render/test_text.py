from __future__ import annotations

import unicodedata

from onnx_notebook_profiler.render import Chart, Column, Document, Section, Series, Table, to_text
from onnx_notebook_profiler.render.clean import display_width
from onnx_notebook_profiler.render.text import sparkline

EXPECTED = """\
tiny.onnx
=========
peak 20.0 KiB at node 1

Memory
------
Where it goes.

Memory held after each node
  live         ▁█▁
  peak so far  ▁██
  predicted    ▁·▁
  one block per node; full height is 20.0 KiB
  3 nodes, peak 20.0 KiB at node 1 Add 'sum'
  live: first 1,024 B, last 512 B, highest 20.0 KiB at node 1
  peak so far: first 1,024 B, last 20.0 KiB, highest 20.0 KiB at node 1
  predicted: first 1,024 B, last 512 B, highest 1,024 B at node 0; 1 of 3 unknown
  covers 3 of 3 nodes

Nodes
-----
  #  name  live (B)  predicted (B)
  -  ----  --------  -------------
  0  conv     1,024          1,024
> 1  sum     20,480              ?
  2  relu       512        ≥ 4,096
  … and 7 more rows

Events
------
event
--------
run_node"""


def test_the_whole_text(document: Document) -> None:
    assert to_text(document) == EXPECTED


def test_hostile_names_stay_on_their_line(hostile_document: Document) -> None:
    text = to_text(hostile_document)
    kinds = {unicodedata.category(char) for char in text.replace("\n", "")}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    rows = [line for line in text.splitlines() if line.endswith("  1")]
    assert len(rows) == 2
    assert max(map(display_width, text.splitlines())) <= 2000
    text.encode("utf-8")


def test_wide_characters_are_aligned() -> None:
    table = Table((Column("name"), Column("n", "int")), (("長い名前", 1), ("ab", 22)))
    lines = to_text(Document("t", "", (Section("s", (table,)),))).splitlines()[-2:]
    assert lines == ["長い名前   1", "ab        22"]


def test_a_spark_covers_many_values_and_keeps_the_highest() -> None:
    values = tuple(100 if position == 777 else 1 for position in range(1000))
    spark = sparkline(values, 100)
    assert len(spark) == 60
    assert [position for position, char in enumerate(spark) if char == "█"] == [777 * 60 // 1000]


def test_a_chart_of_many_nodes_says_how_many_a_block_covers() -> None:
    count = 1000
    labels = tuple(map(str, range(count)))
    chart = Chart("c", labels, (Series("live", (1,) * count),))
    assert "highest of up to 17 nodes" in to_text(Document("t", "", (Section("s", (chart,)),)))


def test_nothing_to_show_is_said() -> None:
    empty = Table((Column("a"),), ())
    chart = Chart("c", (), (Series("live", ()),))
    text = to_text(Document("t", "", (Section("s", (empty, chart)),)))
    assert "(none)" in text
    assert "0 nodes" in text
    assert "more row" not in text


def test_one_more_row() -> None:
    table = Table((Column("a"),), (("x",),), more=1)
    text = to_text(Document("t", "", (Section("s", (table,)),)))
    assert text.endswith("… and 1 more row")


def test_folded_sections_show_their_beginning() -> None:
    rows = tuple((position,) for position in range(25))
    table = Table((Column("position", "int"),), rows, more=5, marked=frozenset({3, 20}))
    text = to_text(Document("t", "h", (Section("Events", (table,), folded=True),)))
    figures = [line.strip("> ") for line in text.splitlines()]
    assert "9" in figures
    assert "10" not in figures
    assert "20 more rows" in text
    full = to_text(Document("t", "h", (Section("Events", (table,)),)))
    assert "24" in full
    assert "5 more rows" in full
