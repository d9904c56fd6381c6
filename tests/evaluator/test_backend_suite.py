"""Every node test of onnx's backend suite that onnx.reference passes, by the evaluator; and the memory truth of each.

The expected outputs ship with onnx; the tolerances are those of its own runner.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper
from onnx.backend.test import loader

from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from tests.memory_truth import TruthRun
from tests.oracles import assert_same

# onnx.reference fails these too.
NOT_PASSED = {
    "test_bernoulli": "draws random numbers",
    "test_bernoulli_expanded": "draws random numbers",
    "test_bernoulli_double": "draws random numbers",
    "test_bernoulli_double_expanded": "draws random numbers",
    "test_bernoulli_seed": "draws random numbers of another generator",
    "test_bernoulli_seed_expanded": "draws random numbers of another generator",
}
SHARDS = 16
LEAST = 1850  # fewer cases would mean that they were not found, not that they pass


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: ModelProto
    rtol: float
    atol: float
    data: list[tuple[dict[str, Any], list[Any]]]


def _value(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@cache
def cases() -> list[Case]:
    """All node cases; loading them takes ten seconds, so the tests are cut into shards, not into one for each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = loader.load_model_tests(kind="node")
    found = []
    for case in loaded:
        model = case.model or onnx.load(str(Path(str(case.model_dir)) / "model.onnx"))
        names = [value.name for value in model.graph.input]
        data = [
            (
                dict(zip(names, map(_value, inputs), strict=False)),
                [_value(output) for output in outputs],
            )
            for inputs, outputs in case.data_sets or ()
        ]
        found.append(Case(case.name, model, case.rtol, case.atol, data))
    return found


def shard(number: int) -> Iterator[Case]:
    left_out = {*NOT_PASSED}
    yield from (case for case in cases()[number::SHARDS] if case.name not in left_out)


def has_text(value: Any) -> bool:
    """Arrays of strings are pointers to numpy, and nothing to the accounts."""
    if isinstance(value, list | tuple):
        return any(map(has_text, value))
    return isinstance(value, np.ndarray) and value.dtype.kind in "OUS"


def check(case: Case, **options: Any) -> str:
    """What is wrong with a case, or nothing; *options* are the evaluator's."""
    try:
        for feeds, expected in case.data:
            truth = TruthRun(case.model, **options)
            assert_same(truth.run(feeds), expected, case.rtol, case.atol)
            text = has_text([*feeds.values(), *expected])
            if truth.differences and not text:
                return f"{case.name}: {truth.differences[0]}"
    except (AssertionError, RuntimeError, ValueError, NotImplementedError) as error:
        return f"{case.name}: {type(error).__name__}: {str(error)[:300]}"
    return ""


def test_the_cases_are_found_and_the_exceptions_exist() -> None:
    names = {case.name for case in cases()}
    assert len(names) >= LEAST
    assert {*NOT_PASSED} <= names
    assert all(case.data for case in cases())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(SHARDS))
def test_outputs_and_memory(number: Any) -> None:
    wrong = [message for message in map(check, shard(number)) if message]
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(SHARDS))
def test_outputs_and_memory_in_place(number: Any) -> None:
    """Kernels that write into their inputs, with scratch measured, give the same and hold what is accounted for."""
    found = (check(case, inplace=True, measure_scratch=True) for case in shard(number))
    wrong = [message for message in found if message]
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_passed_still_fails() -> None:
    """Random draws may agree by chance, so only the list as a whole has to fail."""
    failing = [case.name for case in cases() if case.name in NOT_PASSED and check(case)]
    assert failing


def _spoil(value: Any) -> None:
    if isinstance(value, list | tuple):
        for one in value:
            _spoil(one)
    elif isinstance(value, np.ndarray) and value.dtype.kind not in "OUS":
        assert value.flags.writeable
        value.reshape(-1).view(np.uint8)[:] ^= 0x5A


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(SHARDS))
def test_callers_who_overwrite_their_outputs_change_nothing(number: Any) -> None:
    for case in shard(number):
        session = ReferenceEvaluator(case.model)
        for feeds, expected in case.data:
            _spoil(session.run(None, feeds))
            assert_same(session.run(None, feeds), expected, case.rtol, case.atol)
