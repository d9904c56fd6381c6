"""Where onnxruntime puts each value, counted by hand from the rules."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan, plan_allocation
from onnx_notebook_profiler.plan.ort_types import RuntimeType
from tests.models import text_model


def planned(
    body: str,
    inputs: str = "float[N,8] x",
    outputs: str = "float[N,8] y",
    constants: str = "",
    reuse: bool = True,
) -> AllocationPlan:
    text = f"agraph ({inputs}) => ({outputs}) {constants} {{ {body} }}"
    model = text_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    return plan_allocation(load_model(model), reuse=reuse)


def rules(plan: AllocationPlan) -> dict[str, tuple[str, str]]:
    """Rule and root of each value."""
    return {name: (one.rule, one.root) for name, one in plan.placements.items()}


def test_a_chain_of_two_buffers_and_an_output() -> None:
    plan = planned("a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c)")
    assert rules(plan) == {
        "a": ("own", "a"),
        "b": ("own", "b"),  # a is read by the node that makes b
        "c": ("free list", "a"),
        "y": ("output", "y"),
    }
    assert plan.releases == {2: ("b",), 3: ("a",)}
    assert plan.at_end == ()


def test_without_reuse_every_value_has_its_own_buffer() -> None:
    plan = planned("a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c)", reuse=False)
    assert rules(plan)["c"] == ("own", "c")
    assert plan.releases == {1: ("a",), 2: ("b",), 3: ("c",)}


def test_in_place_where_nothing_else_needs_the_input() -> None:
    plan = planned("a = Exp(x) b = Relu(a) y = Neg(b)")
    assert rules(plan)["b"] == ("in place", "a")
    assert plan.placements["b"].source == "a"
    assert plan.releases == {2: ("a",)}


def test_not_in_place_where_the_input_is_read_again() -> None:
    plan = planned("a = Exp(x) b = Relu(a) y = Add(a, b)")
    assert rules(plan)["b"] == ("own", "b")
    assert plan.releases == {2: ("a", "b")}


@pytest.mark.parametrize("body", ["b = Relu(x) y = Neg(b)", "b = Relu(w) y = Neg(b)"])
def test_inputs_and_weights_are_never_overwritten(body: str) -> None:
    plan = planned(body, "float[2] x", "float[2] y", "<float[2] w = {1.0, 2.0}>")
    assert rules(plan)["b"] == ("own", "b")


def test_arithmetic_is_never_in_place() -> None:
    assert rules(planned("a = Exp(x) b = Neg(a) y = Abs(b)"))["b"] == ("own", "b")


def test_a_value_that_is_read_twice_by_one_node_counts_twice() -> None:
    # At Add the count of a is 2, and goes to 0 after it: c takes a's buffer.
    plan = planned("a = Exp(x) b = Add(a, a) c = Neg(b) y = Abs(c)")
    assert rules(plan)["c"] == ("free list", "a")


def test_an_alias_shares_also_the_buffer_of_an_input() -> None:
    plan = planned(
        "a = Reshape(x, s) b = Exp(a) c = Reshape(b, s) y = Neg(c)",
        outputs="float[K] y",
        constants="<int64[1] s = {-1}>",
    )
    assert rules(plan)["a"] == ("alias", "x")
    assert rules(plan)["c"] == ("alias", "b")
    assert plan.releases == {3: ("b",)}


def test_an_alias_that_is_an_output_is_a_copy() -> None:
    plan = planned("a = Exp(x) y = Identity(a)")
    assert rules(plan)["y"] == ("output", "y")


def test_the_running_statistics_of_a_training_batch_normalization_are_aliases() -> None:
    plan = planned(
        "a, m, v = BatchNormalization<training_mode = 1>(x, s, s, n, n) y = Neg(a) p = Exp(m)",
        "float[N,8] x, float[8] s, float[8] n",
    )
    assert rules(plan)["a"] == ("own", "a")
    assert rules(plan)["m"] == rules(plan)["v"] == ("alias", "n")


def test_dropout_has_a_buffer_of_its_own() -> None:
    assert rules(planned("a = Exp(x) b = Dropout(a) y = Neg(b)"))["b"] == ("own", "b")


def test_the_latest_free_buffer_is_taken() -> None:
    # After Neg, the free list has a (after Abs) and b (after Neg): d takes b's.
    plan = planned(
        "a = Exp(x) b = Abs(a) c = Concat<axis = 1>(b, b) d = Exp(z) e = Add(d, z) y = Sub(e, z)"
        " u = Neg(c)",
        "float[N,8] x, float[N,8] z",
        "float[N,8] y, float[N,16] u",
    )
    # Leaves y (5) and u (6): u's side first, a b c u, then d e y.
    assert plan.order.nodes == (0, 1, 2, 6, 3, 4, 5)
    assert rules(plan)["d"] == ("free list", "b")
    assert rules(plan)["e"] == ("free list", "a")


def test_sizes_are_equal_by_symbol_and_element_width() -> None:
    # 4 bytes and N: int32 takes the place of float; int64 does not.
    narrow = planned("a = Exp(x) b = Cast<to = 6>(a) y = Neg(b)", outputs="int32[N,8] y")
    wide = planned("a = Exp(x) b = Cast<to = 7>(a) y = Neg(b)", outputs="int64[N,8] y")
    assert rules(narrow)["b"] == ("in place", "a")
    assert rules(wide)["b"] == ("own", "b")


def test_unnamed_dimensions_equal_nothing() -> None:
    plan = planned("a = Exp(x) b = Relu(a) c = Neg(b) y = Sqrt(c)", "float[?,8] x", "float[?,8] y")
    assert [rule for rule, _ in rules(plan).values()] == ["own", "own", "own", "output"]


def test_dimensions_that_shape_inference_makes_up_equal_nothing() -> None:
    plan = planned("a = Concat<axis = 0>(x, x) b = Relu(a) y = Neg(b)", outputs="float[M,8] y")
    assert rules(plan)["b"] == ("own", "b")


def test_scalars_are_overwritten_but_take_no_free_buffer() -> None:
    plan = planned("a = Exp(x) b = Abs(a) c = Neg(b) d = Relu(c) y = Sqrt(d)", "float x", "float y")
    assert rules(plan)["c"] == ("own", "c")
    assert rules(plan)["d"] == ("in place", "c")


def test_what_nobody_reads_takes_no_free_buffer_and_lives_to_the_end() -> None:
    plan = planned("a = Exp(x) b = Abs(a) c = Neg(b) d = Transpose(b) e = Shape(b) y = Sqrt(b)")
    # Leaves c, d, e, y: y runs first with all that it needs, then e, d, c.
    assert plan.order.nodes == (0, 1, 5, 4, 3, 2)
    assert rules(plan)["c"] == ("own", "c")  # a's buffer is free, but nobody reads c
    assert plan.at_end == ("e", "d", "c")


def test_the_buffer_of_what_nobody_reads_is_free() -> None:
    plan = planned("a = Exp(x) y = Neg(a) c = Sqrt(x)")
    assert plan.order.nodes == (2, 0, 1)
    assert rules(plan)["a"] == ("free list", "c")
    assert plan.releases == {1: ("c",)}


def test_strings_are_reused_by_nothing() -> None:
    plan = planned(
        "a = Concat<axis = 0>(x, x) b = Concat<axis = 0>(a, a) c = Concat<axis = 0>(b, b) y = Identity(c)",
        "string[2] x",
        "string[16] y",
    )
    assert [rule for rule, _ in rules(plan).values()] == ["own", "own", "own", "output"]


def test_buffers_go_back_by_the_number_of_their_value() -> None:
    # Concat is the last reader of a, b and c; values are numbered as the nodes name them.
    plan = planned(
        "c = Exp(x) a = Abs(x) b = Neg(x) y = Concat<axis = 0>(a, b, c)", outputs="float[M,8] y"
    )
    assert plan.releases == {3: ("c", "a", "b")}


def test_the_types_of_the_caller_hold() -> None:
    text = "agraph (float[?,8] x) => (float[?,8] y) { a = Exp(x) b = Relu(a) y = Neg(b) }"
    model = load_model(text_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}'))
    same = RuntimeType(TensorProto.FLOAT, ("T", 8))
    plan = plan_allocation(model, types={"a": same, "b": same})
    assert rules(plan)["b"] == ("in place", "a")


def test_element_types_fill_in_what_inference_leaves_open() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
        agraph (int64[N] x) => (string[N] y) {
            a = ai.onnx.ml.LabelEncoder<keys_int64s = [1], values_strings = ["one"]>(x)
            y = Identity(a) }"""
    plan = plan_allocation(load_model(text_model(text)))
    found = plan.with_element_types({"a": TensorProto.STRING, "x": TensorProto.FLOAT})
    assert found.types["a"].data_type == TensorProto.STRING
    assert found.types["x"].data_type == TensorProto.INT64
