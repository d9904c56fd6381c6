"""The shapes of every node case that ships with onnx, over one symbol for each dimension, against its own outputs."""

from __future__ import annotations

import re
import warnings
from collections import Counter

import numpy as np
import pytest

from tests.evaluator.test_backend_suite import cases
from tests.symbolic.checking import Verdict, inferred, symbolized, verdict

SHARDS = 8

UNKNOWN = {
    r"gathernd_example_\w+": "how many axes the indices name is a size of theirs, a symbol here",
    r"linear_attention_\w+_expanded": "states and updates have sizes of different names, which broadcast",
    r"(loop11|loop13_seq|loop16_seq_none)": "each iteration changes the state",
    r"resize_(up|down)sample_scales_\w+": "the scales are data",
    r"upsample_nearest": "the scales are data",
}
"""Cases whose shapes nobody can tell before they run, or not without knowing that sizes are equal."""

DECIDED_BY_DATA = (
    r"(compress|image_decoder|nonmaxsuppression|nonzero|string_split|strnormalizer|unique)_\w+"
)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_node_cases(shard: int) -> None:
    seen: dict[str, set[Verdict]] = {}
    for case in cases()[shard::SHARDS]:
        if not case.data:
            continue
        feeds, outputs = case.data[0]
        model, sizes = symbolized(case.model, feeds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = inferred(model)
        names = [output.name for output in model.graph.output]
        for name, output in zip(names, outputs, strict=False):
            if isinstance(output, np.ndarray | np.generic | float | int):
                seen.setdefault(case.name, set()).add(verdict(found, name, output, sizes))
    count = Counter(one for found_ones in seen.values() for one in found_ones)
    assert count["right"] > 180
    for name, verdicts in seen.items():
        case_name = name.removeprefix("test_")
        assert ("unknown" in verdicts) <= any(
            re.fullmatch(pattern, case_name) for pattern in UNKNOWN
        ), name
        assert ("data" in verdicts) <= bool(re.fullmatch(DECIDED_BY_DATA, case_name)), name
