"""What magics have in common: how a line is split, how names and sizes are read, how errors are shown."""

from __future__ import annotations

import argparse
import keyword
import operator
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from onnx_notebook_profiler.errors import ProfilerError

__all__ = [
    "find_feeds",
    "find_model",
    "one_line",
    "parse_line",
    "read_dims",
    "usage_errors",
    "variable_name",
    "whole_number",
]


def parse_line(magic: Any, line: str) -> argparse.Namespace:
    """The arguments of a magic that ``magic_arguments`` describes.

    Quotes hold words together and are removed; backslashes stay, for paths of Windows.

    Raises:
        UsageError: A quote is not closed, or an option is unknown or wrong.
    """
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.escape = lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        raise UsageError(f"a quote is not closed in: {line}") from None
    parsed: argparse.Namespace = magic.parser.parse_args(words)
    return parsed


def whole_number(text: str) -> int:
    """An integer of 1 and more, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 and more, found {text!r}")
    return int(text)


def variable_name(text: str) -> str:
    """A name that can be assigned to, for argparse."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"expected the name of a variable, found {text!r}")
    return text


def read_dims(
    words: Iterable[Iterable[str]], *namespaces: Mapping[str, Any] | None
) -> dict[str, int]:
    """Sizes from words such as ``N=8``; what stands before the last ``=`` is the name, whatever it holds.

    The size may be a variable, ``N=count``, also written ``{count}`` or ``$count``.

    Raises:
        UsageError: A word is no such pair, a name is given twice, or a size is no integer of 0 or more.
    """
    dims: dict[str, int] = {}
    for word in (one for group in words for one in group):
        name, equals, size = word.rpartition("=")
        if not equals or not name:
            raise UsageError(
                f"--dims takes NAME=SIZE pairs such as batch=8, apart by blanks, and stands behind the "
                f"model: found {word!r}"
            )
        if name in dims:
            raise UsageError(f"--dims gives two sizes for {name!r}")
        dims[name] = _size(name, size, namespaces)
    return dims


def _size(name: str, text: str, namespaces: Iterable[Mapping[str, Any] | None]) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    variable = text.strip("{}").removeprefix("$")
    for namespace in namespaces:
        if namespace is not None and variable in namespace:
            with suppress(TypeError):
                value = operator.index(namespace[variable])
                if value >= 0:
                    return value
    raise UsageError(
        f"the size of {name!r} is {text!r}: expected an integer of 0 or more, or a variable that holds one"
    )


def find_model(text: str, *namespaces: Mapping[str, Any] | None) -> Any:
    """The variable called *text*, else *text* as the path of a file.

    Raises:
        UsageError: There is neither.
    """
    for namespace in namespaces:
        if namespace is not None and text in namespace:
            return namespace[text]
    path = Path(os.path.expandvars(text)).expanduser()
    if path.is_file():
        return path
    raise UsageError(
        f"{text!r} is neither a variable nor a file: give a model, an onnx_notebook_profiler.ReferenceEvaluator or "
        f"a path, in quotes where it has blanks"
    )


def find_feeds(text: str | None, *namespaces: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The mapping in the variable called *text*; None where none was named.

    Raises:
        UsageError: There is no such variable, or it is no mapping.
    """
    if text is None:
        return None
    for namespace in namespaces:
        if namespace is not None and text in namespace:
            feeds = namespace[text]
            if isinstance(feeds, Mapping):
                return feeds
            raise UsageError(
                f"--feeds names a mapping from input name to value; {text!r} is {type(feeds).__name__}"
            )
    raise UsageError(f"--feeds names a variable, and there is none called {text!r}")


def one_line(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def usage_errors() -> Iterator[None]:
    """What the package refuses is shown as one line, without a traceback."""
    try:
        yield
    except ProfilerError as error:
        raise UsageError(one_line(error)) from None
