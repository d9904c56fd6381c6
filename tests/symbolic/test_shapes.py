"""Shapes over the model's dimensions, against what a run gives at those sizes."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import SizeError
from tests.symbolic.rows import computed, graph, model_of

N_M: dict[str, list[int | str | None]] = {"X": ["N", 4], "Z": ["M", 4]}


def add_model() -> ModelProto:
    return model_of([helper.make_node("Add", ["X", "Z"], ["Y"])], N_M, ["Y"])


# two different dimensions meet


@pytest.mark.parametrize(("n", "m"), [(3, 3), (1, 3), (3, 1), (1, 1), (0, 1), (1, 0), (0, 0)])
def test_different_dimensions_broadcast(n: int, m: int) -> None:
    context = computed(add_model())
    y = np.ones((n, 4), np.float32) + np.ones((m, 4), np.float32)
    assert context.totals(N=n, M=m).tolist() == [16 * n + 16 * m + y.nbytes]


def test_sizes_that_do_not_broadcast_have_no_total() -> None:
    context = computed(add_model())
    with pytest.raises(SizeError, match="broadcast"):
        context.totals(N=3, M=2)


def test_the_broadcast_size_goes_on_through_the_model() -> None:
    nodes = [
        helper.make_node("Add", ["X", "Z"], ["a"]),
        helper.make_node("Mul", ["a", "X"], ["b"]),
        helper.make_node("Concat", ["b", "Z"], ["c"], axis=0),
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Where", ["q", "c", "d"], ["Y"]),
    ]
    model = model_of(nodes, N_M, ["Y"])
    model.graph.input.append(helper.make_tensor_value_info("q", 9, ["K", 1]))
    context = computed(model)
    for n, m in ((3, 3), (1, 3), (3, 1)):
        rows = max(n, m) + m
        for k in (1, rows):
            feeds = {
                "X": np.zeros((n, 4), np.float32),
                "Z": np.zeros((m, 4), np.float32),
                "q": np.ones((k, 1), bool),
            }
            (y,) = onp.ReferenceEvaluator(model).run(None, feeds)
            assert y.shape == (rows, 4)
            # At the last node the evaluator holds c, d and Y.
            held = computed(model, account="evaluator").totals(N=n, M=m, K=k)
            assert held[4] == 3 * y.nbytes
    assert context.unknown == ()


def test_batches_of_products_broadcast() -> None:
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    model = model_of(nodes, {"a": ["N", 2, 3], "b": ["M", 3, 5]}, ["y"])
    context = computed(model, account="evaluator")
    for n, m in itertools.product((1, 4), (1, 4)):
        y = np.ones((n, 2, 3), np.float32) @ np.ones((m, 3, 5), np.float32)
        # The engine has no rule for two batch dimensions of different names: then it must say so.
        unknown = context.unknown_nodes(N=n, M=m).tolist()
        assert unknown == [True] or context.totals(N=n, M=m).tolist() == [y.nbytes]


def test_equal_dimensions_and_numbers_stay_plain() -> None:
    nodes = [
        helper.make_node("Add", ["X", "W"], ["a"]),
        helper.make_node("Add", ["a", "X"], ["Y"]),
    ]
    weight = numpy_helper.from_array(np.zeros((1, 4), np.float32), "W")
    context = computed(model_of(nodes, {"X": ["N", 4]}, ["Y"], initializer=[weight]))
    assert context.shape("a") == ("N", 4)
    assert context.shape("Y") == ("N", 4)
    context = computed(
        model_of([helper.make_node("Add", ["X", "Z"], ["Y"])], {"X": ["N"], "Z": [7]}, ["Y"])
    )
    assert context.shape("Y") == (7,)


def test_an_unknown_dimension_leaves_the_result_unknown() -> None:
    # How many there are, data decides: it may be 1, or as many as N.
    context = computed(
        graph(
            "g (float[N] X, float[4] Z) => (Y) { I = NonZero(Z) F = Cast<to=1>(I) Y = Add(F, X) }"
        )
    )
    assert context.shape("Y") is None
    assert "Y" in {one.value for one in context.unknown}


def test_threads_do_not_mix_their_broadcasts() -> None:
    expected = computed(add_model()).memory
    found: list[object] = []

    def work() -> None:
        found.extend([computed(add_model()).memory for _ in range(5)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


# what is passed through, and what fails


def test_an_input_that_is_an_output_keeps_its_shape() -> None:
    context = computed(graph("g (float[N,4] X) => (float[N,4] X, Y) { Y = Abs(X) }"))
    assert context.shape("X") == ("N", 4)
    assert context.shape("Y") == ("N", 4)


def test_reshapes_and_shape_arithmetic() -> None:
    context = computed(
        graph(
            "g (float[N,4] X) => (A, B, C) <int64[2] two = {-1, 2}, int64[1] z = {0}, float[1] one = {1}> {"
            " A = Reshape(X, two) s = Shape(X) n = Gather(s, z) m = Mul(n, n)"
            " d = Concat<axis=0>(n, m) B = Expand(one, d) C = Flatten<axis=0>(X) }"
        )
    )
    assert context.shape("A") == ("2*N", 2)
    assert context.shape("B") == ("N", "N*N")
    assert context.shape("C") == (1, "4*N")


def test_constants_of_a_computed_shape() -> None:
    context = computed(
        graph(
            "g (float[N,4] X) => (A, B) <int64[1] z = {0}> { s = Shape(X) A = ConstantOfShape(s)"
            " n = Gather(s, z) d = Concat<axis=0>(n, n, n)"
            " B = ConstantOfShape<value = int64[1] {7}>(d) }"
        )
    )
    assert context.shape("A") == ("N", 4)
    assert context.shape("B") == ("N", "N", "N")
    assert context.memory[4]["output_allocation_bytes"] == "8*N*N*N"


def test_constants_of_a_shape_that_data_decides() -> None:
    context = computed(graph("g (int64[R] s) => (A) { A = ConstantOfShape(s) }"))
    assert [one.value for one in context.unknown] == ["A"]


def test_slices_of_symbolic_axes() -> None:
    # Against numpy at sizes on both sides of each bound.
    cases = {
        (0, 100, 1): slice(0, 100),
        (2, 10**18, 1): slice(2, None),
        (1, 7, 2): slice(1, 7, 2),
        (5, 3, 1): slice(5, 3),
    }
    for (start, end, step), cut in cases.items():
        arguments = {"a": start, "b": end, "c": 0, "d": step}
        weights = [
            numpy_helper.from_array(np.array([value], np.int64), name)
            for name, value in arguments.items()
        ]
        nodes = [helper.make_node("Slice", ["X", *arguments], ["Y"])]
        context = computed(model_of(nodes, {"X": ["N"]}, ["Y"], initializer=weights))
        for n in (0, 1, 2, 3, 5, 6, 7, 8, 99, 100, 101):
            expected = np.zeros(n, np.float32)[cut].nbytes
            assert context.totals(N=n).tolist() == [4 * n + 32 + expected], (start, end, step, n)


def test_a_rule_that_fails_leaves_the_others() -> None:
    nodes = [
        helper.make_node("Abs", ["X"], ["Z"]),
        helper.make_node("Concat", ["X", "X"], ["Y"], axis=7),
    ]
    context = computed(model_of(nodes, {"X": ["N", 4]}, ["Z", "Y"]), "none")
    assert [one.value for one in context.unknown] == ["Y"]
    assert len(context.unknown[0].reason) < 400
    assert context.totals(N=2).tolist() == [64, 64]


def test_recorded_shapes_fill_in_what_no_rule_gives() -> None:
    model = graph(
        "g (float[N] X) => (float[M] Z) <float[N] Y> { Y = d.Unheard(X) Z = d.Unheard(Y) }"
    )
    context = computed(model, "none")
    assert context.shape("Y") == ("N",)
    # M is no dimension of the inputs: whoever wrote it down cannot be asked.
    assert context.shape("Z") is None
    assert context.dims == ("N",)


def test_recorded_shapes_do_not_override_rules() -> None:
    model = graph("g (float[N] X) => (float[7] Y) <float[9] A> { A = Abs(X) Y = Neg(A) }")
    assert computed(model).shape("A") == ("N",)
    assert computed(model).shape("Y") == ("N",)


def test_optional_inputs_keep_their_dims() -> None:
    value = helper.make_value_info(
        "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, ["N", 3]))
    )
    model = model_of([helper.make_node("OptionalGetElement", ["o"], ["y"])], {}, ["y"])
    model.graph.input.append(value)
    context = computed(model)
    assert context.dims == ("N",)
    assert context.input_shapes(N=2) == {"o": (2, 3)}
