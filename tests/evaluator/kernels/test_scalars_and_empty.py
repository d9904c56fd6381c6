"""Tensors of rank 0 and tensors without elements, through every operator whose types and ranks allow them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_notebook_profiler.evaluator.kernel import Kernel
from onnx_notebook_profiler.evaluator.registry import registrations
from tests.evaluator.kernels.harness import make_kernel, run
from tests.evaluator.kernels.one_node import by_both

TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}
ENTRIES = sorted(
    {(one.op_type, max(one.since_version, 1)) for one in registrations() if one.domain == ""}
)


def inputs_of(op_type: str, version: int) -> Any:
    """Every combination of a type, a number of inputs and a shape that the operator's schema allows."""
    try:
        schema = onnx.defs.get_schema(op_type, version)
    except onnx.defs.SchemaError:
        return
    if not schema.inputs:
        return
    for (name, dtype), count, shape in itertools.product(
        TYPES.items(), (1, 2, 3), ((), (0,), (0, 3))
    ):
        given = [schema.inputs[min(at, len(schema.inputs) - 1)].types for at in range(count)]
        if schema.min_input <= count <= schema.max_input and all(name in one for one in given):
            yield [np.full(shape, "a" if dtype is object else 1, dtype) for _ in range(count)]


@pytest.mark.parametrize(("op_type", "version"), ENTRIES)
def test_what_a_kernel_accepts_it_computes(op_type: str, version: int) -> None:
    attributes: dict[str, Any] = {"to": 1} if op_type == "Cast" and version > 5 else {}
    for inputs in inputs_of(op_type, version):
        names = [f"x{number}" for number in range(len(inputs))]
        node = helper.make_node(op_type, names, ["y"], **attributes)
        try:
            kernel = make_kernel(node, version)
            assert isinstance(kernel, Kernel)
            outputs = [np.empty(*spec) for spec in kernel.infer(inputs)]
        except Exception:  # noqa: BLE001, S112 - refused beforehand: other tests say how
            continue
        with np.errstate(all="ignore"):
            try:
                kernel.compute(inputs, outputs)
            except ValueError as error:
                assert str(error).startswith(op_type)  # noqa: PT017 - a value that does not fit, said so


def s(value: Any, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


@pytest.mark.parametrize("zero", [s(3, np.uint8), s(-4, np.int8)])
def test_one_number_is_quantised(zero: Any) -> None:
    for x in (7.5, -7.5, 0.25, 0.75, 900, -900):
        ours, theirs = by_both("QuantizeLinear", s(x), s(0.5), zero, opset=13)
        assert ours[0].shape == ()
        assert ours[0].tobytes() == theirs[0].tobytes()


def test_the_triangle_of_texts() -> None:
    words = np.array([["a", "b"], ["c", "d"]], object)
    assert run("Trilu", words, opset=14).tolist() == [["a", "b"], ["", "d"]]
    assert run("Trilu", words, opset=14, upper=0).tolist() == [["a", ""], ["c", "d"]]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_nothing_is_normalised_and_activated(shape: tuple[int, ...]) -> None:
    x, row = np.zeros(shape, np.float32), np.ones(shape[-1], np.float32)
    for op, inputs in {
        "BiasGelu": [x, row],
        "FastGelu": [x, row],
        "QuickGelu": [x],
        "BiasAdd": [x, row, x],
        "SkipLayerNormalization": [x, x, row, row],
        "SkipSimplifiedLayerNormalization": [x, x, row],
    }.items():
        assert run(op, *inputs, domain="com.microsoft", opset=1).shape == shape
