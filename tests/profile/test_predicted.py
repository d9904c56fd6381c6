"""What the formulas predict is what the evaluator holds, node by node and in both accounts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.profile.result import Profile
from tests.models import mul_add_model, packaged_model
from tests.profile.random_graphs import Case, cases, held_bytes
from tests.symbolic.rows import graph


def measured(profile: Profile) -> list[tuple[int | None, int | None]]:
    return [(node.execution_bytes, node.io_bytes) for node in profile.nodes]


def assert_predicted(profile: Profile) -> None:
    """Every node is predicted, in both accounts, and nothing differs."""
    for node in profile.nodes:
        assert node.difference == ""
        assert node.predicted_bytes == node.live_bytes
        assert node.predicted_execution_bytes == node.execution_bytes
        assert node.predicted_io_bytes == node.io_bytes


@settings(max_examples=120)
@given(cases())
def test_random_graphs(case: Case) -> None:
    profile = onp.profile(case.model, case.feeds)
    assert_predicted(profile)
    assert measured(profile) == held_bytes(case)
    assert profile.peak_bytes == max(sum(held) for held in held_bytes(case))
    assert sum(buffer.nbytes for buffer in profile.live_at_peak) == profile.peak_bytes


def test_the_published_run() -> None:
    # two is 4 bytes, z 4,096; x is borrowed; w is the caller's.
    profile = onp.profile(mul_add_model(), dims={"N": 1024})
    assert measured(profile) == [(4100, 0), (4100, 4096)]
    assert_predicted(profile)


def test_views_copies_and_outputs_by_hand() -> None:
    profile = onp.profile(
        graph(
            "g (float[N,2] x, float r) => (float[K] o, float[N,2] p) <int64[1] flat = {-1}> {"
            " a = Mul(x, r)"  # 8*N, execution
            " b = Reshape(a, flat)"  # a view
            " o = Abs(b)"  # 8*N, io
            " p = Identity(x)"  # a copy: 8*N, io
            " c = Neg(o)"  # 8*N, execution, read by nobody
            " d = Shape(p)"  # 16, execution
            " }"
        ),
        dims={"N": 10},
    )
    fixed = 8 + 4  # flat, and the copy of r
    assert measured(profile) == [
        (fixed + 80, 0),
        (fixed + 80, 0),
        (fixed + 80, 80),
        (fixed, 160),
        (fixed + 80, 160),
        (fixed + 16, 160),
    ]
    assert [node.output_bytes for node in profile.nodes] == [80, 0, 80, 80, 80, 16]
    assert [node.peak_bytes for node in profile.nodes] == [92, 92, 172, 172, 252, 252]
    assert (profile.peak_bytes, profile.peak_node) == (252, 4)
    assert_predicted(profile)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("(string[N] x) => (string[N] y) { y = Identity(x) }", (0, 0)),
        ("(bool[N] x) => (bool[N] y) { y = Not(x) }", (0, 5)),
        ("(float16[N] x) => (float16[N] y) { y = Abs(x) }", (0, 10)),
        ("(float[N] x) => (double[N] y) { y = Cast<to=11>(x) }", (0, 40)),
        ("(float[N] x, float[0] e) => (float[0] y) { y = Abs(e) z = Neg(x) }", (0, 0)),
    ],
)
def test_element_types(text: str, first: tuple[int, int]) -> None:
    profile = onp.profile(graph("g " + text), dims={"N": 5})
    assert measured(profile)[0] == first
    assert_predicted(profile)


def test_sub_byte_elements_take_a_byte_each() -> None:
    model = graph("g (int4[N] x) => (int4[N] y) { y = Concat<axis=0>(x) }")
    model.opset_import[0].version = 21
    profile = onp.profile(model, dims={"N": 5})
    assert measured(profile) == [(0, 5)]
    assert_predicted(profile)


@pytest.mark.parametrize(("batch", "sequence"), [(1, 4), (3, 17)])
def test_minilm(batch: int, sequence: int) -> None:
    profile = onp.profile(packaged_model("minilm"), dims={"batch": batch, "sequence": sequence})
    assert len(profile.nodes) > 300
    assert profile.coverage.known == profile.coverage.total
    assert_predicted(profile)
    assert sum(buffer.nbytes for buffer in profile.live_at_peak) == profile.peak_bytes


def test_silero_sequence() -> None:
    profile = onp.profile(packaged_model("silero_sequence"), dims={"sequence_length": 512 * 3})
    assert profile.coverage.known == profile.coverage.total
    assert_predicted(profile)


# differences that have a name


def test_feeds_that_are_not_contiguous_are_copied() -> None:
    x = np.ones((4, 6), np.float32)[:, ::2]
    profile = onp.profile(graph("g (float[N,3] x) => (float[N,3] y) { y = Abs(x) }"), {"x": x})
    (node,) = profile.nodes
    assert node.predicted_bytes == 48
    assert node.live_bytes == 96
    assert node.difference == "feeds copied to be contiguous"
    assert "feeds copied to be contiguous" in profile.to_text()


def test_a_fed_initializer_is_borrowed() -> None:
    model = graph(
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    )
    feeds = {"x": np.ones(2, np.float32), "w": np.ones(2, np.float32)}
    (node,) = onp.profile(model, feeds).nodes
    assert (node.live_bytes, node.predicted_bytes) == (8, 16)
    assert node.difference == "feeds in place of initializers"
    (node,) = onp.profile(model, {"x": feeds["x"]}).nodes
    assert (node.live_bytes, node.predicted_bytes, node.difference) == (16, 16, "")


def test_buffers_of_others_in_a_shared_allocator() -> None:
    allocator = onp.SimpleRawBufferAllocator(64)
    allocator.allocate(1000, "someone else's")
    session = onp.ReferenceEvaluator(mul_add_model(), allocator=allocator)
    profile = onp.profile(session, dims={"N": 2})
    assert [node.live_bytes for node in profile.nodes] == [1012, 1020]
    assert [node.predicted_bytes for node in profile.nodes] == [12, 20]
    for node in profile.nodes:
        assert node.difference == "buffers of other runs in the allocator"
    assert sum(buffer.nbytes for buffer in profile.live_at_peak) == profile.peak_bytes == 1020


def test_one_allocator_for_both_accounts() -> None:
    allocator = onp.SimpleRawBufferAllocator(64)
    session = onp.ReferenceEvaluator(mul_add_model(), allocator=allocator, io_allocator=allocator)
    profile = onp.profile(session, dims={"N": 1024})
    assert measured(profile) == [(4100, 0), (8196, 0)]
    assert profile.peak_bytes == 8196
    assert_predicted(profile)


def test_a_run_that_releases_nothing() -> None:
    session = onp.ReferenceEvaluator(
        graph("g (float[N] x) => (float[N] y) { a = Abs(x) b = Neg(a) y = Abs(b) }"),
        release_intermediates=False,
    )
    profile = onp.profile(session, dims={"N": 1})
    assert measured(profile) == [(4, 0), (8, 0), (8, 4)]
    assert [node.difference for node in profile.nodes] == ["", "", "nothing is released"]
    assert sum(buffer.nbytes for buffer in profile.live_at_peak) == profile.peak_bytes == 12


def test_sizes_that_contradict_are_said() -> None:
    # The model says that both have N elements; broadcasting lets it run all the same.
    model = graph("g (float[N] x, float[N] z) => (float[N] y) { y = Add(x, z) }")
    feeds: dict[str, Any] = {"x": np.ones(1, np.float32), "z": np.ones(3, np.float32)}
    (node,) = onp.profile(model, feeds).nodes
    assert node.live_bytes == 12
    assert node.difference
