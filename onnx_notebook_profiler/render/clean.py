"""Hostile text made harmless: names inside a model may hold anything.

`printable` makes invisible characters visible, `shorten` bounds the width, `escape` is the one
function through which text enters HTML or SVG.
"""

from __future__ import annotations

import html
import unicodedata

ELLIPSIS = "…"
TITLE_LIMIT = 500
"""Columns of the full text that an HTML `title` attribute may hold."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""The text with control, direction, zero-width and unassigned characters written out.

    A newline becomes the two characters `\n`, a right-to-left override becomes `\u202e`; other
    kinds of space become a space.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    if unicodedata.category(char) == "Zs":
        return " "
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """Columns that printable text takes in a fixed-width font.

    That is 2 for wide East-Asian characters, 0 for combining marks, 1 for the rest.
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me") else 1


def shorten(text: str, limit: int) -> str:
    """Printable text of at most `limit` columns; what is too long loses its middle."""
    if len(text) > 2 * limit:
        text = text[:limit] + ELLIPSIS + text[-limit:]
    text = printable(text)
    if display_width(text) <= limit:
        return text
    room = max(limit - 1, 0)
    tail = _fitting(text[::-1], room // 2)[::-1]
    while tail and _char_width(tail[0]) == 0:
        tail = tail[1:]
    return _fitting(text, room - room // 2) + ELLIPSIS + tail


def _fitting(text: str, width: int) -> str:
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:position]
    return text


def escape(text: str) -> str:
    """Text for HTML and SVG, in content and in quoted attributes.

    Control characters are written out, markup is escaped, and `$` is a character reference, which
    keeps it from being read as mathematics in a page's source. Readers of the finished page look
    at the character itself: they are kept away by the class `mathjax_ignore` around it.
    """
    return html.escape(printable(text), quote=True).replace("$", "&#36;")
