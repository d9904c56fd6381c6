from __future__ import annotations

import base64
from xml.etree import ElementTree as ET

import pytest
from bs4 import BeautifulSoup, Tag

from onnx_notebook_profiler.render import Chart, Column, Document, Section, Series, Table, to_html

# What an untrusted notebook keeps, as tried in JupyterLab.
ELEMENTS = {
    "div", "h3", "h4", "p", "details", "summary", "table", "thead", "tbody", "tr", "th", "td",
    "strong", "span", "img", "ul", "li",
}  # fmt: skip
ATTRIBUTES = {
    "class", "style", "title", "role", "aria-label", "tabindex", "scope", "align", "cellpadding",
    "alt", "width", "height", "src",
}  # fmt: skip


def parsed(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def attributes(page: BeautifulSoup) -> set[tuple[str, str]]:
    return {(name, str(value)) for tag in page.find_all(True) for name, value in tag.attrs.items()}


def test_only_what_an_untrusted_notebook_keeps(document: Document) -> None:
    page = parsed(to_html(document))
    assert {tag.name for tag in page.find_all(True)} <= ELEMENTS
    assert {name for name, _ in attributes(page)} <= ATTRIBUTES


def test_classes_are_ours_and_mathematics_is_kept_away(document: Document) -> None:
    page = parsed(to_html(document))
    root = page.find(True)
    assert isinstance(root, Tag)
    assert {"onp-report", "mathjax_ignore", "tex2jax_ignore"} == set(root["class"])
    for tag in page.find_all(True)[1:]:
        assert all(name.startswith("onp-") for name in tag.get_attribute_list("class") if name)


def test_hostile_names_inject_nothing(hostile_document: Document, hostile: str) -> None:
    """The same document with a harmless name has the same elements and attributes."""
    html = to_html(hostile_document)
    assert "$" not in html
    page = parsed(html)
    assert {tag.name for tag in page.find_all(True)} <= ELEMENTS
    names = {name for name, _ in attributes(page)}
    assert names <= ATTRIBUTES
    shape = [tag.name for tag in page.find_all(True)]
    table = Table((Column("x"), Column("n", "bytes")), (("x", 1), ("x", "x")))
    chart = Chart("x", ("x", "b"), (Series("x", (1, 2), "area"),), 1, "x", note="x")
    plain = Document("x", "x", (Section("x", ("x", chart, table)), Section("x", (table,), True)))
    assert shape == [tag.name for tag in parsed(to_html(plain)).find_all(True)]
    assert len(html) < 40_000


def test_a_shortened_name_keeps_its_full_text_within_bounds() -> None:
    name = "/model/" + "layer/" * 20 + "end"
    table = Table((Column("name"),), ((name,), ("B" * 5000,), ("short",)))
    cells = parsed(to_html(Document("t", "", (Section("s", (table,)),)))).find_all("td")
    assert cells[0]["title"] == name
    assert cells[0].get_text().startswith("/model/layer/")
    assert cells[0].get_text().endswith("/end")
    assert len(cells[0].get_text()) == 48
    assert len(cells[1]["title"]) == 500
    assert not cells[2].has_attr("title")


def test_cells(document: Document) -> None:
    rows = parsed(to_html(document)).find_all("table")[0].find_all("tr")
    texts = [[cell.get_text().replace("\xa0", " ") for cell in row.find_all("td")] for row in rows]
    assert texts[1:] == [
        ["0", "conv", "12.3 ms", "75.0 %", "1,024", "1,024"],
        ["▸ 1", "sum", "850 ns", "25.0 %", "20,480", "?"],
        ["2", "relu", "0 ns", "0.0 %", "512", "≥ 4,096"],
    ]


def test_figures_stand_on_the_right(document: Document) -> None:
    cells = parsed(to_html(document)).find_all("tr")[1].find_all("td")
    sides = ["left" if "text-align:left" in cell["style"] else "right" for cell in cells]
    assert sides == ["right", "left", "right", "right", "right", "right"]
    assert all(cell["align"] == "right" for cell in cells if "text-align:right" in cell["style"])


def test_a_share_has_a_bar_of_its_length(document: Document) -> None:
    bars = [
        str(cell.find_all("span")[1]["style"])
        for cell in parsed(to_html(document)).find_all("td", class_="onp-share")
    ]
    assert [style.split("width:")[1].split(";")[0] for style in bars] == ["75%", "25%", "0%"]


def test_a_marked_row_differs_without_colour(document: Document) -> None:
    marked = parsed(to_html(document)).find_all("tr", class_="onp-marked")
    assert len(marked) == 1
    assert all(cell.find("strong") for cell in marked[0].find_all("td"))
    assert marked[0].get_text().startswith("▸")


def test_folding(document: Document) -> None:
    folds = parsed(to_html(document)).find_all("details")
    titles = [fold.find_all("summary")[0].get_text() for fold in folds]
    assert titles == ["The chart in words", "Events"]
    assert not any(fold.has_attr("open") for fold in folds)


def test_left_out_rows_are_counted(document: Document) -> None:
    assert "… and 7 more rows" in parsed(to_html(document)).get_text()


def test_a_chart_is_a_picture_of_its_own_with_words(document: Document) -> None:
    page = parsed(to_html(document))
    image = page.img
    assert image is not None
    kind, _, data = str(image["src"]).partition(",")
    assert kind == "data:image/svg+xml;base64"
    root = ET.fromstring(base64.b64decode(data))  # noqa: S314 - the picture is our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "peak 20.0 KiB at node 1 Add 'sum'" in str(image["alt"])
    words = page.find("details", class_="onp-chart-text")
    assert isinstance(words, Tag)
    assert "predicted: first 1,024 B, last 512 B" in words.get_text()
    assert "1 of 3 unknown" in words.get_text()
    assert "covers 3 of 3 nodes" in words.get_text()


def test_text_and_background_are_set_together(document: Document) -> None:
    root = parsed(to_html(document)).find(True)
    assert isinstance(root, Tag)
    style = str(root["style"])
    assert "color:var(--jp-content-font-color1," in style
    assert "background:var(--jp-layout-color0," in style
    assert "#1f2328" in style
    assert "#ffffff" in style


def test_the_same_document_gives_the_same_html(document: Document) -> None:
    assert to_html(document) == to_html(document)


@pytest.mark.parametrize(("count", "limit"), [(1_000, 300_000), (50_000, 1_000_000)])
def test_long_documents_stay_small(count: int, limit: int) -> None:
    """A full curve, and as many rows as a reader may be shown at once."""
    values = tuple(position * 7919 % 2**24 for position in range(count))
    labels = tuple(f"/model/layer.{position}/MatMul" for position in range(count))
    series = (Series("live", values, "area"), Series("predicted", values, "dashed"))
    chart = Chart("c", labels, series, peak=values.index(max(values)), peak_label="x")
    columns = (Column("#", "int"), Column("name"), *(Column(str(i), "bytes") for i in range(6)))
    rows = tuple((i, labels[i], *(values[i],) * 6) for i in range(300))
    document = Document("t", "h", (Section("s", (chart, Table(columns, rows, count - 300))),))
    assert len(to_html(document)) < limit
