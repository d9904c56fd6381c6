"""Profiles of real sessions: figures that were seen, counts by hand, and a tracing allocator in another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto

from onnx_notebook_profiler.errors import FeedError, ModelError, OnnxRuntimeError
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.measured import NO_MEMORY, MeasuredNode, joined, measure
from onnx_notebook_profiler.ort.node_map import NodeMap, name_nodes
from onnx_notebook_profiler.ort.profile_json import read_profile
from onnx_notebook_profiler.ort.settings import SessionSettings
from onnx_notebook_profiler.ort.trace_model import trace_model
from tests.models import packaged_model
from tests.ort.section_models import FEEDS, RESERVED, section_model
from tests.ort.traced_runtime import library

NEW = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 28)
needs_bytes = pytest.mark.skipif(not NEW, reason="mem_* fields come with onnxruntime 1.28")
needs_library = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")


@needs_bytes
def test_the_second_convolution_of_a_first_run() -> None:
    """128 reserved, 131,072 of the first convolution, 2*8*16*16*4 = 16,384 of its own in two channel blocks."""
    settings = SessionSettings(threads=1)
    found = measure(load_model(section_model("conv")), FEEDS["conv"], settings=settings)
    (second,) = (
        node for node in found.runs[0].nodes if node.origin.nodes == (2,) and "Conv" in node.op
    )
    memory = second.row.memory
    assert memory is not None
    assert second.row.number == 6
    assert second.row.parameter_bytes == 25664
    assert (memory.in_use, memory.requested, memory.high_water) == (163968, 163968, 163968)
    assert (memory.in_use_delta, memory.requested_delta, memory.held) == (32768, 32768, 1048704)
    assert (second.row.output_bytes, second.live_bytes) == (32768, 163968)


@needs_bytes
@pytest.mark.parametrize(("name", "optimize"), RESERVED)
def test_first_nodes_add_their_outputs_to_what_is_reserved(name: str, optimize: str) -> None:
    settings = SessionSettings(optimize=optimize, threads=1)
    found = measure(load_model(section_model(name)), FEEDS[name], settings=settings)
    first = found.runs[0].nodes[0].row
    assert first.memory is not None
    assert first.memory.requested == RESERVED[name, optimize] + (first.output_bytes or 0)


FEEDS_OF_PACKAGED: dict[str, dict[str, Any]] = {
    "magika": {"bytes": np.full((1, 2048), 7, np.int32)},
    "silero": {
        "input": np.ones((1, 576), np.float32),
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(16000, np.int64),
    },
    "minilm": {
        name: np.ones((1, 16), np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    },
}


@needs_bytes
@needs_library
@pytest.mark.parametrize("optimize", ["none", "all"])
@pytest.mark.parametrize("name", FEEDS_OF_PACKAGED)
def test_live_bytes_are_those_of_a_tracing_allocator(name: str, optimize: str) -> None:
    """Two sessions in two processes: one tells what its arena was asked for, one has its requests written down."""
    settings = SessionSettings(optimize=optimize, threads=1)
    model = load_model(packaged_model(name))
    told = measure(model, FEEDS_OF_PACKAGED[name], runs=2, settings=settings)
    _, traced = trace_model(model, FEEDS_OF_PACKAGED[name], runs=2, settings=settings)

    def shown(node: MeasuredNode) -> tuple[str, int | None, tuple[int, ...]]:
        return node.op, node.live_bytes, node.origin.nodes

    for one, other in zip(told.runs, traced.runs, strict=True):
        assert list(map(shown, one.nodes)) == list(map(shown, other.nodes))
        assert all(node.live_bytes for node in one.nodes)
        assert all(node.origin.how != "unknown" for node in one.nodes)


def test_what_each_node_stands_for() -> None:
    """Relu goes into Conv, MatMul and Add become one Gemm, HardSwish two nodes, two Casts of a constant none."""
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[2,3,8,8] x) => (float[2,4] y) {
        p = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)  r = Relu(p)  g = GlobalAveragePool(r)  f = Flatten(g)
        d = MatMul(f, m)  s = Add(d, c)  e = HardSwish(s)  k = Cast<to = 11>(c)  q = Cast<to = 1>(k)
        y = Mul(e, q) }"""
    model = onnx.parser.parse_model(text)
    numbers = np.random.default_rng(0)
    for name, shape in {"w1": (8, 3, 3, 3), "b1": (8,), "m": (8, 4), "c": (4,)}.items():
        data = numbers.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, name))
    found = measure(load_model(model), {"x": np.ones((2, 3, 8, 8), np.float32)})
    told = [(node.row.op_type, node.origin.how, node.origin.nodes) for node in found.runs[-1].nodes]
    work = [one for one in told if one[1] != "added"]
    assert work == [
        ("Conv", "fused", (0, 1)),
        ("GlobalAveragePool", "same", (2,)),
        ("Flatten", "same", (3,)),
        ("Gemm", "fused", (4, 5)),
        ("HardSigmoid", "part", (6,)),
        ("Mul", "part", (6,)),
        ("Mul", "same", (9,)),
    ]
    assert all(
        op in {"ReorderInput", "ReorderOutput", "Reshape"} for op, how, _ in told if how == "added"
    )
    assert found.gone == (7, 8)


def test_nodes_in_bodies_and_nodes_that_come_out_of_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[N] x, bool c) => (y, z) <bool t = {1}> {
        y = If(c)<then_branch = one() => (u) { u = Exp(x) }, else_branch = two() => (u) { u = Neg(x) }>
        z = If(t)<then_branch = three() => (v) { v = Sin(x) }, else_branch = four() => (v) { v = Cos(x) }> }"""
    feeds = {"x": np.ones(3, np.float32), "c": np.array(False)}
    found = measure(load_model(text), feeds)
    told = {
        (node.row.op_type, node.origin.path, node.origin.nodes) for node in found.runs[-1].nodes
    }
    assert (
        told
        == {
            ("Neg", ((0, "else_branch"),), (0,)),
            ("If", (), (0,)),
            (
                "Sin",
                (),
                (1,),
            ),  # the branch that is always taken takes the place of the second If, with a name of its own
        }
    )
    assert found.gone == ()


def test_a_session_that_tells_no_bytes() -> None:
    """As onnxruntime before 1.28 does: times alone, and the words for it."""
    model = load_model(section_model("gemm"))
    named, places = name_nodes(model.proto)
    settings = SessionSettings(optimize="none")
    told = measure(model, FEEDS["gemm"], runs=1, settings=settings)
    rows: list[dict[str, Any]] = [
        {
            "cat": "Node",
            "name": f"{name}_kernel_time",
            "ts": 10 * at + 1,
            "dur": 5,
            "args": {"op_name": op, "node_index": str(at), "provider": "CPUExecutionProvider"},
        }
        for at, (name, op) in enumerate(
            zip(
                (node.name for node in named.graph.node),
                ("Gemm", "Relu", "Gemm", "Softmax"),
                strict=True,
            )
        )
    ]
    rows.append({"cat": "Session", "name": "model_run", "ts": 0, "dur": 50, "args": {}})
    nodes = NodeMap(model.proto, places, told.optimized)
    found = joined("1.23.0", model.proto, read_profile(json.dumps(rows)), nodes, named, 1000)
    assert found.notes == (NO_MEMORY,)
    (run,) = found.runs
    assert [(node.live_bytes, node.row.duration_us) for node in run.nodes] == [(None, 5)] * 4
    assert (run.began_ns, run.duration_ns, run.nodes[1].start_ns) == (1000, 50000, 12000)


def test_events() -> None:
    found = measure(load_model(section_model("gemm")), FEEDS["gemm"], runs=2)
    events = found.runs[1].events()
    assert [(event.action, event.op_type, event.node_index) for event in events] == [
        (RuntimeEventAction.RUN_NODE, "FusedGemm", 1),
        (RuntimeEventAction.RUN_NODE, "Gemm", 2),
        (RuntimeEventAction.RUN_NODE, "Softmax", 3),
    ]
    assert all(event.duration_ns >= 0 and event.tier == "onnxruntime" for event in events)
    if NEW:  # reserved bytes, the pattern's block, and of Softmax the output
        assert [event.allocated_bytes for event in events] == [101888, 101888, 102272]


@pytest.mark.parametrize(
    "text", ["[]", "", "[{}]", '{"a": 1}', '[{"cat": "Node", "name": "a_kernel_time"}]']
)
def test_a_file_that_is_no_profile(text: str) -> None:
    if text == "[]":
        assert read_profile(text) == ()
        return
    with pytest.raises(OnnxRuntimeError, match="cannot be read"):
        read_profile(text)


def test_what_is_refused(tmp_path: Path) -> None:
    model = load_model(section_model("gemm"))
    with pytest.raises(FeedError, match="rank 2"):
        measure(model, {"x": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="1 or more, not 0"):
        measure(model, FEEDS["gemm"], runs=0)
    text = '<ir_version: 10, opset_import: ["" : 18, "no.such" : 1]> agraph (float[N] x) => (y) { y = no.such.Op(x) }'
    with pytest.raises(ModelError, match=r"onnxruntime .* refuses the model"):
        measure(load_model(text), {"x": np.ones(3, np.float32)})
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[N] x, int64[K] k) => (float[M] y)
        { y = Reshape(x, k) }"""
    feeds = {"x": np.ones(3, np.float32), "k": np.array([4], np.int64)}
    with pytest.raises(OnnxRuntimeError, match="run 0 of onnxruntime"):
        measure(load_model(text), feeds)


def test_external_data_is_found(tmp_path: Path) -> None:
    model: ModelProto = section_model("gemm")
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    for optimize in ("none", "all"):
        found = measure(
            load_model(path), FEEDS["gemm"], settings=SessionSettings(optimize=optimize)
        )
        assert len(found.runs) == 3
