"""Names of dimensions: readable ones stay, anything else is named after input and axis, nothing is executed."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_notebook_profiler as onp
from tests.symbolic.rows import computed, graph, model_of

NAMES_THAT_STAY = [
    "N",
    "batch_size",
    "_",
    "_7",
    "p2o.DynamicDimension.0",
    "unk__1",
    "for",
    "None",
    "lambda",
    "onp_d0",
    "I",
    "E",
    "oo",
    "Max",
    "__import__",
]

NAMES_THAT_ARE_REPLACED = [
    "?",
    "-1",
    "*",
    "batch-size",
    "N N",
    "N+1",
    "2*N",
    "N)+(M",
    "größe",
    "批次",
    "0x10",
    "5",
    "Max(a, b)",
    "N\u202e",
    "<script>alert(1)</script>",
    "$N$",
    "x" * 10_000,
    "(" * 10_000,
    "9" * 5_000,
    "N**N**N**N",
    "\x00",
]


def doubled(dim: int | str | None, name: str = "x") -> ModelProto:
    """float[dim, 4] and twice as many rows: 16 and 32 bytes a row."""
    return model_of(
        [helper.make_node("Concat", [name, name], ["y"], axis=0)], {name: [dim, 4]}, ["y"]
    )


@pytest.mark.parametrize("dim", NAMES_THAT_STAY)
def test_a_readable_name_stays(dim: str) -> None:
    context = computed(doubled(dim))
    assert context.dims == (dim,)
    assert context.author_dims == {}
    assert context.totals({dim: 3}).tolist() == [144]
    total = context.memory[0]["total_bytes"]
    assert total == f"48*{dim}"
    assert onp.evaluate_expression(total, {dim: 3}) == 144
    assert onp.evaluate_expression(context.peak.expression, {dim: 3}) == 144
    assert context.shape("y") == (f"2*{dim}", 4)


@pytest.mark.parametrize("dim", NAMES_THAT_ARE_REPLACED, ids=lambda dim: ascii(dim[:12]))
def test_any_other_name_is_replaced(dim: str) -> None:
    context = computed(doubled(dim))
    assert context.dims == ("x_0",)
    assert context.author_dims == {"x_0": dim}
    assert context.totals(x_0=3).tolist() == [144]
    assert context.memory[0]["total_bytes"] == "48*x_0"
    assert context.unknown == ()


@pytest.mark.parametrize(("dim", "text"), [(None, ""), ("", ""), ("  ", "  "), (-1, "-1")])
def test_blank_and_negative_dimensions_are_named(dim: int | str | None, text: str) -> None:
    context = computed(doubled(dim))
    assert context.dims == ("x_0",)
    assert context.author_dims == {"x_0": text}
    assert context.totals(x_0=3).tolist() == [144]


def test_zero_is_a_size() -> None:
    context = computed(doubled(0))
    assert context.dims == ()
    assert context.totals().tolist() == [0]


def test_white_space_around_a_name_does_not_matter() -> None:
    model = model_of(
        [helper.make_node("Add", ["a", "b"], ["y"])], {"a": [" N"], "b": ["N\n"]}, ["y"]
    )
    context = computed(model)
    assert context.dims == ("N",)
    assert context.totals(N=1).tolist() == [12]


def test_dims_are_in_the_order_of_the_inputs() -> None:
    model = model_of(
        [helper.make_node("Concat", ["b", "a"], ["y"], axis=0)],
        {"b": ["seq", "batch"], "a": ["past", "batch"], "unused": ["alone"]},
        ["y"],
    )
    assert computed(model).dims == ("seq", "batch", "past", "alone")


def test_an_expression_over_other_dimensions_stays_one() -> None:
    model = model_of(
        [helper.make_node("Abs", ["mask"], ["y"])],
        {"mask": ["batch", "past + seq"], "a": ["batch", "seq"], "b": ["past"]},
        ["y"],
    )
    context = computed(model)
    assert context.dims == ("batch", "past", "seq")
    assert context.author_dims == {}
    assert context.shape("mask") == ("batch", "past+seq")
    # mask and y are 4*batch*(past+seq), a is 4*batch*seq, b is 4*past.
    assert context.totals(batch=2, past=3, seq=5).tolist() == [2 * 64 + 40 + 12]
    assert context.input_shapes(batch=2, past=3, seq=5) == {
        "mask": (2, 8),
        "a": (2, 5),
        "b": (3,),
    }


def test_an_expression_over_a_missing_dimension_is_replaced() -> None:
    model = model_of(
        [helper.make_node("Abs", ["mask"], ["y"])],
        {"mask": ["past + seq"], "a": ["seq"]},
        ["y"],
    )
    context = computed(model)
    assert context.dims == ("mask_0", "seq")
    assert context.author_dims == {"mask_0": "past + seq"}


def test_the_same_unreadable_text_twice_is_two_dimensions() -> None:
    model = model_of([helper.make_node("Abs", ["a"], ["y"])], {"a": ["?", "?"], "b": ["?"]}, ["y"])
    context = computed(model)
    assert context.dims == ("a_0", "a_1", "b_0")
    assert context.totals(a_0=2, a_1=3, b_0=5).tolist() == [48 + 20]


def test_a_made_up_name_never_takes_one_that_is_there() -> None:
    model = model_of(
        [helper.make_node("Abs", ["x"], ["y"])], {"x": ["?", "x_0"], "z": ["x_0"]}, ["y"]
    )
    context = computed(model)
    made, given = context.dims
    assert given == "x_0"
    assert made != "x_0"
    assert context.author_dims == {made: "?"}
    assert context.totals({made: 2, "x_0": 3}).tolist() == [48 + 12]


@pytest.mark.parametrize("name", ["input:0", "1", "層", "a" * 300, "x/y.z"])
def test_inputs_with_odd_names(name: str) -> None:
    model = model_of([helper.make_node("Abs", [name], ["out"])], {name: ["?"]}, ["out"])
    context = computed(model)
    (dim,) = context.dims
    assert dim.isascii()
    assert len(dim) < 64
    assert context.totals({dim: 2}).tolist() == [16]
    assert onp.evaluate_expression(context.memory[0]["total_bytes"], {dim: 2}) == 16


HOSTILE = "__import__('pathlib').Path('{path}').write_text('run')"


@pytest.mark.parametrize("place", ["input", "output", "value_info", "body", "sequence", "function"])
def test_nothing_in_a_name_is_executed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "executed"
    text = HOSTILE.format(path=target)

    def refuse(*arguments: object) -> None:
        raise AssertionError(f"called with {arguments!r}")

    monkeypatch.setattr(builtins, "eval", refuse)
    monkeypatch.setattr(os, "system", refuse)
    value = helper.make_tensor_value_info
    model = graph(
        "g (float[N] X, bool c, seq(float[N]) s) => (float[N] Y) { A = Abs(X) B = If(c) <"
        "then_branch = t () => (float[N] b) { a = Neg(A) b = Exp(a) }, "
        "else_branch = e () => (float[N] d) { d = Identity(A) }> Y = d.F(B) }\n"
        '<domain: "d", opset_import: ["" : 18]> F (x) => (y) { y = Abs(x) }'
    )
    body = model.graph.node[1].attribute[0].g
    if place == "input":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = text
    elif place == "output":
        model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = text
    elif place == "value_info":
        model.graph.value_info.append(value("A", TensorProto.FLOAT, [text]))
    elif place == "body":
        body.output[0].type.tensor_type.shape.dim[0].dim_param = text
        body.value_info.append(value("a", TensorProto.FLOAT, [text]))
    elif place == "sequence":
        element = model.graph.input[2].type.sequence_type.elem_type
        element.tensor_type.shape.dim[0].dim_param = text
    else:
        model.functions[0].value_info.append(value("x", TensorProto.FLOAT, [text]))
    context = computed(model)
    dim = "X_0" if place == "input" else "N"
    assert context.dims == (dim,)
    # Whatever the name says elsewhere, the sizes are those of the input; the sequence has none.
    assert [one.value for one in context.unknown] == ["s"]
    assert context.totals({dim: 2})[0] == 1 + 8 + 8
    context.write_to_model(model)
    assert not target.exists()


def test_input_shapes_ask_for_every_dimension() -> None:
    context = computed(doubled("N"))
    assert context.input_shapes({"N": 3}) == {"x": (3, 4)}
    with pytest.raises(onp.SizeError):
        context.input_shapes()
    with pytest.raises(onp.SizeError):
        context.input_shapes(M=3)
    model = model_of([helper.make_node("Abs", ["X"], ["Y"])], {"X": None}, ["Y"])
    assert computed(model).input_shapes() == {"X": None}
