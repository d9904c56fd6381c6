"""Opsets 1 to 6: the second operand aligned by attributes, against numpy's indexing and counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.evaluator.registry import find_kernel
from tests.evaluator.kernels.harness import run

A = np.arange(1, 121).reshape(2, 3, 4, 5)
UFUNCS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "Add": (np.add, (1, 6), np.float32),
    "Sub": (np.subtract, (1, 6), np.float32),
    "Mul": (np.multiply, (1, 6), np.float64),
    "Div": (np.divide, (1, 6), np.float32),
    "Pow": (np.power, (1,), np.float32),
    "And": (np.logical_and, (1,), np.bool_),
    "Or": (np.logical_or, (1,), np.bool_),
    "Xor": (np.logical_xor, (1,), np.bool_),
    "Equal": (np.equal, (1,), np.int32),
    "Greater": (np.greater, (1,), np.float32),
    "Less": (np.less, (1,), np.float32),
}


def operand(shape: tuple[int, ...], dtype: Any) -> Any:
    found = np.arange(int(np.prod(shape))).reshape(shape) % 3
    return found.astype(dtype) if dtype is np.bool_ else (found + 1).astype(dtype)


# by hand: where the axes of B come to lie among those of A
ALIGNED = [
    (None, (5,), (1, 1, 1, 5)),
    (None, (4, 5), (1, 1, 4, 5)),
    (None, (), (1, 1, 1, 1)),
    (None, (1, 1), (1, 1, 1, 1)),
    (0, (2,), (2, 1, 1, 1)),
    (0, (2, 3), (2, 3, 1, 1)),
    (1, (3,), (1, 3, 1, 1)),
    (1, (3, 4), (1, 3, 4, 1)),
    (-3, (3, 4), (1, 3, 4, 1)),
    (2, (4, 5), (1, 1, 4, 5)),
    (0, (2, 3, 4, 5), (2, 3, 4, 5)),
]


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize(("axis", "shape", "place"), ALIGNED)
def test_broadcast_along_an_axis(op: Any, axis: Any, shape: Any, place: Any) -> None:
    ufunc, opsets, dtype = UFUNCS[op]
    a = (A % 4 > 1) if dtype is np.bool_ else (A % 7 + 1).astype(dtype)
    b = operand(shape, dtype)
    attributes = {} if axis is None else {"axis": axis}
    for opset in opsets:
        found = run(op, a, b, opset=opset, broadcast=1, **attributes)
        expected = ufunc(a, b.reshape(place))
        assert found.dtype == expected.dtype
        assert found.shape == A.shape
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", UFUNCS)
def test_equal_shapes_need_no_broadcast(op: Any) -> None:
    ufunc, opsets, dtype = UFUNCS[op]
    a, b = operand((2, 3), dtype), operand((2, 3), dtype)[::-1].copy()
    for opset in opsets:
        np.testing.assert_array_equal(run(op, a, b, opset=opset), ufunc(a, b))
    with pytest.raises(
        ValueError, match=r"expects equal shapes without broadcast, got \[2, 3\] and \[3\]"
    ):
        run(op, a, b[0], opset=1)


def test_what_does_not_broadcast_to_a() -> None:
    a, b = np.ones((1, 3), np.float32), np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"broadcasts B to A, got \[1, 3\] and \[2, 3\]"):
        run("Add", a, b, opset=6, broadcast=1)
    with pytest.raises(ValueError, match="do not broadcast"):
        run("Add", b, a[0, :2], opset=6, broadcast=1)
    with pytest.raises(ValueError, match="axis 2 does not exist in a tensor of rank 2"):
        run("Mul", b, b[0], opset=6, broadcast=1, axis=2)


def test_integers_of_opset_6_divide_toward_zero() -> None:
    a, b = np.array([[-7, 7], [9, -9]], np.int32), np.array([2, 4], np.int32)
    found = run("Div", a, b, opset=6, broadcast=1, axis=0)
    np.testing.assert_array_equal(found, [[-3, 3], [2, -2]])


@pytest.mark.parametrize("opset", [1, 6])
def test_prelu_has_a_slope_for_each_channel(opset: int) -> None:
    x = np.array([[[-1, 2, -3], [4, -5, 6]]], np.float32)
    slope = np.array([0.5, 2], np.float32)
    expected = np.array([[[-0.5, 2, -1.5], [4, -10, 6]]], np.float32)
    np.testing.assert_array_equal(run("PRelu", x, slope, opset=opset), expected)
    image = x.reshape(1, 2, 3, 1)
    np.testing.assert_array_equal(
        run("PRelu", image, slope, opset=opset), expected.reshape(image.shape)
    )
    shared = run("PRelu", x, slope[:1], opset=opset)
    np.testing.assert_array_equal(shared, np.where(x < 0, x / 2, x))
    vector = run("PRelu", x[0, 0], slope[:1], opset=opset)
    np.testing.assert_array_equal(vector, [-0.5, 2, -1.5])


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_adds_a_row_a_column_or_a_matrix(opset: int) -> None:
    rng = np.random.default_rng(3)
    a, b = (
        rng.standard_normal((4, 2)).astype(np.float32),
        rng.standard_normal((3, 4)).astype(np.float32),
    )
    for shape, broadcast in (((2, 3), 0), ((3,), 1), ((2, 1), 1), ((1,), 1), ((), 1)):
        c = rng.standard_normal(shape).astype(np.float32)
        found = run(
            "Gemm",
            a,
            b,
            c,
            opset=opset,
            transA=1,
            transB=1,
            alpha=0.5,
            beta=2.0,
            broadcast=broadcast,
        )
        np.testing.assert_allclose(found, 0.5 * (a.T @ b.T) + 2 * c, rtol=1e-5, atol=1e-6)


def test_tile_of_opset_1_repeats_along_one_axis() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    three, axis = np.array([3], np.float32), np.array([1], np.float32)
    np.testing.assert_array_equal(run("Tile", x, three, axis, opset=1), np.hstack([x, x, x]))
    np.testing.assert_array_equal(
        run("Tile", x, np.array(2), np.array(0), opset=1), np.vstack([x, x])
    )
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        run("Tile", x, np.array(2), np.array(2), opset=1)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("FLOAT", np.float32),
        ("DOUBLE", np.float64),
        ("FLOAT16", np.float16),
        ("INT8", np.int8),
        ("int64", np.int64),
        ("UINT16", np.uint16),
        ("BOOL", np.bool_),
    ],
)
def test_cast_of_opset_1_names_its_type(name: str, dtype: Any) -> None:
    x = np.array([0, 1.7, 3], np.float32)
    found = run("Cast", x, opset=1, to=name)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x.astype(dtype))


def test_cast_of_opset_1_to_what_does_not_exist() -> None:
    with pytest.raises(ValueError, match="does not know the type 'FLOAT99'"):
        run("Cast", np.ones(2, np.float32), opset=1, to="FLOAT99")


def test_a_whole_model_of_opset_6() -> None:
    """x [1, 2, 3] plus a number for each channel, times one scalar, in an evaluator that overwrites what dies."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Add", ["a", "c"], ["b"], broadcast=1, axis=1),
        helper.make_node("Mul", ["b", "s"], ["m"], broadcast=1),
        helper.make_node("Neg", ["m"], ["y"]),
    ]
    shapes = {"x": (1, 2, 3), "c": (2,), "s": (1,)}
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, (1, 2, 3))]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    feeds = {
        "x": np.array([[[-1, 2, -3], [4, -5, 6]]], np.float32),
        "c": np.array([10, 20], np.float32),
        "s": np.array([2], np.float32),
    }
    expected = [[[-22, -24, -26], [-48, -50, -52]]]
    for inplace in (False, True):
        session = ReferenceEvaluator(model, kernels="numpy", inplace=inplace, events_enabled=True)
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)
        assert {event.tier for event in session.events() if event.tier} == {"own"}


def test_the_new_forms_take_over_at_their_opset() -> None:
    for op in UFUNCS:
        old, new = find_kernel("", op, 6), find_kernel("", op, 7)
        assert old is not new
        assert old is not None
        assert old.__module__.endswith("old_forms")
