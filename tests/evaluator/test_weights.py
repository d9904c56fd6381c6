"""Constants of a model: any type, sparse, from files beside it, and never in the caller's hands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.evaluator.weights import load_weight

X = np.ones((2, 3), np.float32)


def add_model(weight: Any, **graph: Any) -> Any:
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
            [weight] if weight is not None else [],
            **graph,
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )


W = np.arange(6, dtype=np.float32).reshape(2, 3)
W_BYTES = W.tobytes()


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_weights_are_dense_in_a_run(indices: Any) -> None:
    index = np.array(indices, np.int64)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([7, 8], np.float32), "w"),
        numpy_helper.from_array(index, "i"),
        [2, 3],
    )
    allocator = SimpleRawBufferAllocator(4)
    session = ReferenceEvaluator(add_model(None, sparse_initializer=[sparse]), allocator=allocator)
    (y,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(y, [[1, 8, 1], [1, 1, 9]])
    assert allocator.total_allocated_size == 24


@pytest.mark.parametrize(
    "code",
    [
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.BOOL,
        TensorProto.COMPLEX64,
    ],
)
def test_weights_of_every_type_own_their_bytes(code: Any) -> None:
    values = np.array([[1, 0, 1]]).astype(helper.tensor_dtype_to_np_dtype(code))
    loaded = load_weight(numpy_helper.from_array(values, "w"), None)
    assert loaded.dtype == values.dtype
    assert loaded.shape == (1, 3)
    np.testing.assert_array_equal(loaded.astype(np.complex64), values.astype(np.complex64))
    assert loaded.flags.c_contiguous


def test_strings_and_empty_weights() -> None:
    strings = numpy_helper.from_array(np.array(["a", "é"], object), "w")
    assert load_weight(strings, None).tolist() == ["a", "é"]
    empty = load_weight(numpy_helper.from_array(np.zeros((0, 3), np.int8), "w"), None)
    assert empty.shape == (0, 3)


def external(
    tmp_path: Any, location: str = "w.bin", data: bytes | None = W_BYTES, **entries: Any
) -> Any:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    path = folder / "m.onnx"
    path.write_bytes(add_model(weight).SerializeToString())
    return path


def test_external_data_beside_the_model(tmp_path: Any) -> None:
    path = external(tmp_path, data=b"1234" + W.tobytes() + b"more", offset=4, length=24)
    (y,) = ReferenceEvaluator(path).run(None, {"x": X})
    np.testing.assert_array_equal(y, W + 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"location": "missing.bin"}, "not in the model's folder"),
        ({"location": "../w.bin"}, "outside of the model's folder"),
        ({"location": "/etc/hostname"}, "outside of the model's folder"),
        ({"data": b"short"}, "ends at byte 24, the file at 5"),
    ],
)
def test_external_data_that_is_not_read(tmp_path: Any, change: Any, words: Any) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(ModelError, match=words):
        ReferenceEvaluator(external(tmp_path, **change))


def test_external_data_behind_a_link_out_of_the_folder_is_not_read(tmp_path: Any) -> None:
    path = external(tmp_path, data=None)
    (tmp_path / "secret").write_bytes(W.tobytes())
    (path.parent / "w.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="outside of the model's folder"):
        ReferenceEvaluator(path)


def test_external_data_of_a_model_from_memory(tmp_path: Any) -> None:
    path = external(tmp_path)
    model = onnx.load(path, load_external_data=False)
    for source in (model, path.read_bytes()):
        with pytest.raises(ModelError, match="without a folder"):
            ReferenceEvaluator(source)
    onnx.load_external_data_for_model(model, str(path.parent))
    (y,) = ReferenceEvaluator(model).run(None, {"x": X})
    np.testing.assert_array_equal(y, W + 1)


def test_a_weight_with_too_few_bytes_is_an_error() -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], raw_data=b"1234")
    with pytest.raises(ModelError, match=r"'w'.*\[2, 3\]"):
        ReferenceEvaluator(add_model(weight))


@pytest.mark.parametrize(
    "line",
    [
        "y = Identity(w)",
        "y = Reshape(w, s)",
        "r = Reshape(w, s) y = Identity(r)",
        "r = Flatten(w) y = Unsqueeze(r, z)",
        "y = Dropout(w)",
        "y = Cast <to = 1> (w)",
        "y = Expand(w, s)",
        "y = Transpose <perm = [0, 1]> (w)",
        "y = Concat <axis = 0> (w)",
        "y = Constant <value = float[2, 3] {0, 1, 2, 3, 4, 5}> ()",
        "y = Clip(w)",
        "y = Slice(w, z, i9, z)",
        "y = Sum(w)",
        "y = Max(w)",
        "y = CastLike(w, w)",
        "y = Tile(w, o)",
        "y = Pad(w, p)",
        "y = ReduceSum <noop_with_empty_axes = 1> (w)",
        "q = SequenceConstruct(w) y = SequenceAt(q, i)",
    ],
)
@pytest.mark.parametrize("source", ["weight", "input"])
def test_a_caller_who_overwrites_an_output_changes_neither_weight_nor_input(
    line: Any, source: Any
) -> None:
    """Operators that may return their input as it is must not hand it out."""
    declared = {
        "weight": "g () => (float y) <float[2, 3] w = {0, 1, 2, 3, 4, 5}, ",
        "input": "g (float[2, 3] w) => (float y) <",
    }[source]
    text = (
        f"{declared} int64[2] s = {{2, 3}}, int64[1] z = {{0}}, int64[2] o = {{1, 1}},"
        f" int64[4] p = {{0, 0, 0, 0}}, int64 i = {{0}}, int64[1] i9 = {{9}}> {{ {line} }}"
    )
    session = ReferenceEvaluator(text)
    fed = W.copy()
    feeds = {"w": fed} if source == "input" else {}
    (first,) = session.run(None, feeds)
    kept = first.copy()
    first[...] = -1
    (second,) = session.run(None, feeds)
    np.testing.assert_array_equal(second, kept)
    np.testing.assert_array_equal(fed, W)


@pytest.mark.parametrize("names", [None, ["x"], ["w"], ["r"]])
def test_inputs_and_weights_that_are_outputs_are_copies(names: Any) -> None:
    text = (
        "g (float[2, 3] x) => (float[2, 3] x, float[2, 3] w)"
        "<float[2, 3] w = {0, 1, 2, 3, 4, 5}> { r = Flatten(x) }"
    )
    io = SimpleRawBufferAllocator(9)
    session = ReferenceEvaluator(text, allocator=SimpleRawBufferAllocator(9), io_allocator=io)
    x = X.copy()
    outputs = session.run(names, {"x": x})
    assert io.total_allocated_size == 24 * len(outputs)
    for value in outputs:
        value[:] = 9
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(session.run(["w"], {"x": x})[0], W)


def test_external_data_is_mapped_and_not_copied(tmp_path: Any) -> None:
    """A sparse file of 4 GB is loaded without its bytes: they are paged in where a node reads them."""
    rows, columns = 1_000_000, 1_000
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * rows * columns)
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[rows, columns])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    weight = load_weight(tensor, tmp_path)
    assert weight.shape == (rows, columns)
    assert weight.nbytes == 4 * rows * columns
    assert not weight.flags.writeable
    assert weight[-1, -1] == 0
    assert isinstance(weight.base, np.memmap)
