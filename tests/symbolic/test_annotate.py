"""What is written into a model: shapes of its values, notes on its nodes, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, checker, helper

import onnx_notebook_profiler as onp
from tests.models import memory_demo_model
from tests.symbolic.rows import computed, graph, notes


def shape_text(value: ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    dims = ",".join(dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim)
    return f"{value.name}:{TensorProto.DataType.Name(tensor.elem_type)}[{dims}]"


def written(model: ModelProto, reuse: str = "operator") -> ModelProto:
    computed(model, reuse).write_to_model(model)
    return model


def test_shapes_of_outputs_and_values() -> None:
    model = written(memory_demo_model())
    assert [shape_text(value) for value in model.graph.output] == ["Z:FLOAT[2*N,4]"]
    assert [shape_text(value) for value in model.graph.value_info] == [
        "A:FLOAT[2*N,4]",
        "C:FLOAT[2*N,4]",
        "M:FLOAT[N,4]",
        "S:INT64[2]",
    ]
    checker.check_model(model)


def test_entries_that_are_there_are_updated_in_place() -> None:
    model = memory_demo_model()
    model.graph.value_info.extend(
        [
            helper.make_tensor_value_info("M", TensorProto.FLOAT, ["other", 4]),
            helper.make_tensor_value_info("C", TensorProto.FLOAT, None),
        ]
    )
    written(model)
    assert [shape_text(value) for value in model.graph.value_info] == [
        "M:FLOAT[N,4]",
        "C:FLOAT[2*N,4]",
        "A:FLOAT[2*N,4]",
        "S:INT64[2]",
    ]


def test_inputs_and_initializers_stay_as_they_are() -> None:
    model = memory_demo_model()
    inputs = [value.SerializeToString() for value in model.graph.input]
    weights = [tensor.SerializeToString() for tensor in model.graph.initializer]
    written(model)
    assert [value.SerializeToString() for value in model.graph.input] == inputs
    assert [tensor.SerializeToString() for tensor in model.graph.initializer] == weights


def test_notes() -> None:
    assert notes(written(memory_demo_model())) == [
        {"not_used_after": "W"},
        {"release_after": "M", "not_used_after": "X"},
        {},
        {"inplace_reuse": "0:0:equal", "release_after": "C"},
        {
            "inplace_reuse": "0:0:equal",
            "release_after": "A;S",
            "release_after_shape_tag": "S",
        },
    ]


def test_greater_and_several_reuses() -> None:
    model = graph("g (float[4] X) => (int32[4] Y) { A = Cast<to=7>(X) Y = Cast<to=6>(A) }")
    assert notes(written(model, "structural"))[1]["inplace_reuse"] == "0:0:greater"
    model = graph(
        "g (float[4] X) => (float[4] p, float[4] q) "
        "<float[4] a, float[4] b> { a = Abs(X) b = Neg(X) p, q = d.Swap(a, b) }"
    )
    assert notes(written(model, "structural"))[2]["inplace_reuse"] == "0:0:equal;1:1:equal"


def test_writing_twice_changes_nothing() -> None:
    model = written(memory_demo_model())
    once = model.SerializeToString(deterministic=True)
    assert written(model).SerializeToString(deterministic=True) == once


def test_keys_are_overwritten_removed_where_empty_and_others_kept() -> None:
    model = memory_demo_model()
    for node in model.graph.node:
        helper.set_metadata_props(
            node,
            {
                "before": "1",
                "onnx_light.release_after": "stale",
                "onnx_light.peak_memory": "stale",
                "after": "2",
            },
        )
    found = notes(written(model))
    assert "release_after" not in found[0]
    assert found[1]["release_after"] == "M"
    for note in found:
        assert "peak_memory" not in note
        assert (note["before"], note["after"]) == ("1", "2")


def test_another_model_is_refused_and_left_alone() -> None:
    context = computed(memory_demo_model())
    other = graph("g (float[N] x) => (float[N] y) { y = Abs(x) }")
    before = other.SerializeToString()
    with pytest.raises(ValueError, match="1 nodes"):
        context.write_to_model(other)
    assert other.SerializeToString() == before
    with pytest.raises(onp.ModelError):
        onp.ComputeContext().write_to_model(memory_demo_model())


def test_the_model_stays_runnable() -> None:
    model = written(memory_demo_model())
    (z,) = onp.ReferenceEvaluator(model).run(None, {"X": np.ones((1, 4), np.float32)})
    assert z.shape == (2, 4)


def test_values_without_size_get_no_entry() -> None:
    model = written(
        graph(
            "g (float[N] X) => (int64[1,K] I, float[N] Y) { I = NonZero(X) S = Shape(I) Y = Abs(X) }"
        )
    )
    assert [value.name for value in model.graph.value_info] == ["S"]
    assert shape_text(model.graph.output[0]) == "I:INT64[1,K]"


def test_captured_values_are_used_until_the_body_that_reads_them() -> None:
    model = written(
        graph(
            "g (float[3] X, bool c, float[3] U) => (float[3] Y) { A = Abs(X) B = Neg(A) Y = If(c) <"
            "then_branch = t () => (float[3] b) { b = Add(A, X) }, "
            "else_branch = e () => (float[3] d) { d = Sub(B, U) }> }"
        )
    )
    found = notes(model)
    assert found[:2] == [{}, {}]
    assert found[2]["release_after"] == "A;B"
    assert found[2]["not_used_after"] == "c;X;U"
