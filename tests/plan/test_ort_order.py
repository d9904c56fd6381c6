"""The order in which onnxruntime runs nodes, counted by hand from the rule."""

from __future__ import annotations

from itertools import pairwise

import pytest
from onnx import GraphProto, ModelProto, helper

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.plan.ort_order import execution_order, measured_order
from tests.models import text_model

_HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def graph(body: str) -> GraphProto:
    return text_model(f"{_HEAD} agraph (float[N] x) => (float[N] y) {{ {body} }}").graph


def test_highest_producer_runs_first() -> None:
    # y reads a and b; b has the higher index.
    assert execution_order(graph("a = Exp(x) b = Abs(x) y = Add(a, b)")).nodes == (1, 0, 2)


def test_last_leaf_runs_first_with_all_that_it_needs() -> None:
    # Leaves are node 2 (y) and node 3 (nobody reads it): 3 first, with its producer 1.
    found = execution_order(graph("a = Exp(x) b = Abs(x) y = Neg(a) c = Sqrt(b)"))
    assert found.nodes == (1, 3, 0, 2)


def test_a_shared_producer_runs_once() -> None:
    assert execution_order(graph("a = Exp(x) b = Abs(a) c = Neg(a) y = Add(b, c)")).nodes == (
        0,
        2,
        1,
        3,
    )


def test_constants_never_run() -> None:
    found = execution_order(graph("c = Constant<value_floats = [2.0]>() a = Exp(x) y = Mul(a, c)"))
    assert found.nodes == (1, 2)


def test_what_a_body_reads_comes_before_its_node() -> None:
    text = """(float[N] x, bool p) => (float[N] y) {
        a = Exp(x) b = Abs(x)
        y = If (p) <then_branch = t () => (float[N] u) { u = Neg(a) },
                    else_branch = e () => (float[N] v) { v = Neg(b) }> }"""
    model = text_model(f"{_HEAD} agraph {text}")
    assert execution_order(model.graph).nodes == (1, 0, 2)


def test_a_long_chain_needs_no_recursion() -> None:
    names = ["x", *(f"v{index}" for index in range(20_000))]
    nodes = [helper.make_node("Exp", [a], [b]) for a, b in pairwise(names)]
    assert execution_order(GraphProto(node=nodes)).nodes == tuple(range(20_000))


def named() -> ModelProto:
    model = text_model(
        f"{_HEAD} agraph (float[N] x) => (float[N] y) {{ a = Exp(x) b = Abs(x) y = Add(a, b) }}"
    )
    for name, node in zip("abc", model.graph.node, strict=True):
        node.name = name
    return model


def test_a_measured_order_keeps_the_numbers_of_the_session() -> None:
    found = measured_order(named().graph, [("a", 7), ("b", 4), ("c", 9)])
    assert found.nodes == (0, 1, 2)
    assert found.is_measured
    assert found.numbers == {0: 7, 1: 4, 2: 9}


def test_nodes_without_names_go_by_operator_and_index() -> None:
    plain = graph("a = Exp(x) b = Abs(x) y = Add(a, b)")
    assert measured_order(plain, [("Exp_0", 0), ("Abs_1", 1), ("Add_2", 2)]).nodes == (0, 1, 2)


@pytest.mark.parametrize(
    ("ran", "message"),
    [
        ([("a", 0), ("b", 1), ("d", 2)], "'d', which is no node of the graph"),
        ([("a", 0), ("a", 0), ("c", 2)], "'a', which comes twice"),
        ([("a", 0), ("b", 1)], "has 2 of 3 nodes"),
        ([("c", 2), ("a", 0), ("b", 1)], "runs before what it reads is made"),
    ],
)
def test_an_order_of_another_graph_is_refused(ran: list[tuple[str, int]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        measured_order(named().graph, ran)


def test_nodes_without_names_that_were_numbered_anew_are_refused() -> None:
    plain = graph("a = Exp(x) b = Abs(x) y = Add(a, b)")
    with pytest.raises(ModelError, match="3 nodes have no name"):
        measured_order(plain, [("Exp_0", 5), ("Abs_1", 1), ("Add_2", 2)])
