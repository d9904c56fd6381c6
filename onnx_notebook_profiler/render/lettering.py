"""How wide lettering is, estimated on the safe side: no font is at hand when a picture is made."""

from __future__ import annotations

from onnx_notebook_profiler.render.clean import ELLIPSIS, display_width, shorten

_NARROW = frozenset("ijl.,:;'|!()[] /\\fIt`")
_BROAD = frozenset("mMW@%w&QOGD")


def text_width(text: str, size: float) -> float:
    """At least the pixels that printable text takes in the usual sans-serif fonts."""
    return size * sum(map(_em, text))


def _em(char: str) -> float:
    if char in _NARROW:
        return 0.46
    if char in _BROAD or char == ELLIPSIS:
        return 1.05
    if char.isascii():
        return 0.8 if char.isupper() else 0.68
    return 1.05 if display_width(char) else 0.0


def fitted(text: str, room: float, size: float) -> str:
    """Printable text shortened in the middle until it takes no more than `room` pixels."""
    limit = max(int(room / (size * 0.4)), 1)
    text = shorten(text, limit)
    while limit > 1 and text_width(text, size) > room:
        limit = min(limit, display_width(text)) - 1
        text = shorten(text, limit)
    return text


def anchored(
    text: str, where: float, plot: float, *, left: float, right: float, size: float
) -> tuple[str, str]:
    """The `text-anchor` and the wording of a label at `where` (0 to 1) of a plot `plot` wide.

    `left` and `right` are the pixels that the picture has beside the plot; the label keeps
    within the picture, and is shortened where it does not fit.
    """
    before, after = where * plot + left, (1 - where) * plot + right
    if text_width(text, size) <= 2 * min(before, after):
        return "middle", fitted(text, 2 * min(before, after), size)
    if after >= before:
        return "start", fitted(text, after, size)
    return "end", fitted(text, before, size)
