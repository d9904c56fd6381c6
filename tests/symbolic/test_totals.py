"""Totals and peak at given sizes: forms of the argument, limits, and the maximum by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from onnx import ModelProto, helper, numpy_helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import SizeError
from tests.models import memory_demo_model, memory_demo_totals
from tests.profile.random_graphs import CONSTANTS, Case, cases
from tests.symbolic.rows import computed, graph, model_of


def two_peaks_model() -> ModelProto:
    """X f[N,M], W f[M,256]: N*N in the middle, 256*N at the end; which is more depends on the sizes."""
    weight = numpy_helper.from_array(np.zeros((8, 256), np.float32), "W")
    nodes = [
        helper.make_node("Transpose", ["X"], ["T"]),
        helper.make_node("MatMul", ["X", "T"], ["S"]),
        helper.make_node("MatMul", ["S", "Z"], ["P"]),
        helper.make_node("MatMul", ["P", "W"], ["Y"]),
    ]
    return model_of(nodes, {"X": ["N", "M"], "Z": ["N", 8]}, ["Y"], initializer=[weight])


def two_peaks_totals(n: int, m: int) -> list[int]:
    """By hand: X and T are 4*N*M, Z and P 32*N, S 4*N*N, Y 1024*N, W 8192; T goes after S, S after P."""
    standing = 4 * n * m + 32 * n + 8192
    product = 4 * n * n
    return [
        standing + 4 * n * m,
        standing + 4 * n * m + product,
        standing + product + 32 * n,
        standing + 32 * n + 1024 * n,
    ]


# forms of the argument


def test_scalars_arrays_and_mappings() -> None:
    context = computed(memory_demo_model())
    one = context.totals(N=8)
    assert one.dtype == np.int64
    assert one.tolist() == memory_demo_totals(8)
    assert context.totals({"N": 8}).tolist() == one.tolist()
    assert context.totals(N=np.int32(8)).tolist() == one.tolist()
    many = context.totals(N=np.arange(1, 129))
    assert many.shape == (128, 5)
    assert many.dtype == np.int64
    assert many.tolist() == [memory_demo_totals(n) for n in range(1, 129)]
    assert context.totals({"N": [1, 2]}).tolist() == many[:2].tolist()
    assert context.totals(N=0).tolist() == [64, 64, 80, 80, 80]


def test_keywords_win_over_the_mapping_and_join_it() -> None:
    context = computed(two_peaks_model())
    assert context.totals({"N": 3}, M=2).tolist() == two_peaks_totals(3, 2)
    assert context.totals({"N": 9, "M": 2}, N=3).tolist() == two_peaks_totals(3, 2)


def test_arrays_beside_scalars_and_arrays_side_by_side() -> None:
    context = computed(two_peaks_model())
    assert context.totals(N=np.array([1, 300]), M=5).tolist() == [
        two_peaks_totals(1, 5),
        two_peaks_totals(300, 5),
    ]
    assert context.totals(N=[1, 300], M=[2, 7]).tolist() == [
        two_peaks_totals(1, 2),
        two_peaks_totals(300, 7),
    ]


def test_results_are_not_shared() -> None:
    context = computed(memory_demo_model())
    context.totals(N=1)[:] = 0
    context.unknown_nodes(N=1)[:] = True
    assert context.totals(N=1).tolist() == memory_demo_totals(1)
    assert not context.unknown_nodes(N=1).any()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "N"),
        ({"M": 3}, "M"),
        ({"N": 1, "M": 3}, "M"),
        ({"N": -1}, "negative"),
        ({"N": np.array([1, -1])}, "negative"),
        ({"N": 1.0}, "integer"),
        ({"N": np.array([1.5])}, "integer"),
        ({"N": True}, "integer"),
        ({"N": "8"}, "integer"),
        ({"N": None}, "integer"),
        ({"N": np.zeros((2, 2), int)}, "axis"),
        ({"N": 2**63}, "64"),
        ({"N": 2**60}, "64"),  # 64 * 2**60 bytes
        ({"N": np.array([1, 2**60])}, "64"),
    ],
)
def test_sizes_that_do_not_fit(sizes: dict[str, Any], message: str) -> None:
    context = computed(memory_demo_model())
    for ask in (context.totals, context.peak.evaluate, context.peak.node):
        with pytest.raises(SizeError, match=message):
            ask(sizes)


def test_the_largest_total_that_fits() -> None:
    context = computed(graph("g (int8[N] x) => (int8[N] y) { y = Abs(x) }"))
    most = 2**62 - 1
    assert context.totals(N=most).tolist() == [2 * most]
    with pytest.raises(SizeError, match="64"):
        context.totals(N=2**62)


# peak


def test_peak_of_the_published_model() -> None:
    context = computed(memory_demo_model())
    assert context.peak.evaluate(N=8) == 576
    assert type(context.peak.evaluate(N=8)) is int
    assert context.peak.node(N=8) == 1
    # 64*N+64 against 48*N+80: equal at N = 1, where node 1 is still the first to reach it.
    assert context.peak.evaluate(N=1) == 128
    assert context.peak.node(N=1) == 1
    assert context.peak.evaluate(N=0) == 80
    assert context.peak.node(N=0) == 2
    assert context.peak.expression == "48*N+80^64*N+64"


def test_peak_at_every_size_by_brute_force() -> None:
    context = computed(two_peaks_model())
    text = context.peak.expression
    seen = set()
    for m in (0, 1, 3, 8, 100, 300):
        sizes = np.array([0, 1, 2, 7, 8, 100, 255, 256, 257, 258, 264, 265, 300, 1000])
        peaks = context.peak.evaluate(N=sizes, M=m)
        nodes = context.peak.node(N=sizes, M=m)
        assert peaks.dtype == np.int64
        for n, peak, node in zip(sizes.tolist(), peaks.tolist(), nodes.tolist(), strict=True):
            totals = two_peaks_totals(n, m)
            assert peak == max(totals)
            assert node == totals.index(max(totals))
            assert context.peak.evaluate(N=n, M=m) == peak
            assert context.peak.node(N=n, M=m) == node
            assert onp.evaluate_expression(text, {"N": n, "M": m}) == peak
            seen.add(node)
    assert seen == {0, 1, 2, 3}


def test_peak_of_constants() -> None:
    context = computed(graph("g (float[4] X) => (float[4] Y) { A = Abs(X) Y = Transpose(A) }"))
    assert context.peak.expression == "48"
    assert context.peak.evaluate() == 48
    assert repr(context.peak) == "Peak(48)"


# models without nodes, unknown sizes


def test_a_model_without_nodes() -> None:
    context = computed(graph("g (float[N] X) => (float[N] X) { }"))
    assert len(context) == 0
    assert context.dims == ("N",)
    assert context.totals(N=3).shape == (0,)
    assert context.totals(N=[3, 4]).shape == (2, 0)
    assert context.totals(N=3).dtype == np.int64
    assert context.unknown_nodes(N=3).shape == (0,)
    assert context.peak.evaluate(N=3) == 0
    assert context.peak.evaluate(N=[3, 4]).tolist() == [0, 0]
    assert context.peak.node(N=3) == -1
    assert context.peak.node(N=[3, 4]).tolist() == [-1, -1]
    assert context.peak.expression == "0"


def test_values_that_data_decides_are_unknown_and_said_to_be() -> None:
    context = computed(
        graph("g (float[N] X) => (float[N] Y) { I = NonZero(X) C = Shape(I) Y = Abs(X) }"), "none"
    )
    (unknown,) = context.unknown
    assert (unknown.value, unknown.node, unknown.op) == ("I", 0, "NonZero")
    assert unknown.reason
    # I is alive at nodes 0 and 1 and has gone at node 2.
    assert context.unknown_nodes(N=4).tolist() == [True, True, False]
    assert context.unknown_nodes(N=4).dtype == np.bool_
    # I counts for nothing; C is two int64 numbers at its own node only.
    assert context.totals(N=4).tolist() == [16, 32, 32]
    assert (context.coverage.known, context.coverage.total) == (3, 4)


@pytest.mark.parametrize("account", ["model", "evaluator"])
def test_sequences_have_no_size(account: str) -> None:
    context = computed(
        graph(
            "g (float[N] X) => (float[N] Y) { S = SequenceConstruct(X, X) "
            "i = Constant<value = int64 {0}>() Y = SequenceAt(S, i) }"
        ),
        account=account,
    )
    assert [one.value for one in context.unknown] == ["S"]
    assert context.unknown_nodes(N=4).tolist() == [True, True, True]


def test_strings_have_no_fixed_size_in_the_model_and_no_bytes_of_their_own_in_the_evaluator() -> (
    None
):
    model = graph("g (string[N] X) => (string[N] Y) { Y = Identity(X) }")
    context = computed(model)
    assert [(one.value, one.node) for one in context.unknown] == [("X", -1), ("Y", 0)]
    assert context.unknown_nodes(N=1).tolist() == [True]
    held = computed(model, account="evaluator")
    assert held.unknown == ()
    assert held.totals(N=1).tolist() == [0]


def test_an_input_without_shape_is_unknown() -> None:
    model = model_of([helper.make_node("Abs", ["X"], ["Y"])], {"X": None}, ["Y"])
    context = computed(model)
    assert context.dims == ()
    assert [one.value for one in context.unknown] == ["X", "Y"]
    assert "declares no shape" in context.unknown[0].reason
    assert context.totals().tolist() == [0]
    assert context.unknown_nodes().tolist() == [True]
    assert str(context.coverage) == "0 of 2 values"


def test_operators_that_nobody_knows() -> None:
    context = computed(graph("g (float[N] X) => (Z) { Y = d.Unheard(X) Z = Abs(X) }"), "none")
    assert [(one.value, one.op) for one in context.unknown] == [("Y", "Unheard")]
    assert context.unknown_nodes(N=1).tolist() == [True, False]
    assert context.totals(N=1).tolist() == [4, 8]


# random graphs


def model_bytes(case: Case) -> list[int]:
    """The model's account without reuse, counted from the values of a run."""
    nodes = case.model.graph.node
    outputs = {value.name for value in case.model.graph.output}
    names = [value.name for value in case.model.graph.input]
    standing = sum(case.values[name].nbytes for name in names)
    standing += sum(data.nbytes for data in CONSTANTS.values())
    maker = {name: index for index, node in enumerate(nodes) for name in node.output}
    last = {name: index for index, node in enumerate(nodes) for name in node.input}
    return [
        standing
        + sum(
            case.values[name].nbytes
            for name, born in maker.items()
            if born == index or (born < index and (name in outputs or last.get(name, -1) >= index))
        )
        for index in range(len(nodes))
    ]


@settings(max_examples=60)
@given(cases())
def test_random_graphs_at_their_sizes(case: Case) -> None:
    n, m = case.feeds["x"].shape
    context = computed(case.model, "none")
    assert context.unknown == ()
    expected = model_bytes(case)
    assert context.totals(N=n, M=m).tolist() == expected
    assert context.peak.evaluate(N=n, M=m) == max(expected)
    assert context.peak.node(N=n, M=m) == expected.index(max(expected))
    assert onp.evaluate_expression(context.peak.expression, {"N": n, "M": m}) == max(expected)
    assert not context.unknown_nodes(N=n, M=m).any()
    # In place never takes more.
    for reuse in ("operator", "structural"):
        assert (computed(case.model, reuse).totals(N=n, M=m) <= np.array(expected)).all()
