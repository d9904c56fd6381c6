"""Scratch bytes of attention operators: the figures of the specification, and where there are none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from onnx import ModelProto, TensorProto, helper

from tests.symbolic.rows import computed, notes


def one_node(
    op: str, shapes: Sequence[Sequence[int | str] | None], *, domain: str = "", opset: int = 23
) -> ModelProto:
    """One node; input k is called `i<k>`, and absent where its shape is None."""
    names = ["" if shape is None else f"i{k}" for k, shape in enumerate(shapes)]
    return helper.make_model(
        helper.make_graph(
            [helper.make_node(op, names, ["y"], domain=domain)],
            "g",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in zip(names, shapes, strict=True)
                if shape is not None
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("d", 1)],
    )


@pytest.mark.parametrize(
    ("op", "shapes", "nbytes"),
    [
        ("Attention", ([2, 4, 8, 16], [2, 4, 32, 16], [2, 4, 32, 16]), 8192),
        ("Attention", ([1, 2, 4, 8], [1, 2, 16, 8], [1, 2, 16, 8]), 512),
        ("LinearAttention", ([2, 5, 64], [2, 5, 64], [2, 5, 32]), 16384),
        ("LinearAttention", ([2, 5, 64], [2, 5, 64], [2, 5, 32], [2, 8, 8, 4]), 2048),
        # no scratch is known
        ("Attention", (["B", 4, 8, 16], ["B", 4, 32, 16], ["B", 4, 32, 16]), 0),
        ("Attention", ([2, 8, 64], [2, 32, 64], [2, 32, 64]), 0),
        ("LinearAttention", ([2, 5, 64], [2, 5, 64]), 0),
        ("LinearAttention", ([2, "S", 64], [2, "S", 64], [2, "S", 32]), 0),
        ("LinearAttention", ([2, 5, 64], [2, 5, 64], [2, 5, 32, 1]), 0),
        ("Add", ([2, 4], [2, 4]), 0),
    ],
)
def test_scratch(op: str, shapes: Sequence[Sequence[int | str]], nbytes: int) -> None:
    model = one_node(op, shapes)
    context = computed(model)
    assert context.node_peak_memory(0) == nbytes
    assert context.peak_memory == [nbytes]
    context.write_to_model(model)
    assert notes(model)[0].get("peak_memory") == (str(nbytes) if nbytes else None)


def test_an_absent_past_state_is_none() -> None:
    shapes = ([2, 5, 64], [2, 5, 64], [2, 5, 32], None, [2, 5, 1])
    assert computed(one_node("LinearAttention", shapes)).peak_memory == [16384]


def test_scratch_is_no_part_of_the_total() -> None:
    context = computed(one_node("Attention", ([1, 2, 4, 8], [1, 2, 16, 8], [1, 2, 16, 8])))
    # Q 256, K and V 1024 bytes each, Y as Q.
    assert context.memory[0]["already_allocated_bytes"] == 2304
    assert context.memory[0]["total_bytes"] == 2560


def test_an_operator_of_another_domain_is_another_operator() -> None:
    shapes = ([2, 4, 8, 16], [2, 4, 32, 16], [2, 4, 32, 16])
    assert computed(one_node("Attention", shapes, domain="d")).peak_memory == [0]
