"""What may be fed; everything else is refused before anything runs, and the log of the run before stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import FeedError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator

TEXT = (
    "g (float[N, 3] tokens, int64 count, float[1] spare) => (float[N, 3] y)"
    "<float[1] spare = {1}> { f = Cast <to = 1> (count) t = Mul(tokens, f) y = Mul(t, spare) }"
)
GOOD = {"tokens": np.ones((2, 3), np.float32), "count": np.array(2)}


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({**GOOD, "more": np.ones(1)}, ["no input 'more'", "'tokens'", "'count'", "'spare'"]),
        ({**GOOD, "token": np.ones(1)}, ["no input 'token'", "did you mean 'tokens'?"]),
        ({"count": np.array(2)}, ["'tokens' is not fed", "found 'count'"]),
        ({}, ["'tokens' is not fed", "found nothing"]),
        ({**GOOD, "tokens": np.ones((2, 3))}, ["'tokens' has type float32", "float64", "astype"]),
        ({**GOOD, "tokens": np.ones((2, 3), "f2")}, ["float32", "float16"]),
        ({**GOOD, "tokens": np.ones((2, 3), ">f4")}, ["'tokens' has type float32", ">f4"]),
        ({**GOOD, "tokens": np.full((2, 3), "a")}, ["'tokens' has type float32", "U1"]),
        ({**GOOD, "tokens": np.ones(3, np.float32)}, ["rank 2", "rank 1", "[3]"]),
        ({**GOOD, "tokens": np.float32(1)}, ["rank 2", "rank 0"]),
        ({**GOOD, "tokens": np.ones((2, 4), np.float32)}, ["dimension 1 must be 3", "[2, 4]"]),
        ({**GOOD, "tokens": [[1.0, 2.0, 3.0]]}, ["'tokens' is a tensor", "list", "asarray"]),
        ({**GOOD, "tokens": None}, ["'tokens' is a tensor", "NoneType"]),
        ({**GOOD, "count": np.int32(2)}, ["'count' has type int64", "int32"]),
        ({**GOOD, "count": np.array([2])}, ["'count' has rank 0", "rank 1"]),
        ({**GOOD, "spare": np.ones(2, np.float32)}, ["'spare'", "dimension 0 must be 1"]),
    ],
)
def test_bad_feeds(feeds: Any, words: Any) -> None:
    allocator = SimpleRawBufferAllocator(64)
    session = ReferenceEvaluator(TEXT, events_enabled=True, allocator=allocator)
    session.run(None, GOOD)
    log, count = session.events(), allocator.number
    with pytest.raises(FeedError) as caught:
        session.run(None, feeds)
    assert isinstance(caught.value, ValueError)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert session.events() == log  # the old log stays
    assert allocator.number == count  # and nothing ran
    np.testing.assert_array_equal(session.run(None, GOOD)[0], np.full((2, 3), 2.0))


@pytest.mark.parametrize("count", [2, np.int64(2), np.array(2), True])
def test_python_numbers_are_tensors_of_rank_zero(count: Any) -> None:
    (y,) = ReferenceEvaluator(TEXT).run(None, {**GOOD, "count": count})
    np.testing.assert_array_equal(y, np.full((2, 3), float(count)))


def test_a_free_dimension_takes_any_size_also_none() -> None:
    session = ReferenceEvaluator(TEXT)
    for size in (0, 1, 7):
        (y,) = session.run(None, {**GOOD, "tokens": np.ones((size, 3), np.float32)})
        assert y.shape == (size, 3)


@pytest.mark.parametrize("order", ["F", "strided", "reversed"])
def test_the_layout_of_a_feed_does_not_matter(order: Any) -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    given = {
        "F": np.asfortranarray(values),
        "strided": np.repeat(values, 2, axis=1)[:, ::2],
        "reversed": values[::-1].copy()[::-1],
    }[order]
    assert not given.flags.c_contiguous
    (y,) = ReferenceEvaluator(TEXT).run(None, {**GOOD, "tokens": given})
    np.testing.assert_array_equal(y, values * 2)


def test_feeds_are_never_written_to() -> None:
    feeds = {"tokens": np.ones((2, 3), np.float32), "count": np.array(2)}
    for value in feeds.values():
        value.flags.writeable = False
    (y,) = ReferenceEvaluator(TEXT).run(None, feeds)
    y[:] = 0
    assert feeds["tokens"].min() == 1


def test_strings_in_any_of_numpys_forms() -> None:
    session = ReferenceEvaluator("g (string[N] s) => (string[N] t) { t = StringConcat(s, s) }")
    for value in (np.array(["a", "bc"], object), np.array(["a", "bc"])):
        (t,) = session.run(None, {"s": value})
        assert t.tolist() == ["aa", "bcbc"]
    with pytest.raises(FeedError, match="string"):
        session.run(None, {"s": np.ones(2)})


SEQUENCE = "g (seq(float[N]) s, optional(float[2]) o) => (int64 n) { n = SequenceLength(s) }"


def test_sequences_and_optional_values() -> None:
    session = ReferenceEvaluator(SEQUENCE)
    one = np.ones(2, np.float32)
    good: list[dict[str, Any]] = [
        {"s": [one, one], "o": one},
        {"s": (one, one), "o": None},
        {"s": [one, one]},
    ]
    for feeds in good:
        assert session.run(None, feeds)[0] == 2
    assert session.run(None, {"s": []})[0] == 0
    bad: list[tuple[dict[str, Any], str]] = [
        ({"s": one}, "'s' is a sequence"),
        ({"s": [one, np.ones(2)]}, "'s' has type float32"),
        ({"s": [one], "o": np.ones(3, np.float32)}, "dimension 0 must be 2"),
        ({}, "'s' is not fed"),
    ]
    for feeds, words in bad:
        with pytest.raises(FeedError, match=words):
            session.run(None, feeds)


def test_a_hostile_name_is_shown_shortened_and_escaped() -> None:
    with pytest.raises(FeedError) as caught:
        ReferenceEvaluator(TEXT).run(None, {**GOOD, "x\n\x1b[31m" + "y" * 500: np.ones(1)})
    message = str(caught.value)
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 300


MAPS = {"string": TensorProto.STRING, "int64": TensorProto.INT64}
NUMBERS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "string": TensorProto.STRING,
}


def of_a_map(keys: str, values: str) -> ReferenceEvaluator:
    """DictVectorizer with the vocabulary a, b or 1, 2."""
    value = helper.make_tensor_type_proto(NUMBERS[values], [])
    kind = helper.make_map_type_proto(MAPS[keys], value)
    vocabulary: dict[str, Any] = {f"{keys}_vocabulary": ["a", "b"] if keys == "string" else [1, 2]}
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **vocabulary)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_value_info("x", kind)],
        [helper.make_empty_tensor_value_info("y")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=imports, ir_version=8))


@pytest.mark.parametrize("keys", ["string", "int64"])
@pytest.mark.parametrize("values", ["float", "double", "int64"])
def test_numbers_of_a_map_have_the_declared_type(keys: str, values: str) -> None:
    key = "b" if keys == "string" else 2
    given = 3 if values == "int64" else 0.1
    (y,) = of_a_map(keys, values).run(None, {"x": {key: given}})
    expected = np.array([[0, given]], helper.tensor_dtype_to_np_dtype(NUMBERS[values]))
    assert y.dtype == expected.dtype
    assert y.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("keys", "values", "fed", "words"),
    [
        ("string", "int64", {"a": 1.5}, ["map to int64", "1.5"]),
        ("string", "int64", {"a": float("nan")}, ["map to int64", "nan"]),
        ("string", "float", {"a": "1"}, ["map to float32", "'1'"]),
        ("int64", "string", {1: 2.0}, ["map to strings", "2.0"]),
        ("int64", "float", {"a": 1.0}, ["map from integers", "'a'"]),
        ("string", "float", {1: 1.0}, ["map from strings", "1"]),
        ("string", "float", [1.0], ["is a map", "list"]),
    ],
)
def test_maps_that_do_not_fit(keys: str, values: str, fed: Any, words: list[str]) -> None:
    with pytest.raises(FeedError) as caught:
        of_a_map(keys, values).run(None, {"x": fed})
    for word in words:
        assert word in str(caught.value)
