"""The work of branches, loops, scans and functions, counted by hand."""

from __future__ import annotations

import pytest

from onnx_notebook_profiler.symbolic.work import ModelWork
from tests.models import text_model
from tests.symbolic.work_models import computed, numbers

HEAD = '<ir_version: 10, opset_import: ["" : 18, "f" : 1]>\n'


def work_of(text: str) -> ModelWork:
    return computed(text_model(HEAD + text)).work


def test_a_function_does_the_work_of_its_nodes() -> None:
    (call,) = work_of(
        """g (float[N, 4] x) => (float[N, 4] y) { y = f.twice(x) }
        <domain: "f", opset_import: ["" : 18]> twice (v) => (w) { a = Add(v, v)  w = Tanh(a) }"""
    )
    assert call.op == "f::twice"
    # Of 12 numbers of 4 bytes: a sum reads one input and writes, a tanh (8 FLOPs) does too.
    assert numbers(call, {"N": 3}) == (0, 12 + 12 * 8, 2 * 48, 2 * 48)
    assert [node.op for node in call.bodies["twice"]] == ["Add", "Tanh"]
    assert numbers(call.bodies["twice"][1], {"N": 3}) == (0, 96, 48, 48)


BRANCHES = """g (float[N] x, bool c) => (float[N] y) {{
    y = If (c) <then_branch = t () => (float[N] p) {{ {then} }},
                else_branch = e () => (float[N] q) {{ {other} }}>
}}"""


def test_branches_that_do_the_same_need_no_condition() -> None:
    (node,) = work_of(BRANCHES.format(then="p = Abs(x)", other="q = Neg(x)"))
    assert numbers(node, {"N": 5}) == (0, 5, 20, 20)
    assert node.reason == ""


def test_data_decides_between_branches_that_differ() -> None:
    work = work_of(BRANCHES.format(then="p = Abs(x)", other="q = Add(x, x)  "))
    assert numbers(work[0], {"N": 5}) == (0, 5, 20, 20)
    work = work_of(BRANCHES.format(then="p = Abs(x)", other="q = Tanh(x)"))
    assert numbers(work[0], {"N": 5}) == (0, None, 20, 20)
    assert work[0].reason == "the data decides which branch runs"
    assert numbers(work[0].bodies["then_branch"][0], {"N": 5}) == (0, 5, 20, 20)
    assert numbers(work[0].bodies["else_branch"][0], {"N": 5}) == (0, 40, 20, 20)
    assert work.unruled == ()


def test_a_condition_that_the_model_holds_takes_its_branch() -> None:
    node = work_of(
        """g (float[N] x) => (float[N] y) <bool c = {0}> {
            y = If (c) <then_branch = t () => (float[N] p) { p = Abs(x) },
                        else_branch = e () => (float[N] q) { q = Tanh(x) }>
        }"""
    )[0]
    assert numbers(node, {"N": 5}) == (0, 40, 20, 20)


LOOP = """g (float[N, 4] x{more}) => (float[N, 4] last, float[S, N, 4] all) {{
    {trips}
    last, all = Loop (trips, , x) <
        body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next, float[N, 4] piece) {{
            on = Identity(go)  next = Mul(state, x)  piece = Tanh(next) }}>
}}"""


def test_a_loop_does_the_work_of_its_body_at_each_run_and_stacks() -> None:
    work = work_of(LOOP.format(more="", trips="trips = Constant<value_int = 5>()"))
    # 12 numbers: Mul reads two and writes one, Tanh one and one; five times. Five pieces are put together once more.
    expected = (0, 5 * (12 + 96), 5 * (96 + 48) + 5 * 48, 5 * (48 + 48) + 5 * 48)
    assert numbers(work[-1], {"N": 3}) == expected


def test_a_loop_over_a_size() -> None:
    trips = "s = Shape(x)  zero = Constant<value_int = 0>()  trips = Gather<axis = 0>(s, zero)"
    work = work_of(LOOP.format(more="", trips=trips))
    assert numbers(work[-1], {"N": 3})[1] == 3 * (12 + 96)
    assert numbers(work[-1], {"N": 10})[1] == 10 * (40 + 320)


def test_a_loop_of_which_nobody_knows_how_often_it_runs() -> None:
    work = work_of(LOOP.format(more=", int64 trips", trips=""))
    assert numbers(work[0], {"N": 3}) == (0, None, None, None)
    assert "the data decides how often its body runs" in work[0].reason
    assert numbers(work[0].bodies["body"][1], {"N": 3}) == (0, 12, 96, 48)


def test_a_scan_runs_once_for_each_slice() -> None:
    (node,) = work_of(
        """g (float[T, 4] x, float[4] h) => (float[4] last, float[T, 4] all) {
            last, all = Scan<num_scan_inputs = 1,
                body = b (float[4] s, float[4] v) => (float[4] n, float[4] o) {
                    n = Add(s, v)  o = Relu(n) }>(h, x) }"""
    )
    # Each step: a sum of two rows of 16 bytes, a row through Relu; T rows are put together once more.
    assert numbers(node, {"T": 6}) == (0, 6 * 8, 6 * (32 + 16) + 96, 6 * (16 + 16) + 96)


def test_weights_of_the_outer_graph_are_read_inside() -> None:
    node = work_of(
        """g (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}, int64 trips = {3}> {
            y = Loop (trips, , x) <
                body = b (int64 i, bool go, float[N, 2] s) => (bool on, float[N, 2] n) {
                    on = Identity(go)  n = MatMul(s, w) }> }"""
    )[0]
    assert numbers(node, {"N": 5}) == (3 * 20, 3 * 40, 3 * (40 + 16), 3 * 40)


def test_an_operator_without_a_rule_inside_is_named() -> None:
    work = work_of(
        """g (float[N] x) => (float[N] y) { y = f.odd(x) }
        <domain: "f", opset_import: ["" : 18, "strange" : 1]> odd (v) => (w) { w = strange.Thing(v) }"""
    )
    assert work.unruled == ("strange::Thing",)
    assert work[0].reason.startswith("no rule counts its operator; size of 'w': ")


@pytest.mark.parametrize("depth", [1, 3])
def test_loops_within_loops_multiply(depth: int) -> None:
    inner = "{n} = Tanh({s})"
    for level in range(depth):
        inner = (
            f"{{n}} = Loop (trips, , {{s}}) <body = b{level} (int64 i{level}, bool g{level}, float[N] s{level}) => "
            f"(bool o{level}, float[N] n{level}) {{{{ o{level} = Identity(g{level})  "
            + inner.format(n=f"n{level}", s=f"s{level}").replace("{", "{{").replace("}", "}}")
            + " }}>"
        )
    text = inner.format(n="y", s="x")
    (node,) = work_of(f"g (float[N] x) => (float[N] y) <int64 trips = {{3}}> {{ {text} }}")
    assert numbers(node, {"N": 2}) == (0, 3**depth * 16, 3**depth * 8, 3**depth * 8)
