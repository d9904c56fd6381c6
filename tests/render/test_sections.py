from __future__ import annotations

import itertools
import re

import pytest
from bs4 import BeautifulSoup

from onnx_notebook_profiler.render import (
    Chart,
    Column,
    Document,
    Series,
    Table,
    to_html,
    to_text,
)
from onnx_notebook_profiler.render.sections import visible


def text_headings(text: str) -> list[str]:
    lines = text.splitlines()
    pairs = itertools.pairwise(lines)
    return [
        line
        for line, rule in pairs
        if line and re.fullmatch("=+|-+", rule) and " " not in rule and len(rule) == len(line)
    ]


def html_headings(html: str) -> list[str]:
    return [tag.get_text() for tag in BeautifulSoup(html, "html.parser").find_all(["h3", "h4"])]


@pytest.mark.parametrize("times", [False, True])
def test_text_and_html_show_the_same_headings(document: Document, times: bool) -> None:
    expected = ["tiny.onnx", "Memory", "Nodes", *(["Slowest"] if times else []), "Events"]
    assert html_headings(to_html(document, times=times)) == expected
    headings = text_headings(to_text(document, times=times))
    assert [line for line in headings if line not in ("time", "event")] == expected


@pytest.mark.parametrize("times", [False, True])
def test_text_and_html_show_the_same_columns(document: Document, times: bool) -> None:
    page = BeautifulSoup(to_html(document, times=times), "html.parser")
    titles = [cell.get_text() for cell in page.find_all("table")[0].find_all("th")]
    assert titles == [
        "#",
        "name",
        *(["time", "time share"] if times else []),
        "live (B)",
        "predicted (B)",
    ]
    header = next(line for line in to_text(document, times=times).splitlines() if "name" in line)
    assert re.split(r"  +", header.strip()) == titles


def test_the_headline_follows_the_times(document: Document) -> None:
    assert visible(document, times=False).headline == "peak 20.0 KiB at node 1"
    assert visible(document, times=True).headline == "peak 20.0 KiB at node 1, 12.3 ms"


def test_text_has_no_times_unless_asked(document: Document) -> None:
    assert "12.3 ms" not in to_text(document)
    assert "12.3 ms" in to_text(document, times=True)
    assert "12.3 ms" not in to_html(document, times=False).replace("&nbsp;", " ")
    assert "12.3 ms" in to_html(document).replace("&nbsp;", " ")


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="row 1 has 2"):
        Table((Column("a"),), ((1,), (1, 2)))


def test_a_series_has_a_value_for_each_node() -> None:
    with pytest.raises(ValueError, match="each of the 2 nodes; it has 1"):
        Chart("c", ("a", "b"), (Series("live", (1,)),))


def test_a_peak_is_a_node() -> None:
    with pytest.raises(ValueError, match="not 2"):
        Chart("c", ("a", "b"), (), peak=2)


def test_bytes_are_never_negative() -> None:
    with pytest.raises(ValueError, match="-5 at 1"):
        Series("live", (1, -5))
