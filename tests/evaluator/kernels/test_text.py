"""Patterns of RE2 in the operators on strings, against onnxruntime, which runs RE2 itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

TEXTS = np.array(
    [
        "", "a", "b", "ab", "aab", "abab", "a b", " a ", "A1 b2", "é", "É", "aé", "héb", "\u0661\u0662", "a\n",
        "\na\nb", "\x0b", "a\x1cb\u3000c", "日本 語", "_", "[a", "a{,2}", "a.", "a-b", "]", "&", "K",
    ],
    object,
)  # fmt: skip

ASCII_ONLY = [
    r"\w+",
    r"\W+",
    r"\d*",
    r"\D+",
    r"\s*",
    r"\S+",
    r".*\bb.*",
    r".*\Bb.*",
    r"[\w ]*",
    r"[^\W]*",
]
NAMED_SETS = [
    "[[:alpha:]]+",
    "[^[:alpha:]]+",
    "[[:space:][:digit:]a]+",
    "[[:^digit:]]+",
    "[[a]+",
    "[]a]+",
    "[a&&b]+",
]
UNICODE = [r"\pL+", r"[\pN_]+", r"\PL+", r"\p{Lu}", r"\p{^Lu}+", r"[\x{e9}-\x{ff}]+", r"\x{61}"]
FLAGS = [
    "(?i)A.*",
    "a (?i)B",
    "a(?i)B|É",
    "(?m)^a$",
    "(?s).+",
    "(?m:.*^a$.*)",
    "(?s)(?U)a.*",
    "(?i:K)(?-i)",
]
OTHERS = [
    "a$",
    r"a\z",
    r"\Qa.\E",
    r"\Qa{\E,2}",
    "a{,2}",
    "(?P<one>a) b",
    "(?<one>a) b",
    "a{1,2}b?",
    "",
]


@pytest.mark.parametrize("pattern", [*ASCII_ONLY, *NAMED_SETS, *UNICODE, *FLAGS, *OTHERS])
def test_full_matches(pattern: str) -> None:
    ours, theirs = by_both("RegexFullMatch", TEXTS, opset=20, pattern=pattern)
    assert ours[0].tolist() == theirs[0].tolist()


@pytest.mark.parametrize(
    "attributes",
    [
        *[{"tokenexp": pattern} for pattern in [*ASCII_ONLY, *NAMED_SETS, *UNICODE, "a$", r"a|ab\b"]],
        *[{"tokenexp": pattern} for pattern in ["a|ab", "(a?)(ab)?", "a*?b?", ".", "(?s).", "(?m)a$"]],
        *[{"tokenexp": pattern} for pattern in ["[ab]|ab+|[a-z]{2}", r"(?i)\b\w\w+\b|k"]],
        *[{"tokenexp": pattern} for pattern in ["(?:a|ab| )+", r"(?i:[\]{}](\x61|,)?2?)+", "(?s)(.b)*"]],
        *[{"separators": [one]} for one in [r"\s", r"\W", "[[:space:]]", "a|ab"]],
        {"separators": ["a|ab", " "], "mark": 1},
        {"separators": [" "], "mark": 1},
    ],
    ids=str,
)  # fmt: skip
def test_tokens_are_the_longest_matches(attributes: dict[str, Any]) -> None:
    full: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": 1} | attributes
    ours, theirs = by_both("Tokenizer", TEXTS, domain="com.microsoft", opset=1, **full)
    assert ours[0].tolist() == theirs[0].tolist()


def test_nothing_is_marked_where_no_text_has_a_token() -> None:
    x = np.array(["", "  "], object)
    full: dict[str, Any] = {"mark": 1, "pad_value": "#", "mincharnum": 1, "separators": [" "]}
    ours, theirs = by_both("Tokenizer", x, domain="com.microsoft", opset=1, **full)
    assert ours[0].shape == theirs[0].shape == (2, 0)


def test_a_set_without_end_is_named() -> None:
    with pytest.raises(UnsupportedOperatorError, match="no end"):
        run("RegexFullMatch", np.array(["a"], object), opset=20, pattern="a[b")
