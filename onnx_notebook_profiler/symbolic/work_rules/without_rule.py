"""Operators that have no rule, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onnx_notebook_profiler.symbolic.work_rules.registry import MS

__all__ = ["NO_RULE", "NO_SHAPES", "ONE_OF_TWO", "TRIPS", "WITHOUT_RULE"]

NO_RULE: Final = "no rule counts its operator"
NO_SHAPES: Final = "the shapes inside its body are not known"
ONE_OF_TWO: Final = "the data decides which branch runs"
TRIPS: Final = "the data decides how often its body runs"
_TEXT: Final = "it works on texts, where no arithmetic is counted"
_DATA: Final = "the data decides how much it compares"
_MAP: Final = "it works on maps, whose size is not known"
_HASH: Final = "it mixes bits, where no arithmetic is counted"

WITHOUT_RULE: Final[Mapping[tuple[str, str], str]] = {
    **dict.fromkeys(
        [("", name) for name in ("RegexFullMatch", "StringConcat", "StringNormalizer")], _TEXT
    ),
    **dict.fromkeys([("", "StringSplit"), ("", "TfIdfVectorizer"), (MS, "Tokenizer")], _TEXT),
    **dict.fromkeys([("", "MaxRoiPool"), ("", "Multinomial"), ("", "NonMaxSuppression")], _DATA),
    (MS, "BifurcationDetector"): _DATA,
    (MS, "NGramRepeatBlock"): _DATA,
    (MS, "MurmurHash3"): _HASH,
    **dict.fromkeys(
        [("ai.onnx.ml", name) for name in ("CastMap", "DictVectorizer", "ZipMap")], _MAP
    ),
    **dict.fromkeys(
        [("ai.onnx.ml", name) for name in ("CategoryMapper", "LabelEncoder")],
        "it looks keys up, where no arithmetic is counted",
    ),
}
"""Those that the package has kernels for."""
