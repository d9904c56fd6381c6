"""Patterns of RE2, which onnx's operators on strings use, written for Python's ``re``.

The syntax is that of https://github.com/google/re2/wiki/Syntax. Its short classes and word borders know ASCII only,
``$`` is the end of the text, flags within a pattern hold up to the end of their group, and sets may name classes.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Final

from onnx_notebook_profiler.errors import UnsupportedOperatorError

__all__ = ["compile_pattern", "longest_finder"]

_WORD: Final = "0-9A-Za-z_"
_LAST: Final = rf"\U{sys.maxunicode:08x}"
_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": _WORD,
    "xdigit": "0-9A-Fa-f",
}
_SHORT: Final = {"d": "0-9", "w": _WORD, "s": r"\t\n\f\r "}
_BORDER: Final = f"(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}])"
_INNER: Final = f"(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}])"
_REPEAT: Final = re.compile(r"\{\d+(,\d*)?\}")
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_CODE: Final = re.compile(r"\\x\{([0-9A-Fa-f]+)\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]*))?([:)])")
_NAMED: Final = re.compile(r"\[:(\^?)(\w+):\]")
_SET: Final = r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_ATOM: Final = (
    rf"(?:{_SET}|\\[pP](?:\{{\^?\w+\}}|\w)|\\[dDwWsSnrtvf]|\\[^\w]|[^\\\[\](){{}}|*+?^$])"
)
_NAMED_SOMEWHERE: Final = re.compile(rf"\\U[0-9a-f]{{8}}|\\x[0-9A-Fa-f]{{2}}|{_ATOM}")
_EDGE: Final = r"(?:\\[bBAz]|[\^$])*"
_PLAIN: Final = re.compile(
    rf"{_EDGE}(?:{_ATOM}(?:\{{\d+\}})?)+(?:[*+?]|\{{\d+,\d*\}})?{_EDGE}(?=\||\Z)"
)
"""Atoms of one character each, the last of which may repeat: the first match found is the longest one."""

_ALL_FLAGS: Final = re.compile(r"(?:\(\?[imsU]+\))?")


def _plain_branches(pattern: str) -> list[str]:
    """The alternatives of a pattern that has nothing but plain ones; else none."""
    flags = _ALL_FLAGS.match(pattern)
    prefix = flags.group() if flags else ""
    branches, at = [], len(prefix)
    while found := _PLAIN.match(pattern, at):
        branches.append(prefix + found.group())
        if found.end() == len(pattern):
            return branches
        at = found.end() + 1
    return []


def _code(code: int) -> str:
    return rf"\U{code:08x}"


@functools.cache
def _inverted(body: str) -> str:
    """The characters that a set of ranges does not hold."""
    found = re.compile(f"[{body}]")
    return _ranges(lambda text: found.match(text) is None)


@functools.cache
def _category(name: str) -> str:
    """The characters of a general category such as L or Lu."""
    if name == "Any":
        return rf"\x00-{_LAST}"
    body = _ranges(lambda text: unicodedata.category(text).startswith(name))
    if not body:
        raise UnsupportedOperatorError(f"the class {name!r} of a pattern is no general category")
    return body


def _ranges(holds: Callable[[str], bool]) -> str:
    parts, start = [], -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and holds(chr(code))
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            parts.append(f"{_code(start)}-{_code(code - 1)}")
            start = -1
    return "".join(parts)


class _Writer:
    """Reads a pattern of RE2 from left to right and writes one of Python's."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.parts: list[str] = []
        # for each open group the flags that were set within it, and whether $ ends lines there
        self.groups: list[tuple[list[str], bool]] = [([], False)]

    def write(self) -> str:
        """The whole pattern."""
        while self.at < len(self.pattern):
            sign = self.pattern[self.at]
            if sign == "\\":
                self.parts.append(self._escape())
            elif sign == "[":
                self.parts.append(self._set())
            elif sign == "(":
                self._open()
            else:
                self.at += 1
                self._sign(sign)
        self.parts.append(")" * len(self.groups[0][0]))
        return "".join(self.parts)

    def _sign(self, sign: str) -> None:
        flags, lines = self.groups[-1]
        if sign == "|":
            sign = ")" * len(flags) + "|" + "".join(flags)
        elif sign == ")" and len(self.groups) > 1:
            sign = ")" * len(flags) + ")"
            self.groups.pop()
        elif sign == "$" and not lines:
            sign = r"\Z"
        elif sign == "{":
            found = _REPEAT.match(self.pattern, self.at - 1)
            sign = found.group() if found else r"\{"
            self.at += len(found.group()) - 1 if found else 0
        self.parts.append(sign)

    def _open(self) -> None:
        """A group, or flags for the rest of one."""
        lines = self.groups[-1][1]
        found = _FLAGS.match(self.pattern, self.at)
        if found is None:
            named = self.pattern.startswith("(?<", self.at)
            named = named and self.pattern[self.at + 3 : self.at + 4] not in {"=", "!"}
            self.parts.append("(?P<" if named else "(")
            self.at += 3 if named else 1
            if self.pattern[self.at - 1] == "(" and self.pattern.startswith("?", self.at):
                self.parts.append("?")
                self.at += 1
            self.groups.append(([], lines))
            return
        self.at = found.end()
        on, off = found[1].replace("U", ""), (found[2] or "").replace("U", "")
        lines = ("m" in on or lines) and "m" not in off
        text = f"(?{on}{'-' + off if off else ''}:"
        self.parts.append(text)
        if found[3] == ":":
            self.groups.append(([], lines))
        else:
            self.groups[-1] = ([*self.groups[-1][0], text], lines)

    def _escape(self) -> str:
        """What follows a backslash, outside a set."""
        sign = self.pattern[self.at + 1 : self.at + 2]
        if sign == "Q":
            end = self.pattern.find(r"\E", self.at)
            end = len(self.pattern) if end < 0 else end
            text = self.pattern[self.at + 2 : end]
            self.at = end + 2
            return re.escape(text)
        if sign in {"b", "B", "z"}:
            self.at += 2
            return {"b": f"(?:{_BORDER})", "B": f"(?:{_INNER})", "z": r"\Z"}[sign]
        if sign in {"D", "W", "S"}:
            self.at += 2
            return f"[^{_SHORT[sign.lower()]}]"
        body = self._member()
        many = len(body) > 2 and not body.startswith("\\U")
        return f"[{body}]" if many or "-" in body[1:] else body

    def _member(self) -> str:
        r"""An escape as it stands in a set, such as \d, \pL or \x{61}."""
        sign = self.pattern[self.at + 1 : self.at + 2]
        if found := _CODE.match(self.pattern, self.at):
            self.at = found.end()
            return _code(int(found[1], 16))
        if found := _PROPERTY.match(self.pattern, self.at):
            self.at = found.end()
            body = _category(found[3] or found[4])
            return _inverted(body) if (found[1] == "P") != bool(found[2]) else body
        self.at += 2
        if sign in _SHORT:
            return _SHORT[sign]
        if sign.lower() in _SHORT:
            return _inverted(_SHORT[sign.lower()])
        return "\\" + sign

    def _set(self) -> str:
        start = self.at
        self.at += 1
        text = "["
        if self.pattern.startswith("^", self.at):
            text, self.at = "[^", self.at + 1
        first = True
        while self.at < len(self.pattern):
            sign = self.pattern[self.at]
            if sign == "]" and not first:
                self.at += 1
                return text + "]"
            first = False
            named = _NAMED.match(self.pattern, self.at)
            if named and named[2] in _CLASSES:
                body = _CLASSES[named[2]]
                text += _inverted(body) if named[1] else body
                self.at = named.end()
            elif sign == "\\":
                text += self._member()
            else:
                text += "\\" + sign if sign in "[]&~|" else sign
                self.at += 1
        raise UnsupportedOperatorError(
            f"a set of the pattern {self.pattern!r} has no end: {self.pattern[start:]!r}"
        )


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for Python's ``re``.

    Raises:
        UnsupportedOperatorError: Python cannot read it.
    """
    try:
        return re.compile(_Writer(pattern).write())
    except re.error as error:
        raise UnsupportedOperatorError(
            f"Python's re cannot read the pattern {pattern!r}: {error}"
        ) from error


def _run_of_any(source: str) -> re.Pattern[str] | None:
    """A run of whatever characters one of Python's patterns names somewhere: no match of it can be longer."""
    atoms = set(_NAMED_SOMEWHERE.findall(source))
    if "\\" in _NAMED_SOMEWHERE.sub("", source).replace(r"\Z", "").replace(r"\A", ""):
        return None
    one = "|".join(sorted({*atoms, r"[\]{}]"}))
    return re.compile(f"(?s:(?:{one}|(?i:{one}))*)")


def longest_finder(pattern: str) -> Callable[[str], list[tuple[int, int]]]:
    """A function that lists the matches in a text that are not empty: the leftmost, and of those the longest."""
    compiled = compile_pattern(pattern)
    branches = [compile_pattern(branch) for branch in _plain_branches(pattern)]
    if len(branches) == 1:
        return lambda text: [found.span() for found in compiled.finditer(text) if found.group()]
    source = compiled.pattern
    run = _run_of_any(source)
    looks = any(sign in source for sign in (r"\Z", "$", "(?=", "(?!", "(?<=", "(?<!"))

    def end_of(text: str, start: int, least: int) -> int:
        if branches:
            matches = (branch.match(text, start) for branch in branches)
            return max(found.end() for found in matches if found)
        reach = run.match(text, start) if run else None
        for end in range(reach.end() if reach else len(text), least, -1):
            # what looks ahead must see the whole text
            rest = f"(?:{source})(?=(?s:.){{{len(text) - end}}}\\Z)"
            found = (
                re.compile(rest).match(text, start)
                if looks
                else compiled.fullmatch(text, start, end)
            )
            if found:
                return end
        return least

    def find(text: str) -> list[tuple[int, int]]:
        spans, at = [], 0
        while at <= len(text) and (found := compiled.search(text, at)):
            end = end_of(text, found.start(), found.end())
            if end > found.start():
                spans.append((found.start(), end))
            at = max(end, found.start() + 1)
        return spans

    return find
