"""The numeric facts of the specification of onnx-light's account; figures counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_notebook_profiler as onp
from tests.models import memory_demo_model, mul_add_model
from tests.symbolic.rows import computed, graph, model_of, notes, reused, rows

EQUAL = [(0, 0, "equal")]
GREATER = [(0, 0, "greater")]


def annotated(model: ModelProto, reuse: Any = "operator") -> list[dict[str, str]]:
    computed(model, reuse).write_to_model(model)
    return notes(model)


# fact 3


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_memory_demo(reuse: str) -> None:
    # Concat's sizes differ, and the other reuses are element-wise or a view: both rules agree.
    assert rows(computed(memory_demo_model(), reuse)) == [
        ("16*N+64", "16*N", "32*N+64"),
        ("32*N+64", "32*N", "64*N+64"),
        ("48*N+64", 16, "48*N+80"),
        ("48*N+80", 0, "48*N+80"),
        ("48*N+80", 0, "48*N+80"),
    ]


def test_memory_demo_without_reuse() -> None:
    # Abs and Reshape each take 32*N anew; C has gone when Z is made.
    assert rows(computed(memory_demo_model(), "none"))[3:] == [
        ("48*N+80", "32*N", "80*N+80"),
        ("48*N+80", "32*N", "80*N+80"),
    ]


# fact 4

ABS_CHAIN = "g (float[3,4] X) => (float[3,4] Y) { A = Abs(X) B = Abs(A) Y = Abs(B) }"


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_chain_of_unary_nodes(reuse: str) -> None:
    context = computed(graph(ABS_CHAIN), reuse)
    assert reused(context) == [[], EQUAL, EQUAL]
    assert rows(context) == [(48, 48, 96), (96, 0, 96), (96, 0, 96)]
    assert context.peak_memory == [0, 0, 0]
    assert annotated(graph(ABS_CHAIN), reuse) == [
        {"not_used_after": "X"},
        {"inplace_reuse": "0:0:equal", "release_after": "A"},
        {"inplace_reuse": "0:0:equal", "release_after": "B"},
    ]


# fact 5


def test_smaller_output_takes_a_greater_buffer_in_structure_alone() -> None:
    model = graph("g (float[4] X) => (int32[4] Y) { A = Cast<to=7>(X) Y = Cast<to=6>(A) }")
    structural = computed(model, "structural")
    assert reused(structural) == [[], GREATER]
    assert rows(structural) == [(16, 32, 48), (48, 0, 48)]
    operator = computed(model)
    assert reused(operator) == [[], []]
    assert rows(operator) == [(16, 32, 48), (48, 16, 64)]


# fact 6


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_the_first_fitting_input_is_taken(reuse: str) -> None:
    model = graph("g (float[4] X) => (float[4] Y) { A = Abs(X) B = Abs(X) Y = Add(A, B) }")
    context = computed(model, reuse)
    assert reused(context) == [[], [], EQUAL]
    assert rows(context) == [(16, 16, 32), (32, 16, 48), (48, 0, 48)]


# fact 7


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (
            """g (float[2,3] X) => (float[2,3] Y) {
                A = Transpose<perm=[1,0]>(X) B = Transpose<perm=[1,0]>(A) Y = Transpose<perm=[0,1]>(B) }""",
            "24",
        ),
        (
            """g (float[batch,4,4] X) => (float[4,batch,4] Y) {
                A = Transpose<perm=[1,0,2]>(X) B = Abs(A) Y = Transpose<perm=[0,1,2]>(B) }""",
            "64*batch",
        ),
    ],
)
def test_transposes(text: str, size: str) -> None:
    model = graph(text)
    structural = computed(model, "structural")
    assert reused(structural) == [[], EQUAL, EQUAL]
    first = structural.memory[0]
    assert str(first["output_allocation_bytes"]) == size
    assert structural.memory[2]["total_bytes"] == first["total_bytes"]
    # A transposition reads elements that it has overwritten already: the operator rule refuses it.
    assert reused(computed(model))[2] == []


# fact 8

RUNTIME_AXES = (
    "g (float[3,4] X, int64[1] axes) => (float[3,4] Y) "
    "{ A = Abs(X) U = Unsqueeze(A, axes) Y = Squeeze(U, axes) }"
)


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_axes_that_only_the_run_knows(reuse: str) -> None:
    context = computed(graph(RUNTIME_AXES), reuse)
    assert reused(context) == [[], EQUAL, EQUAL]
    assert rows(context) == [(56, 48, 104), (104, 0, 104), (104, 0, 104)]
    # U has no shape, but as many bytes as A.
    assert context.shape("U") is None
    assert context.unknown == ()
    assert context.unknown_nodes().tolist() == [False, False, False]


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_views_take_nothing_that_is_used_later(reuse: str) -> None:
    model = graph(
        "g (float[3,4] X, int64[1] axes) => (float[3,4] Y) "
        "{ A = Abs(X) U = Unsqueeze(A, axes) S = Squeeze(U, axes) Y = Add(S, A) }"
    )
    context = computed(model, reuse)
    assert reused(context) == [[], [], EQUAL, EQUAL]
    assert rows(context) == [(56, 48, 104), (104, 48, 152), (152, 0, 152), (152, 0, 152)]


# fact 9


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_outputs_are_never_overwritten(reuse: str) -> None:
    model = graph("g (float[4] X) => (float[4] A, float[4] Y) { A = Abs(X) Y = Neg(A) }")
    context = computed(model, reuse)
    assert reused(context) == [[], []]
    assert rows(context) == [(16, 16, 32), (32, 16, 48)]


# fact 10


def test_inputs_and_initializers_are_not_used_after_their_last_reader() -> None:
    model = graph("g (float[4] X) => (float[4] Y) <float[4] W = {1,2,3,4}> { Y = Add(X, W) }")
    assert annotated(model, "structural") == [{"not_used_after": "X;W"}]


# fact 11


def test_inputs_may_be_overwritten_where_that_is_allowed() -> None:
    model = graph("g (float[4] X) => (float[4] Y) { A = Abs(X) Y = Neg(A) }")
    for reuse in ("operator", "structural"):
        assert reused(computed(model, reuse, overwrite=True)) == [EQUAL, EQUAL]
        assert reused(computed(model, reuse)) == [[], EQUAL]


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_an_input_that_is_an_output_stays(reuse: str) -> None:
    model = graph("g (float[4] X) => (float[4] Y, float[4] X) { A = Abs(X) Y = Neg(A) }")
    assert reused(computed(model, reuse, overwrite=True)) == [[], EQUAL]


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_an_input_is_taken_by_its_last_reader_only(reuse: str) -> None:
    model = graph("g (float[4] X) => (float[4] A, float[4] B) { A = Abs(X) B = Neg(X) }")
    context = computed(model, reuse, overwrite=True)
    assert reused(context) == [[], EQUAL]
    assert rows(context) == [(16, 16, 32), (32, 0, 32)]


def test_an_initializer_that_is_an_input_too_is_never_taken() -> None:
    model = graph("g (float[4] W) => (float[4] Y) <float[4] W = {1,2,3,4}> { Y = Abs(W) }")
    context = computed(model, "structural", overwrite=True)
    assert reused(context) == [[]]
    assert context.memory[0]["initializers"] == {"weight": 16}
    assert context.memory[0]["inputs"] == {}


# fact 12


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_an_equal_buffer_is_preferred_to_a_greater_one(reuse: str) -> None:
    # CastLike casts BIG (int64) to the type of EQ (int32).
    model = graph(
        "g (int64[4] X, int32[4] Z) => (int32[4] Y) "
        "{ BIG = Abs(X) EQ = Abs(Z) Y = CastLike(BIG, EQ) }"
    )
    assert reused(computed(model, reuse))[2] == [(0, 1, "equal")]


# facts 13 to 15: operators without a schema, sizes from the model's own value_info


def custom_chain() -> ModelProto:
    model = graph(
        "g (float[4] X) => (int32[4] Y) <int64[1] S = {4}, float[4] A, int64[4] B> "
        "{ A = d.P(X, S) B = d.Q(A) Y = d.R(B) }"
    )
    entry = model.graph.initializer[0].metadata_props.add()
    entry.key, entry.value = "onnx_light.value_tag", " Shape "
    return model


def test_operators_without_schema() -> None:
    context = computed(custom_chain(), "structural")
    assert rows(context) == [(24, 16, 40), (40, 32, 72), (56, 0, 56)]
    assert reused(context) == [[], [], GREATER]
    for memory in context.memory:
        assert memory["inputs"] == {"weight": 16}
        assert memory["initializers"] == {"shape": 8}
    # Nothing is known of them, so the operator rule lets them take nothing.
    assert rows(computed(custom_chain())) == [(24, 16, 40), (40, 32, 72), (56, 16, 72)]


def test_reuse_of_equal_symbolic_sizes_across_types() -> None:
    model = graph(
        "g (float[N] X) => (int32[N] Y) <int64[1] S = {4}> { A = Abs(X) Y = Cast<to=6>(A) }"
    )
    for reuse in ("operator", "structural"):
        context = computed(model, reuse)
        assert rows(context) == [("4*N+8", "4*N", "8*N+8"), ("8*N+8", 0, "8*N+8")]
        assert reused(context) == [[], EQUAL]


def test_many_alive_at_once() -> None:
    names = [f"A{i}" for i in range(5)]
    nodes = [helper.make_node("P", ["X"], [name], domain="d") for name in names]
    nodes.append(helper.make_node("Q", names, ["Y"], domain="d"))
    value = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [value("X", TensorProto.FLOAT, ["N"])],
            [value("Y", TensorProto.FLOAT, ["N"])],
            value_info=[value(name, TensorProto.FLOAT, ["N"]) for name in names],
        ),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("d", 1)],
        ir_version=10,
    )
    structural = computed(model, "structural")
    assert rows(structural)[4] == ("20*N", "4*N", "24*N")
    assert structural.memory[4]["intermediates"] == {"weight": "16*N"}
    assert rows(structural)[5] == ("24*N", 0, "24*N")
    assert rows(computed(model))[5] == ("24*N", "4*N", "28*N")


# fact 16


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_a_local_name_in_a_branch_does_not_keep_the_outer_value_alive(reuse: str) -> None:
    # The condition is 1 byte. Were the outer A captured, it would be 48 bytes more at node 1.
    model = graph(
        "g (float[3,4] X, bool c) => (float[3,4] Y) { A = Abs(X) Y = If(c) <"
        "then_branch = t () => (float[3,4] A) { A = Neg(X) }, "
        "else_branch = e () => (float[3,4] A) { A = Relu(X) }> }"
    )
    assert rows(computed(model, reuse)) == [(49, 48, 97), (49, 48, 97)]


def test_a_captured_value_stays_alive() -> None:
    model = graph(
        "g (float[3,4] X, bool c) => (float[3,4] Y) { A = Abs(X) Y = If(c) <"
        "then_branch = t () => (float[3,4] B) { B = Neg(A) }, "
        "else_branch = e () => (float[3,4] C) { C = Relu(X) }> }"
    )
    assert rows(computed(model, "structural")) == [(49, 48, 97), (97, 48, 145)]
    assert annotated(model)[1]["release_after"] == "A"


# fact 17


def test_shapes_are_released_as_shapes() -> None:
    model = graph(
        "g (float[N,4] X) => (float[N,4] Y) { C = Abs(X) S = Shape(C) Y = Reshape(C, S) }"
    )
    note = annotated(model)[2]
    assert note["release_after"] == "C;S"
    assert note["release_after_shape_tag"] == "S"


# fact 18


def test_a_long_name_with_a_companion() -> None:
    model = graph(
        "g (float[LONGNAME] X) => (float[LONGNAME] X2) <int64[1] S = {4}> { X2 = Abs(X) }"
    )
    assert computed(model).memory[0]["already_allocated_bytes"] == "4*LONGNAME+8"


# fact 31


def test_values_go_after_their_last_use() -> None:
    model = graph(
        "g (float[4] x) => (float[4] y) { t0 = Add(x, x) t1 = Mul(t0, t0) y = Sub(t1, t0) }"
    )
    session = onp.ReferenceEvaluator(model, events_enabled=True)
    session.run(None, {"x": np.ones(4, np.float32)})
    remove = onp.RuntimeEventAction.REMOVE
    assert [event.name for event in session.events() if event.action == remove] == ["t1", "t0"]
    found = annotated(model)
    assert found[2]["release_after"] == "t1;t0"
    assert "release_after" not in found[0]
    assert "release_after" not in found[1]


# facts 32 to 36


def test_a_reused_buffer_keeps_its_size() -> None:
    model = graph(
        "g (float[4] X) => (int32[4] Y) { A = Cast<to=7>(X) B = Cast<to=6>(A) Y = Abs(B) }"
    )
    assert rows(computed(model, "structural")) == [(16, 32, 48), (48, 0, 48), (48, 0, 48)]
    # Only equal sizes: B takes 16 of its own while A is there, and Y takes over B's.
    assert rows(computed(model)) == [(16, 32, 48), (48, 16, 64), (32, 0, 32)]


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_an_overwritten_input_is_an_intermediate(reuse: str) -> None:
    model = graph("g (float[3,4] X) => (float[3,4] Y) { A = Abs(X) Y = Neg(A) }")
    context = computed(model, reuse, overwrite=True)
    assert rows(context) == [(48, 0, 48), (48, 0, 48)]
    assert context.memory[0]["inputs"] == {"weight": 48}
    assert context.memory[1]["inputs"] == {}
    assert context.memory[1]["intermediates"] == {"weight": 48}


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_a_dead_output_counts_at_its_own_node(reuse: str) -> None:
    model = graph("g (float[8] X) => (float[4] Y) { A, B = Split<num_outputs=2>(X) Y = Abs(A) }")
    assert rows(computed(model, reuse)) == [(32, 32, 64), (48, 0, 48)]


def test_two_products() -> None:
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "W")
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["H"]),
        helper.make_node("MatMul", ["H", "W"], ["Y"]),
    ]
    model = model_of(nodes, {"X": ["N", 4]}, ["Y"], initializer=[weight])
    assert rows(computed(model, "structural")) == [
        ("16*N+64", "16*N", "32*N+64"),
        ("32*N+64", 0, "32*N+64"),
    ]
    assert rows(computed(model)) == [
        ("16*N+64", "16*N", "32*N+64"),
        ("32*N+64", "16*N", "48*N+64"),
    ]


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_mul_add(reuse: str) -> None:
    assert rows(computed(mul_add_model(), reuse)) == [
        ("4*N+4", "4*N", "8*N+4"),
        ("8*N+4", 0, "8*N+4"),
    ]
