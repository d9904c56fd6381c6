"""Operators on strings: StringNormalizer, StringConcat, StringSplit, RegexFullMatch, and com.microsoft's Tokenizer.

https://onnx.ai/onnx/operators/ (String..., RegexFullMatch); Tokenizer as in ContribOperators.md and tokenizer.cc of
onnxruntime. Patterns are RE2's; Python's ``re``, which runs them here, backtracks. Strings are Python objects, whose
memory is in no account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import (
    AdoptingKernel,
    Array,
    Kernel,
    NodeSpec,
    TensorSpec,
)
from onnx_notebook_profiler.evaluator.kernels._re2 import compile_pattern, longest_finder
from onnx_notebook_profiler.evaluator.kernels._shared import BOOL, broadcast_shape, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "Tokenizer"]

_OBJECT: Final = np.dtype(object)
_Finder = Callable[[str], list[tuple[int, int]]]
_START: Final = "\x02"
_END: Final = "\x03"


def _texts(values: Sequence[str], shape: Sequence[int]) -> Array:
    result = np.empty(len(values), object)
    result[:] = values
    return result.reshape(shape)


@register("StringNormalizer", since_version=10)
class StringNormalizer(AdoptingKernel):
    """X [C] or [1, C] without its stop words, in lower or upper case; an empty result is one empty string."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        action = str(attributes.get("case_change_action", "NONE"))
        actions: dict[str, Callable[[str], str]] = {
            "NONE": lambda text: text,
            "LOWER": str.lower,
            "UPPER": str.upper,
        }
        if action not in actions:
            raise ValueError(f"case_change_action is one of {', '.join(actions)}, not {action!r}")
        self._change = actions[action]
        self._exact = bool(attributes.get("is_case_sensitive", 0))
        words = attributes.get("stopwords") or ()
        self._stop = frozenset(words if self._exact else map(str.lower, words))

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Filter, then change the case."""
        x = inputs[0]
        if x.ndim not in {1, 2} or (x.ndim == 2 and x.shape[0] != 1):
            raise ValueError(f"StringNormalizer expects X [C] or [1, C], got {list(x.shape)}")
        words = [str(one) for one in x.reshape(-1).tolist()]
        if self._stop and self._exact:
            words = [word for word in words if word not in self._stop]
        elif self._stop:
            words = [word for word in words if word.lower() not in self._stop]
        words = [self._change(word) for word in words] or [""]
        return [_texts(words, (len(words),) if x.ndim == 1 else (1, len(words)))]


@register("StringConcat", since_version=20)
class StringConcat(Kernel):
    """X + Y, element by element, with broadcasting."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The common shape."""
        return (TensorSpec(broadcast_shape(self.spec, operands(self.spec, inputs, 2)), _OBJECT),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Python's own concatenation."""
        x, y = (one if one.dtype == object else one.astype(object) for one in inputs)
        outputs[0][...] = np.add(x, y)


@register("StringSplit", since_version=20)
class StringSplit(AdoptingKernel):
    """X [...] -> parts [..., most parts], filled with empty strings, and their numbers [...]."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """By ``delimiter``, or by white space without one."""
        x = inputs[0]
        delimiter = self.spec.attributes.get("delimiter") or None
        limit = self.spec.attributes.get("maxsplit")
        parts = [
            str(text).split(delimiter, -1 if limit is None else int(limit)) if text else []
            for text in x.reshape(-1).tolist()
        ]
        most = max(map(len, parts), default=0)
        flat = [part for one in parts for part in (*one, *[""] * (most - len(one)))]
        counts = np.array([len(one) for one in parts], np.int64).reshape(x.shape)
        return [_texts(flat, (*x.shape, most)), counts]


@register("RegexFullMatch", since_version=20)
class RegexFullMatch(Kernel):
    """True where the whole string matches ``pattern``."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._pattern = compile_pattern(str(spec.attributes.get("pattern", "")))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of X, bool."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, BOOL),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One match for each."""
        x, match = inputs[0], self._pattern.fullmatch
        found = (match(str(text)) is not None for text in x.reshape(-1).tolist())
        outputs[0].reshape(-1)[:] = np.fromiter(found, np.bool_, x.size)


@register("Tokenizer", since_version=1, domain="com.microsoft")
class Tokenizer(AdoptingKernel):
    """X [C] or [N, C] -> tokens [..., most tokens], filled with ``pad_value``; ``mark`` puts a mark at either end."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._least = int(attributes.get("mincharnum", 1))
        self._pad = str(attributes.get("pad_value", ""))
        self._mark = bool(attributes.get("mark", 0))
        expression = attributes.get("tokenexp")
        separators = list(attributes.get("separators") or ())
        self._find: Callable[[str], list[str]]
        if expression == "." or (separators == [""] and not expression):
            self._find = list
        elif expression:
            finder = longest_finder(str(expression))
            self._find = lambda text: [text[start:end] for start, end in finder(text)]
        elif separators:
            splitters = [longest_finder(one) for one in separators]
            self._find = lambda text: _split(text, splitters)
        else:
            raise ValueError("Tokenizer needs separators or tokenexp")

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Tokens of each string, brought to one length."""
        x = inputs[0]
        if x.ndim not in {1, 2}:
            raise ValueError(f"Tokenizer expects X [C] or [N, C], got {list(x.shape)}")
        rows = [
            [token for token in self._find(str(text)) if token and len(token) >= self._least]
            for text in x.reshape(-1).tolist()
        ]
        if self._mark and any(rows):
            rows = [[_START, *row, _END] for row in rows]
        most = max(map(len, rows), default=0)
        flat = [token for row in rows for token in (*row, *[self._pad] * (most - len(row)))]
        return [_texts(flat, (*x.shape, most))]


def _split(text: str, splitters: Sequence[_Finder]) -> list[str]:
    """The pieces between the separators, one kind of separator after the other."""
    pieces = [text]
    for splitter in splitters:
        pieces = [part for piece in pieces for part in _between(piece, splitter(piece))]
    return pieces


def _between(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]
