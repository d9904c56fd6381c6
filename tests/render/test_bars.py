"""Bars of bytes: their parts in proportion, in words, in text and safely in HTML."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from onnx_notebook_profiler.render import Bar, Bars, Document, Section, Segment, to_html, to_text
from onnx_notebook_profiler.render.bars import bars_img, bars_svg

KINDS = ("used", "padding", "idle", "refused")
HOSTILE = "<script>alert(1)</script>\"'\n"


def bars(label: str = "region 0", title: str = "") -> Bars:
    region = Bar(
        label,
        (Segment("used", 3000, title), Segment("padding", 1000), Segment("idle", 4000)),
    )
    request = Bar("the request", (Segment("refused", 2000),), "does not fit")
    return Bars("Regions", KINDS, (region, request), frozenset({"idle", "refused"}), "a note")


def document(picture: Bars) -> Document:
    return Document("t", "h", (Section("s", (picture,)),))


def test_widths_are_in_proportion() -> None:
    tree = ET.fromstring(bars_svg(bars()))  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    parts = [
        (rect.get("width"), rect.findtext(f"{space}title"))
        for rect in tree.iter(f"{space}rect")
        if rect.find(f"{space}title") is not None
    ]
    assert parts == [
        ("37.50%", "used: 3,000 B"),
        ("12.50%", "padding: 1,000 B"),
        ("50.00%", "idle: 4,000 B"),
        ("25.00%", "refused: 2,000 B"),
    ]


def test_in_words() -> None:
    text = to_text(document(bars()))
    lines = [line.strip() for line in text.splitlines()]
    # 60 characters for 8,000 bytes.
    assert "█" * 22 + "▒" * 8 + "░" * 30 in lines
    assert "?" * 15 in lines
    assert "█ used, ▒ padding, ░ idle, ? refused; full width is 8,000 B" in lines
    assert "region 0: 8,000 B (3,000 B used, 1,000 B padding, 4,000 B idle)" in lines
    assert "the request: 2,000 B refused; does not fit" in lines
    assert "a note" in lines
    html = to_html(document(bars()))
    assert "the request: 2,000 B refused; does not fit" in html


def test_a_tiny_part_is_seen_in_text() -> None:
    one = Bars("x", KINDS, (Bar("r", (Segment("used", 1), Segment("idle", 10**6))),))
    assert "█░" in to_text(document(one))


def test_hostile_words_stay_words() -> None:
    picture = bars(HOSTILE, HOSTILE)
    assert "<script" not in bars_svg(picture)
    assert "<script" not in to_html(document(picture))
    ET.fromstring(bars_svg(picture))  # noqa: S314 - our own text
    source = re.search(r"base64,([^\"]+)", bars_img(picture))
    assert source is not None
    ET.fromstring(base64.b64decode(source[1]))  # noqa: S314 - our own text


def test_what_makes_no_bars() -> None:
    with pytest.raises(ValueError, match="negative"):
        Segment("used", -1)
    with pytest.raises(ValueError, match="'other'"):
        Bars("x", KINDS, (Bar("r", (Segment("other", 1),)),))
    empty = Bars("x", KINDS, ())
    ET.fromstring(bars_svg(empty))  # noqa: S314 - our own text
    assert "x" in to_text(document(empty))
