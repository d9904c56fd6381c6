"""The peak of real models at random sizes, against a walk over what a run really makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.model import generate_feed, graph_inputs, load_model
from tests.models import packaged_model

VIEWS = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"}
MODELS: dict[str, dict[str, tuple[int, int]]] = {
    "magika": {"batch": (1, 6)},
    "minilm": {"batch": (1, 3), "sequence": (1, 48)},
}


def highest(model: Any, values: dict[str, np.ndarray[Any, Any]]) -> int:
    """The most bytes alive at a node, its outputs included: a walk of its own over names and arrays.

    The caller's inputs count for nothing but single numbers, initializers from first to last, outputs to the end, a
    view for what it looks into.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    fed = {value.name for value in graph.input} - weights.keys()
    base = {name: name for name in (*weights, *fed)}
    outputs = {value.name for value in graph.output}
    last: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.input):
            last[base[name]] = index
        for position, name in enumerate(node.output):
            if name:
                is_view = node.op_type in VIEWS and position == 0 and node.domain == ""
                base[name] = base[node.input[0]] if is_view else name
                last.setdefault(base[name], index)
    for name in outputs:
        last[base[name]] = len(graph.node)
    standing = sum(numpy_helper.to_array(tensor).nbytes for tensor in weights.values())
    standing += sum(values[name].nbytes for name in fed if values[name].ndim == 0)
    live: dict[str, int] = {}
    peak = 0
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and base[name] == name:
                live[name] = values[name].nbytes
        peak = max(peak, standing + sum(live.values()))
        live = {name: size for name, size in live.items() if last[name] > index}
    return peak


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_at_random_sizes(name: str) -> None:
    loaded = load_model(packaged_model(name))
    context = onp.ComputeContext(account="evaluator")
    context.compute(loaded)
    assert not context.unknown
    session = onp.ReferenceEvaluator(loaded.proto, kernels="numpy")
    graph = loaded.proto.graph
    names = [
        *(value.name for value in graph.input),
        *(output for node in graph.node for output in node.output if output),
    ]
    numbers = np.random.default_rng(4)
    for _ in range(8):
        sizes = {
            dim: int(numbers.integers(low, high + 1))
            for dim, (low, high) in zip(context.dims, MODELS[name].values(), strict=True)
        }
        shapes = context.input_shapes(sizes)
        feeds = {
            value.name: generate_feed(value, shapes[value.name] or ())
            for value in graph_inputs(graph)
        }
        values = dict(zip(names, session.run(names, feeds), strict=True))
        assert context.peak.evaluate(sizes) == highest(loaded.proto, values), sizes


@pytest.mark.parametrize(
    ("sequence", "node", "megabytes"),
    [(128, "Mul", 116.6), (256, "Where", 128.6), (512, "Where", 311.0)],
)
def test_the_peak_moves_from_the_embedding_to_the_attention(
    sequence: int, node: str, megabytes: float
) -> None:
    """Whoever picks the peak's node at sizes of 1 says 24 * batch * sequence + 116634704: 62 % too little at 512."""
    path = packaged_model("minilm")
    context = onp.ComputeContext(account="evaluator")
    context.compute(path)
    profile = onp.profile(path, dims={"batch": 8, "sequence": sequence}, kernels="onnxruntime")
    predicted = context.peak.evaluate(batch=8, sequence=sequence)
    assert predicted == profile.peak_bytes
    assert predicted / 1e6 == pytest.approx(megabytes, abs=0.05)
    assert context.labels[context.peak.node(batch=8, sequence=sequence)][1] == node


def test_dimensions_without_names_can_be_bound() -> None:
    """A detector of text in images leaves all three of its dimensions open, and its strides round them."""
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[?,3,?,?] x) => (float[?,8,?,?] y) <float[8,3,3,3] w, float[8,8,3,3] v> {
        a = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w)  b = Relu(a)
        c = Conv<pads = [1,1,1,1], strides = [2,2]>(b, v)  y = Relu(c) }"""
    model = parser.parse_model(text.replace("?", "N"))
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.Clear()
    for name, shape in (("w", (8, 3, 3, 3)), ("v", (8, 8, 3, 3))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    assert len(context.dims) == 3
    for size in ((1, 320, 320), (2, 33, 47), (3, 1, 2)):
        sizes = dict(zip(context.dims, size, strict=True))
        n, high, wide = size[0], -(-size[1] // 2), -(-size[2] // 2)
        outer = 4 * n * 8 * high * wide
        inner = 4 * n * 8 * -(-high // 2) * -(-wide // 2)
        weights = 4 * 9 * (24 + 64)
        assert context.peak.evaluate(sizes) == weights + max(2 * outer, outer + inner, 2 * inner)
