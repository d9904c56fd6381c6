"""The shape rules against every node case of onnx: each dimension of each input is a symbol of its own.

The expected sizes are those of the outputs that ship with onnx. Small inputs, which may be sizes, axes or scales, are
initializers, as exporters write them.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.symbolic.dims import read_dims
from onnx_notebook_profiler.symbolic.shapes import ValueType, infer_types
from tests.evaluator.test_backend_suite import Case, cases

# What has no size, by the beginning of the case's name, and why.
UNKNOWN = {
    "gathernd": "the rank follows from a dimension that is a symbol here",
    "image_decoder": "data decides",
    "maxunpool_export_without_output_shape": "no rule",
    "nonmaxsuppression": "data decides",
    "nonzero": "data decides",
    "string_split": "data decides",
    "strnormalizer": "data decides",
    "unique": "data decides",
    "resize_downsample_sizes_nearest_not": "the ratio that is kept follows from symbols",
    "resize_upsample_sizes_nearest_not": "the ratio that is kept follows from symbols",
    "stft": "no rule for a number of frames that is a symbol",
    # bodies of functions, node by node: numbers computed from symbols in ways that are not followed
    "affine_grid": "function body",
    "attention": "function body",
    "causal_conv_with_state": "function body",
    "center_crop_pad": "function body",
}
LEAST = 2100  # sizes that are known and right
SHARDS = 8


@dataclasses.dataclass
class Count:
    right: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)
    unknown: list[str] = dataclasses.field(default_factory=list)


def with_symbols(case: Case) -> tuple[ModelProto, dict[str, int]]:
    """The model with a name for every dimension, and the sizes that they have."""
    model, sizes = ModelProto(), dict[str, int]()
    model.CopyFrom(case.model)
    graph, feeds = model.graph, case.data[0][0]
    kept = []
    for value in list(graph.input):
        fed = feeds.get(value.name)
        plain = isinstance(fed, np.ndarray | np.generic)
        array = np.asarray(fed) if plain else None
        if array is None or not value.type.HasField("tensor_type"):
            kept.append(value)
            continue
        if array.ndim <= 1 and array.size <= 8 and array.dtype.kind in "iufbV":
            graph.initializer.append(numpy_helper.from_array(array, value.name))
            continue
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in array.shape:
            name = f"d{len(sizes)}"
            sizes[name] = size
            shape.dim.add(dim_param=name)
        kept.append(value)
    del graph.input[:]
    graph.input.extend(kept)
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return model, sizes


def outputs(case: Case) -> Iterator[tuple[str, Any, Any, dict[str, int]]]:
    """Each output: its name, what is inferred, the value, and the sizes of the symbols."""
    model, sizes = with_symbols(case)
    loaded = load_model(model)
    types: Any = infer_types(loaded, read_dims(loaded))
    for value, expected in zip(model.graph.output, case.data[0][1], strict=False):
        if isinstance(expected, np.ndarray | np.generic):
            yield value.name, types.get(value.name), np.asarray(expected), sizes


def count(shard: int) -> Count:
    total = Count()
    for case in cases()[shard::SHARDS]:
        if not case.data:
            continue
        try:
            found = list(outputs(case))
        except ModelError:  # an output that is an input, which has become an initializer
            continue
        for name, inferred, expected, sizes in found:
            if not isinstance(inferred, ValueType):
                total.unknown.append(case.name.removeprefix("test_"))
                continue
            shape = tuple(size.evaluate(sizes) for size in inferred.shape)
            if shape == expected.shape:
                total.right += 1
            else:
                total.wrong.append(f"{case.name} {name}: {shape}, in truth {expected.shape}")
    return total


@pytest.fixture(scope="module")
def counts() -> list[Count]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [count(shard) for shard in range(SHARDS)]


def test_no_size_is_wrong(counts: list[Count]) -> None:
    wrong = [one for shard in counts for one in shard.wrong]
    assert not wrong, "\n".join(wrong)
    assert sum(shard.right for shard in counts) >= LEAST


def test_what_is_unknown_is_known_to_be(counts: list[Count]) -> None:
    unknown = {name for shard in counts for name in shard.unknown}
    surprising = [name for name in sorted(unknown) if not name.startswith(tuple(UNKNOWN))]
    assert not surprising
    unused = [start for start in UNKNOWN if not any(name.startswith(start) for name in unknown)]
    assert not unused
