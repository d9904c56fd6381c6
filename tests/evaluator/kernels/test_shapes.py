"""Views, generators and layout operators against tables and plain numpy indexing."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from onnx import TensorProto, helper

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from tests.evaluator.kernels.harness import make_kernel, run, run_node, typed

BF16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
INT4 = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
DTYPES = [np.bool_, np.int8, np.float16, BF16, INT4, np.float64, np.complex64, object]
I64: Any = np.int64


def tensor(shape: Any, dtype: Any = np.float32) -> Any:
    values = np.arange(np.prod(shape, dtype=int)) % 7
    if dtype is object:
        return np.array([f"s{v}" for v in values], object).reshape(shape)
    return values.astype(dtype).reshape(shape)


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_passes(dtype: Any) -> None:
    x = tensor((2, 3), dtype)
    same(run("Identity", x), x)
    same(run("Reshape", x, I64([3, -1])), x.reshape(3, 2))
    same(run("Flatten", x, axis=0), x.reshape(1, 6))
    same(run("Unsqueeze", x, I64([0, -1])), x.reshape(1, 2, 3, 1))
    same(run("Squeeze", x[:1], I64([0])), x[0])
    same(run("Transpose", x), x.T)
    same(run("Expand", x[:, :1], I64([2, 1, 4])), np.tile(x[:, :1], (2, 1, 4)))
    same(run("Tile", x, I64([2, 1])), np.concatenate([x, x]))
    same(run("Concat", x, x[:, :1], axis=-1), np.concatenate([x, x[:, :1]], 1))
    same(run("Slice", x, I64([2]), I64([-9]), I64([1]), I64([-1])), x[:, ::-1])
    same(run("Pad", x, I64([0, 1, 0, 1]), mode="edge"), x[:, [0, 0, 1, 2, 2]])
    same(run("Gather", x, I64([[-1, 0]]), axis=1), x[:, [[-1, 0]]])
    same(run("GatherElements", x, I64([[1, 0, 1]])), np.stack([x[[1, 0, 1], [0, 1, 2]]]))
    same(run("GatherND", x, I64([[0, -1]])), x[:1, -1])
    same(run("ScatterND", x, I64([[1]]), x[:1]), np.stack([x[0], x[0]]))
    same(
        run("ScatterElements", x, I64([[1]]), x[1:, 2:]),
        np.array([[x[0, 0], x[0, 1], x[0, 2]], [x[1, 2], x[1, 1], x[1, 2]]], x.dtype),
    )
    first, second = run("Split", x, I64([1, 2]), outputs=2, axis=1)
    same(first, x[:, :1])
    same(second, x[:, 1:])
    assert run("Size", x) == 6
    assert run("Shape", x).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("shape", "wanted", "expected", "allowzero"),
    [
        ((2, 3, 4), [4, -1], (4, 6), 0),
        ((2, 3, 4), [0, 0, 2, -1], (2, 3, 2, 2), 0),
        ((2, 3), [-1], (6,), 0),
        ((1,), [], (), 0),
        ((), [1, 1], (1, 1), 0),
        ((0, 3), [0, 3, 5], (0, 3, 5), 0),
        ((0, 3), [3, 0], (3, 0), 1),
        ((0, 3), [-1, 3], (0, 3), 0),
        ((2, 3), [2, 4], None, 0),
        ((2, 3), [-1, -1], None, 0),
        ((2, 3), [-2, 3], None, 0),
        ((2, 3), [1, 6, 0], None, 0),
        ((2, 3), [4, -1], None, 0),
        ((0, 3), [0, -1], None, 1),
    ],
)
def test_reshape(shape: Any, wanted: Any, expected: Any, allowzero: Any) -> None:
    x = tensor(shape)
    if expected is None:
        with pytest.raises(ValueError, match="cannot take the shape"):
            run("Reshape", x, I64(wanted), allowzero=allowzero)
        return
    same(run("Reshape", x, I64(wanted), allowzero=allowzero), x.reshape(expected))
    if not allowzero and wanted:
        same(run("Reshape", x, opset=1, shape=wanted), x.reshape(expected))


def test_squeeze_and_unsqueeze_of_all_versions() -> None:
    x = tensor((1, 2, 1))
    assert run("Squeeze", x).shape == (2,)
    assert run("Squeeze", x, opset=11, axes=[-1]).shape == (1, 2)
    assert run("Squeeze", x, I64([0, 2])).shape == (2,)
    assert run("Unsqueeze", x, opset=1, axes=[0, 4]).shape == (1, 1, 2, 1, 1)
    assert run("Unsqueeze", tensor(()), I64([0])).shape == (1,)
    with pytest.raises(ValueError, match="not of size 1"):
        run("Squeeze", x, I64([1]))
    with pytest.raises(ValueError, match="comes twice"):
        run("Unsqueeze", x, I64([0, -4, 0]))
    with pytest.raises(ValueError, match="needs axes"):
        run("Unsqueeze", x)


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (1, 24)), (1, (2, 12)), (3, (24, 1)), (-1, (6, 4)), (-3, (1, 24))]
)
def test_flatten(axis: Any, shape: Any) -> None:
    assert run("Flatten", tensor((2, 3, 4)), axis=axis).shape == shape


def test_flatten_beyond_the_rank() -> None:
    with pytest.raises(ValueError, match="axis 4"):
        run("Flatten", tensor((2, 3, 4)), axis=4)


def test_identity_of_a_sequence_is_left_to_others() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    kernel = make_kernel(node, 21)
    with pytest.raises(UnsupportedOperatorError):
        kernel.infer([[np.ones(2)]])


def test_dropout_at_inference() -> None:
    x = tensor((2, 3))
    for opset, mask_type in ((7, np.float32), (10, np.bool_), (13, np.bool_)):
        y, mask = run("Dropout", x, opset=opset, outputs=2)
        same(y, x)
        assert mask.dtype == mask_type
        assert (mask == 1).all()
    same(run("Dropout", x, typed.float32(0.5), np.array(False), opset=13), x)
    same(run("Dropout", x, opset=6, is_test=1), x)


# the examples of the specification, and its clamping
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [2, 3, 4]),
        ({"start": -1}, [4]),
        ({"end": -1}, [2, 3]),
        ({"start": 1, "end": 2}, [3]),
        ({"start": -9, "end": 9}, [2, 3, 4]),
        ({"start": 2, "end": 1}, []),
    ],
)
def test_shape(attributes: Any, expected: Any) -> None:
    result = run("Shape", tensor((2, 3, 4)), **attributes)
    assert result.dtype == I64
    assert result.tolist() == expected


def test_constants_of_every_form() -> None:
    tensor_value = helper.make_tensor("t", TensorProto.BFLOAT16, [2], [1.5, -2])
    forms: list[tuple[dict[str, Any], Any]] = [
        ({"value": tensor_value}, np.array([1.5, -2], BF16)),
        ({"value_float": 0.1}, np.array(0.1, np.float32)),
        ({"value_floats": [1.0, 2.0]}, np.array([1, 2], np.float32)),
        ({"value_int": 2**40}, np.array(2**40)),
        ({"value_ints": [1, 2]}, np.array([1, 2])),
        ({"value_string": "é"}, np.array("é", object)),
        ({"value_strings": ["a", "bc"]}, np.array(["a", "bc"], object)),
    ]
    for attributes, expected in forms:
        same(run("Constant", **attributes), expected)


def test_constants_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="exactly one value"):
        run("Constant", value_int=1, value_float=1.0)
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
        helper.make_tensor("i", TensorProto.INT64, [1], [2]),
        [3],
    )
    with pytest.raises(UnsupportedOperatorError):
        run("Constant", sparse_value=sparse)


def test_constant_of_shape() -> None:
    same(run("ConstantOfShape", I64([2, 3])), np.zeros((2, 3), np.float32))
    same(run("ConstantOfShape", I64([])), np.zeros((), np.float32))
    value = helper.make_tensor("v", TensorProto.INT4, [1], [-3])
    same(run("ConstantOfShape", I64([2]), value=value), np.array([-3, -3], INT4))
    with pytest.raises(ValueError, match="0 or more"):
        run("ConstantOfShape", I64([-1]))


# the counts of floats are those of ceil((limit - start) / delta) with a division in float64
@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ((3, 9, 3), np.int32, [3, 6]),
        ((10, 4, -2), np.int64, [10, 8, 6]),
        ((10, 0, -3), np.int16, [10, 7, 4, 1]),
        ((1, 5, -1), np.int64, []),
        ((0, 1, 0.25), np.float32, [0, 0.25, 0.5, 0.75]),
        ((0, 0.3, 0.1), np.float64, [0, 0.1, 0.2]),
        ((0, 0.3, 0.1), np.float32, [0, 0.1, 0.2, 0.3]),
        ((2**53, 2**53 + 3, 1), np.int64, [2**53, 2**53 + 1, 2**53 + 2]),
    ],
)
def test_range(values: Any, dtype: Any, expected: Any) -> None:
    result = run("Range", *(dtype(v) for v in values))
    assert result.dtype == dtype
    assert result.shape == (len(expected),)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert np.dtype(dtype).kind == "f" or result.tolist() == expected


def test_range_of_narrow_floats_counts_in_float32() -> None:
    result = run("Range", *np.array([2048, 2056, 1]).astype(np.float16), opset=27)
    assert result.tolist() == [2048, 2048, 2050, 2052, 2052, 2052, 2054, 2056]
    with pytest.raises(ValueError, match="other than 0"):
        run("Range", I64(0), I64(1), I64(0))


@pytest.mark.parametrize("k", [-5, -2, 0, 1, 3, 9])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (0, 2)])
def test_eye_like(k: Any, shape: Any) -> None:
    expected = [[int(j == i + k) for j in range(shape[1])] for i in range(shape[0])]
    result = run("EyeLike", tensor(shape), k=k, dtype=TensorProto.BFLOAT16)
    assert result.dtype == BF16
    assert result.shape == shape
    assert result.astype(int).tolist() == expected


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Transpose", (tensor((2, 3)),), {"perm": [0]}, "does not order"),
        ("Expand", (tensor((2, 3)), I64([4])), {}, "do not fit"),
        ("Tile", (tensor((2, 3)), I64([2])), {}, "do not fit"),
        ("Concat", (tensor((2, 3)), tensor((3, 3))), {"axis": 1}, "do not fit at 1"),
        ("Concat", (tensor((2, 3)), tensor((3,))), {"axis": 0}, "do not fit at 0"),
        ("Slice", (tensor((2, 3)), I64([0, 1]), I64([1])), {}, "as many starts as ends"),
        ("Slice", (tensor((2,)), I64([0]), I64([1]), I64([0]), I64([0])), {}, "is 0"),
        ("Pad", (tensor((2, 3)), I64([1, 1])), {}, "expects 4 pads"),
        ("Pad", (tensor((2,)), I64([-2, -1])), {}, "more than the 2 elements"),
        ("Pad", (tensor((0,)), I64([1, 0])), {"mode": "edge"}, "no element to repeat"),
        ("Pad", (tensor((2,)), I64([1, 0])), {"mode": "mirror"}, "'mirror'"),
        ("EyeLike", (tensor((2,)),), {}, "expects a matrix"),
    ],
)
def test_errors_say_what_does_not_fit(
    op_type: Any, inputs: Any, attributes: Any, message: Any
) -> None:
    with pytest.raises(ValueError, match=message):
        run(op_type, *inputs, **attributes)


def test_tile_and_expand_of_nothing() -> None:
    assert run("Tile", tensor((2, 3)), I64([0, 2])).shape == (0, 6)
    assert run("Expand", tensor((1, 0)), I64([3, 1])).shape == (3, 0)
    assert run("Expand", tensor((3, 1)), I64([])).shape == (3, 1)


def test_concat_of_the_first_opset_joins_axis_one() -> None:
    assert run("Concat", tensor((2, 3)), tensor((2, 1)), opset=1).shape == (2, 4)


@given(
    st.lists(
        st.tuples(
            st.integers(-8, 8) | st.sampled_from([-(2**63), 2**63 - 1]),
            st.integers(-8, 8) | st.sampled_from([-(2**63), 2**63 - 1]),
            st.integers(-3, 3).filter(bool),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_slices_as_numpy_takes_them(pieces: Any) -> None:
    # numpy finds nothing where a backward slice starts before the first element; ONNX clamps
    assume(not any(step < 0 and start < -5 for start, _, step in pieces))
    x = tensor((5, 5))
    axes = list(range(len(pieces)))[::-1]
    starts, ends, steps = (I64(values) for values in zip(*pieces, strict=True))
    index = [slice(None)] * 2
    for axis, piece in zip(axes, pieces, strict=True):
        index[axis] = slice(*piece)
    expected = x[tuple(index)]
    same(run("Slice", x, starts, ends, I64(axes), steps), expected)
    if (steps == 1).all():
        old = {"starts": starts.tolist(), "ends": ends.tolist(), "axes": axes}
        same(run("Slice", x, opset=1, **old), expected)


def test_a_backward_slice_clamps_its_start() -> None:
    # the specification moves it to the first element; numpy finds nothing there
    x = tensor((5,))
    result = run("Slice", x, I64([-100]), I64([-1000]), I64([0]), I64([-1]))
    assert result.tolist() == [0]


def test_slice_sees_new_bounds_at_each_call() -> None:
    node = helper.make_node("Slice", ["x", "s", "e"], ["y"])
    kernel = make_kernel(node, 21)
    x = tensor((6,))
    for start in (0, 2, 4, 0):
        inputs = [x, I64([start]), I64([6])]
        (spec,) = kernel.infer(inputs)
        out = np.empty(spec.shape, spec.dtype)
        kernel.compute(inputs, [out])
        same(out, x[start:])


@pytest.mark.parametrize(
    ("opset", "total", "inputs", "attributes", "outputs", "sizes"),
    [
        (18, 7, (), {"num_outputs": 3}, 3, [3, 3, 1]),
        (18, 5, (), {"num_outputs": 4}, 4, [2, 2, 1, 0]),
        (18, 6, (), {"num_outputs": 2}, 2, [3, 3]),
        (13, 6, (), {}, 3, [2, 2, 2]),
        (13, 6, (I64([1, 0, 5]),), {}, 3, [1, 0, 5]),
        (2, 6, (), {"split": [4, 2]}, 2, [4, 2]),
        (1, 6, (I64([4, 2]),), {"axis": 0}, 2, [4, 2]),
    ],
)
def test_split(
    opset: Any, total: Any, inputs: Any, attributes: Any, outputs: Any, sizes: Any
) -> None:
    x = tensor((total, 2))
    pieces = run("Split", x, *inputs, opset=opset, outputs=outputs, **attributes)
    assert [len(piece) for piece in pieces] == sizes
    same(np.concatenate(pieces), x)


@pytest.mark.parametrize(
    ("inputs", "outputs"), [((), 4), ((I64([1, 2]),), 2), ((I64([7, -1]),), 2)]
)
def test_sizes_that_do_not_divide(inputs: Any, outputs: Any) -> None:
    with pytest.raises(ValueError, match="divide"):
        run("Split", tensor((6, 2)), *inputs, opset=13, outputs=outputs)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
)
def test_padding_as_numpy_does_it(mode: Any, shape: Any, pads: Any) -> None:
    x = tensor(shape)
    if mode == "reflect":  # numpy changes its ways where there is one element to mirror
        assume(min(shape) > 1)
    expected = np.pad(x, ((pads[0], pads[2]), (pads[1], pads[3])), mode=mode)
    same(run("Pad", x, I64(pads), mode=mode), expected)
    if mode != "wrap":
        same(run("Pad", x, opset=2, mode=mode, pads=pads), expected)


def test_padding_of_some_axes_with_a_value() -> None:
    x = tensor((2, 3))
    result = run("Pad", x, I64([1, 2]), typed.float32(9), I64([-1]))
    same(result, np.pad(x, ((0, 0), (1, 2)), constant_values=9))
    text = np.array(["a"], object)
    assert run("Pad", text, I64([0, 1])).tolist() == ["a", ""]
    assert run("Pad", x, opset=1, paddings=[0, 0, 1, 0], value=5.0)[2].tolist() == [5, 5, 5]


# as onnxruntime does: cut first, then repeat what is left
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("constant", [1, 2, 3, 4, 0, 0, 0]),
        ("reflect", [1, 2, 3, 4, 3, 2, 1]),
        ("edge", [1, 2, 3, 4, 4, 4, 4]),
        ("wrap", [1, 2, 3, 4, 1, 2, 3]),
    ],
)
def test_negative_padding_cuts(mode: Any, expected: Any) -> None:
    assert run("Pad", tensor((5,)), I64([-1, 3]), mode=mode).tolist() == expected


def test_outputs_without_a_buffer_are_passed_over() -> None:
    x, mask = tensor((6,)), np.zeros(6, bool)
    kernel = make_kernel(helper.make_node("Dropout", ["x"], ["y", "m"]), 13)
    kernel.compute([x], [None, mask])
    assert mask.all()
    kernel = make_kernel(helper.make_node("Split", ["x"], ["a", "", "c"]), 13)
    first, last = np.empty(2, x.dtype), np.empty(2, x.dtype)
    kernel.compute([x], [first, None, last])
    same(first, x[:2])
    same(last, x[4:])


def test_an_output_that_nobody_wants_in_the_middle() -> None:
    node = helper.make_node("Split", ["x", "s"], ["a", "", "c"], axis=0)
    x = tensor((6,))
    results = run_node(node, [x, I64([1, 2, 3])], 13)
    same(results[0], x[:1])
    same(results[2], x[3:])
