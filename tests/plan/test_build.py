"""Lifetimes, views and accounts of small graphs, found by hand."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan import GraphPlan, build_plan
from onnx_notebook_profiler.plan.graph_plan import ABSENT, EXECUTION

HEAD = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'


def plan_of(text: str) -> GraphPlan:
    return build_plan(load_model(text))


def releases(plan: GraphPlan) -> list[list[str]]:
    """Names that go after each step."""
    return [[going.name for going in step.releases] for step in plan.steps]


def freed(plan: GraphPlan) -> list[list[str]]:
    """Names whose own buffers go after each step."""
    names = list(plan.slots)
    return [
        [names[going.frees] for going in step.releases if going.frees != ABSENT]
        for step in plan.steps
    ]


def buffers(plan: GraphPlan) -> list[tuple[Any, ...]]:
    return [(one.names, one.account, one.born, one.last) for one in plan.buffers]


def test_fact_1_mul_add() -> None:
    plan = plan_of(
        "g (float[N] x) => (float[N] w) <float two = {2.0}> { z = Mul(x, two) w = Add(z, x) }"
    )
    assert plan.required == ("x",)
    assert plan.outputs == ("w",)
    assert list(plan.initializers) == ["two"]
    assert releases(plan) == [[], ["z"]]
    assert buffers(plan) == [(("z",), EXECUTION, 0, 1), (("w",), 0, 1, 1)]


def test_fact_31_two_values_die_at_one_node() -> None:
    plan = plan_of(
        "g (float[N] x) => (float[N] y) { t0 = Add(x, x) t1 = Mul(t0, t0) y = Sub(t1, t0) }"
    )
    assert releases(plan) == [[], [], ["t1", "t0"]]
    assert freed(plan) == [[], [], ["t1", "t0"]]


def test_each_name_is_released_once_in_the_order_of_the_inputs() -> None:
    plan = plan_of(
        "g (float[N] x) => (float[M] y) { a = Abs(x) b = Neg(x) y = Concat <axis = 0> (b, a, b, x) }"
    )
    assert releases(plan) == [[], [], ["b", "a"]]


def test_dead_outputs_go_at_once_and_after_the_inputs() -> None:
    plan = plan_of(
        "g (float[8] x) => (float[4] y) { a = Abs(x) p, q = Split <axis = 0, num_outputs = 2> (a)"
        " y = Neg(p) }"
    )
    assert releases(plan) == [[], ["a", "q"], ["p"]]
    assert buffers(plan)[2] == (("q",), EXECUTION, 1, 1)


def test_inputs_initializers_and_outputs_are_never_released() -> None:
    plan = plan_of(
        "g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}>"
        "{ y = Add(x, w) z = Neg(y) }"
    )
    assert releases(plan) == [[], []]


def test_an_output_that_is_read_again_lives_to_the_end() -> None:
    plan = plan_of(
        "g (float[2] x) => (float[2] a, float[2] c) { a = Abs(x) b = Neg(a) c = Abs(b) }"
    )
    assert buffers(plan) == [
        (("a",), 0, 0, 2),
        (("b",), EXECUTION, 1, 2),
        (("c",), 1, 2, 2),
    ]


@pytest.mark.parametrize(
    "view",
    [
        "r = Reshape(a, s)",
        "r = Squeeze(a, s)",
        "r = Unsqueeze(a, s)",
        "r = Flatten(a)",
        "r = Identity(a)",
        "r = Dropout(a)",
    ],
)
def test_a_view_keeps_its_base_alive_and_has_no_bytes(view: Any) -> None:
    plan = plan_of(
        f"g (float[2, 3] x, int64[k] s) => (float[o] y) {{ a = Abs(x) {view} c = Neg(x) y = Neg(r) }}"
    )
    assert plan.steps[1].views == (0,)
    assert buffers(plan)[0] == (("a", "r"), EXECUTION, 0, 3)
    # the name `a` goes once nobody reads it, its bytes with the view
    assert releases(plan) == [[], ["a"], ["c"], ["r"]]
    assert freed(plan) == [[], [], ["c"], ["a"]]


@pytest.mark.parametrize(
    "line",
    [
        "r = Transpose(a)",
        "r = Cast <to = 1> (a)",
        "r = Expand(a, s)",
        "r = Slice(a, s, s)",
        "r, q = Split <num_outputs = 2> (a)",
        "r = Gather(a, s)",
        "r = local.Reshape(a, s)",
    ],
)
def test_nothing_else_is_a_view(line: Any) -> None:
    plan = plan_of(
        f"{HEAD} g (float[2, 3] x, int64[k] s) => (float[o] y) {{ a = Abs(x) {line} y = Neg(r) }}"
    )
    assert set(plan.steps[1].views) == {ABSENT}


def test_a_chain_of_views_that_reaches_an_output_belongs_to_it_from_birth() -> None:
    plan = plan_of(
        "g (float[2, 3] x, int64[k] s) => (float[o] y)"
        "{ a = Abs(x) r = Reshape(a, s) b = Neg(a) c = Neg(b) y = Identity(r) }"
    )
    assert plan.steps[0].accounts == (0,)
    assert buffers(plan)[0] == (("a", "r", "y"), 0, 0, 4)
    assert freed(plan) == [[], [], [], ["b", "c"], []]  # nobody reads c


def test_of_two_outputs_on_one_buffer_the_first_declared_gets_it() -> None:
    plan = plan_of("g (float[2] x) => (float[2] q, float[2] p) { p = Abs(x) q = Identity(p) }")
    assert buffers(plan) == [(("p", "q"), 0, 0, 1)]
    assert plan.steps[0].accounts == plan.steps[1].accounts == (0,)


@pytest.mark.parametrize("source", ["x", "w"])
def test_an_output_rooted_in_borrowed_bytes_is_a_copy(source: Any) -> None:
    plan = plan_of(
        "g (float[2] x, int64[k] s) => (float[o] y) <float[2] w = {1, 2}>"
        f"{{ r = Reshape({source}, s) y = Identity(r) }}"
    )
    assert plan.steps[0].views == (0,)
    assert plan.steps[1].views == (ABSENT,)
    assert buffers(plan) == [(("y",), 0, 1, 1)]


def test_a_view_of_borrowed_bytes_inside_is_no_buffer() -> None:
    plan = plan_of("g (float[2] x, int64[k] s) => (float[o] y) { r = Reshape(x, s) y = Neg(r) }")
    assert buffers(plan) == [(("y",), 0, 1, 1)]
    assert releases(plan) == [[], ["r"]]
    assert freed(plan) == [[], []]


@pytest.mark.parametrize(
    ("opset", "line", "view"),
    [
        (18, "r, m = Dropout(a)", (0, ABSENT)),
        (18, "r = Dropout(a, ratio, on)", (ABSENT,)),
        (18, "r = Dropout(a, ratio, off)", (0,)),
        (18, "t = Constant <value = bool {0}> () r = Dropout(a, ratio, t)", (0,)),
        (18, "t = Constant <value = bool {1}> () r = Dropout(a, ratio, t)", (ABSENT,)),
        (18, "r = Dropout(a, ratio, fed)", (ABSENT,)),
        (10, "r = Dropout <ratio = 0.5> (a)", (0,)),
        (6, "r = Dropout <is_test = 1> (a)", (0,)),
        (6, "r = Dropout(a)", (ABSENT,)),
    ],
)
def test_dropout_is_a_view_only_where_it_cannot_train(opset: Any, line: Any, view: Any) -> None:
    plan = plan_of(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2] x, bool fed) => (float[2] y)'
        f"<bool on = {{1}}, bool off = {{0}}, float ratio = {{0.5}}> {{ a = Abs(x) {line} y = Neg(r) }}"
    )
    assert next(s for s in plan.steps if s.node.op_type == "Dropout").views == view


def test_an_initializer_that_may_be_fed_does_not_decide() -> None:
    plan = plan_of(
        "g (float[2] x, bool off) => (float[2] y) <bool off = {0}, float ratio = {0.5}>"
        "{ a = Abs(x) r = Dropout(a, ratio, off) y = Neg(r) }"
    )
    assert plan.required == ("x",)
    assert plan.steps[1].views == (ABSENT,)


BRANCHES = (
    "g (bool c, float[2] x) => (float[2] y) {"
    " a = Abs(x) b = Neg(x) unused = Neg(x)"
    " y = If (c) <"
    "  then_branch = t () => (float[2] p) { p = Add(b, a) },"
    "  else_branch = e () => (float[2] q) { a = Neg(x) q = Add(a, a) }> }"
)


def test_a_body_reads_what_it_does_not_define() -> None:
    plan = plan_of(BRANCHES)
    step = plan.steps[3]
    then_branch, else_branch = step.bodies
    assert (then_branch.name, else_branch.name) == ("then_branch", "else_branch")
    assert then_branch.plan.captures == ("b", "a")
    assert else_branch.plan.captures == ("x",)  # its own a hides the outer one
    assert [plan.slots[name] for name in ("b", "a")] == [outer for outer, _ in then_branch.captures]
    assert not step.is_call


def test_captured_values_live_until_the_node_with_the_body() -> None:
    plan = plan_of(BRANCHES)
    assert releases(plan) == [[], [], ["unused"], ["b", "a"]]


def test_captured_values_go_after_the_inputs_of_the_node_and_before_its_dead_outputs() -> None:
    plan = plan_of(
        "g (bool c, float[2] x) => (float[2] y) { a = Abs(x) b = Neg(x) d = Not(c) dead, y = If (d) <"
        " then_branch = t () => (float[2] p, float[2] q) { p = Add(b, a) q = Neg(p) },"
        " else_branch = e () => (float[2] r, float[2] s) { r = Neg(a) s = Neg(x) }> }"
    )
    assert releases(plan)[3] == ["d", "b", "a", "dead"]


def test_captures_of_inner_bodies_count_for_the_outer_ones() -> None:
    plan = plan_of(
        "g (bool c, float[2] x) => (float[2] y) { a = Abs(x) b = Neg(x)"
        " y = If (c) <then_branch = t () => (float[2] p) {"
        "   p = If (c) <then_branch = tt () => (float[2] pp) { pp = Neg(a) },"
        "               else_branch = ee () => (float[2] qq) { qq = Identity(b) }> },"
        "  else_branch = e () => (float[2] q) { q = Neg(x) }> }"
    )
    outer = plan.steps[2].bodies[0].plan
    assert outer.captures == ("c", "a", "b")
    assert outer.steps[0].bodies[0].plan.captures == ("a",)
    assert outer.steps[0].bodies[1].plan.captures == ("b",)
    assert releases(plan)[2] == ["a", "b"]
    # inside a body, captured values are borrowed: nothing to release
    assert releases(outer) == [[]]


def test_a_branch_that_gives_an_outer_value_back_copies_it() -> None:
    plan = plan_of(
        "g (bool c, float[2] x) => (float[2] y) { a = Abs(x)"
        " y = If (c) <then_branch = t () => (float[2] p) { p = Identity(a) },"
        "             else_branch = e () => (float[2] q) { q = Neg(a) }> }"
    )
    body = plan.steps[1].bodies[0].plan
    assert body.steps[0].views == (ABSENT,)
    assert buffers(body) == [(("p",), 0, 0, 0)]


LOCAL = HEAD + (
    "g (float[N] x) => (float[N] y) {{ t = local.Twice <k = 3> (x) y = local.Twice(t) }}\n"
    '<domain: "local", opset_import: ["" : 17, "local" : 1]> Twice <{attributes}> (a) => (b) {{ {body} }}'
)


def test_a_function_is_planned_for_each_call_with_its_own_opsets() -> None:
    plan = plan_of(
        LOCAL.format(attributes="k: int = 1", body="c = Concat <axis: int = @k> (a, a) b = Neg(c)")
    )
    first, second = (step.bodies[0].plan for step in plan.steps)
    assert all(step.is_call for step in plan.steps)
    assert (first.opsets[""], plan.opsets[""]) == (17, 18)
    assert [a.i for a in first.steps[0].node.attribute] == [3]
    assert [a.i for a in second.steps[0].node.attribute] == [1]
    assert first.inputs == ("a",)
    assert releases(first) == [[], ["c"]]


def test_an_attribute_that_nobody_gives_is_left_out() -> None:
    plan = plan_of(LOCAL.format(attributes="k, m", body="b = Elu <alpha: float = @m> (a)"))
    body = plan.steps[0].bodies[0].plan
    assert list(body.steps[0].node.attribute) == []


def test_references_inside_bodies_of_functions_are_bound() -> None:
    plan = plan_of(
        HEAD + "g (bool c, float[N] x) => (float[N] y) { y = local.F <k = 5> (c, x) }\n"
        '<domain: "local", opset_import: ["" : 18]> F <k> (c, a) => (b) {'
        " b = If (c) <then_branch = t () => (p) { p = Cast <to: int = @k> (a) },"
        "             else_branch = e () => (q) { q = Identity(a) }> }"
    )
    inner = plan.steps[0].bodies[0].plan.steps[0].bodies[0].plan
    assert [(a.name, a.i) for a in inner.steps[0].node.attribute] == [("to", 5)]


def test_functions_that_call_themselves_are_errors() -> None:
    text = HEAD + (
        "g (float[N] x) => (float[N] y) { y = local.F(x) }\n"
        '<domain: "local", opset_import: ["" : 18, "local" : 1]> F (a) => (b) { b = local.G(a) }\n'
        '<domain: "local", opset_import: ["" : 18, "local" : 1]> G (a) => (b) { b = local.F(a) }'
    )
    with pytest.raises(ModelError, match=r"'F' calls itself \(F -> G -> F\)"):
        plan_of(text)


def test_a_call_with_too_many_inputs_is_an_error() -> None:
    text = HEAD + (
        "g (float[N] x) => (float[N] y) { y = local.F(x, x) }\n"
        '<domain: "local", opset_import: ["" : 18]> F (a) => (b) { b = Abs(a) }'
    )
    with pytest.raises(ModelError, match="takes 1 and gives 1"):
        plan_of(text)


def test_absent_inputs_and_outputs_have_no_slot() -> None:
    plan = plan_of(
        "g (float[2] x, float hi) => (float[2] y) { y = Clip(x, , hi) , m = Dropout(x) }"
    )
    assert plan.steps[0].inputs == (plan.slots["x"], ABSENT, plan.slots["hi"])
    assert plan.steps[1].outputs[0] == ABSENT
    assert plan.steps[1].views[0] == ABSENT
    assert "" not in plan.slots
    assert releases(plan) == [[], ["m"]]
