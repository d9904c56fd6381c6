from __future__ import annotations

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_notebook_profiler.render.clean import display_width, escape, printable, shorten


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("/model/MatMul", "/model/MatMul"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x00\x07\x1b[31m", "\\x00\\x07\\x1b[31m"),
        ("\u202egnp\u2069", "\\u202egnp\\u2069"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("a\u00a0b", "a b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("名前", "名前"),
    ],
)
def test_printable(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@given(st.text())
def test_escaped_text_holds_no_markup_and_reads_as_the_printable_text(text: str) -> None:
    escaped = escape(text)
    assert not set("<>\"'$") & set(escaped)
    assert html.unescape(escaped) == printable(text)
    # Nothing that controls the direction or the terminal is left, surrogates included.
    assert not {unicodedata.category(char) for char in escaped} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_width_counts_columns() -> None:
    assert display_width("abc") == 3
    assert display_width("名前") == 4
    assert display_width("e\u0301") == 1


def test_shortening_takes_the_middle_out() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcde…hijk"
    assert shorten("名前名前名前", 7) == "名…前"


@given(st.text(), st.integers(1, 40))
def test_shortened_text_fits_and_keeps_both_ends(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert display_width(short) <= limit
    assert short.isprintable()
    if len(text) <= limit and text.isascii() and text.isprintable():
        assert short == text


def test_a_huge_name_is_cut_before_it_is_cleaned() -> None:
    assert shorten("x\n" * 10**6, 9) == "x\\nx…x\\n"[:4] + "…" + "\\nx\\n"[-4:]
