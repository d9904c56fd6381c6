"""Traces of the real runtime against counts by hand, the plan's rules and onnxruntime's own statistics."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

from onnx_notebook_profiler.errors import (
    FeedError,
    MissingExtraError,
    ModelError,
    OnnxRuntimeError,
    ProfilerError,
)
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort import c_api
from onnx_notebook_profiler.ort.attribution import attribute
from onnx_notebook_profiler.ort.events import runs_events
from onnx_notebook_profiler.ort.node_map import NodeMap, name_nodes
from onnx_notebook_profiler.ort.profile_json import read_profile
from onnx_notebook_profiler.ort.settings import SessionSettings
from onnx_notebook_profiler.ort.trace_model import trace_model
from onnx_notebook_profiler.ort.tracing import Job, run_jobs
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation
from tests.models import packaged_model
from tests.ort.predicted import sizes_of
from tests.ort.random_models import random_model
from tests.ort.section_models import BLOCKS, FEEDS, RESERVED, section_model
from tests.ort.traced_runtime import library

pytestmark = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")

PLAIN = SessionSettings(optimize="none", threads=1)
CHAIN = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[N,64] x) => (float[N,64] y) {
    a = Exp(x)  b = Abs(a)  c = Neg(b)  y = Sqrt(c) }"""


def weighted(text: str, **weights: tuple[int, ...]) -> ModelProto:
    model = onnx.parser.parse_model(text)
    numbers = np.random.default_rng(0)
    for name, shape in weights.items():
        data = numbers.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, name))
    return model


def test_each_event_of_a_chain_is_what_a_hand_counts() -> None:
    """Buffers of 16*64*4 bytes; c takes that of a, and later runs take a block of two."""
    found, _ = trace_model(CHAIN, {"x": np.ones((16, 64), np.float32)}, runs=3, settings=PLAIN)
    first = [
        ("alloc", 4096, 0, 0, "a", "own"),
        ("alloc", 4096, 1, 1, "b", "own"),
        ("free", 4096, 1, 2, "b", "own"),
        ("alloc", 4096, 2, 3, "y", "output"),
        ("free", 4096, 0, 3, "a", "own"),
        ("free", 4096, 2, -1, "y", "output"),
    ]
    told = [
        (one.kind, one.nbytes, one.buffer, one.node, one.value, one.rule) for one in found.of_run(0)
    ]
    assert told == first
    for run in (1, 2):
        assert [
            (one.kind, one.nbytes, one.node, one.value, one.rule) for one in found.of_run(run)
        ] == [
            ("alloc", 8192, -1, "", "pattern"),
            ("alloc", 4096, 3, "y", "output"),
            ("free", 8192, -1, "", "pattern"),
            ("free", 4096, -1, "y", "output"),
        ]
    assert found.of_run(-1) == ()
    assert (found.peak_bytes(0), found.peak_bytes()) == (8192, 12288)
    assert found.version == onnxruntime.__version__
    assert found.notes == ()


@pytest.mark.parametrize(("columns", "packed"), [(128, 64 * 128 * 4), (100, 64 * 112 * 4)])
def test_weights_that_are_packed_are_reserved(columns: int, packed: int) -> None:
    text = '<ir_version: 10, opset_import: ["" : 18]> agraph (float[N,64] x) => (y) { y = MatMul(x, w) }'
    model = weighted(text, w=(64, columns))
    found, _ = trace_model(model, {"x": np.ones((3, 64), np.float32)}, settings=PLAIN)
    assert found.reserved_bytes == packed
    assert found.peak_bytes(0) == packed + 3 * columns * 4


@pytest.mark.parametrize(("name", "optimize"), RESERVED)
def test_reserved_bytes_and_blocks_are_those_that_were_seen(name: str, optimize: str) -> None:
    settings = SessionSettings(optimize=optimize, threads=1)
    found, _ = trace_model(section_model(name), FEEDS[name], settings=settings)
    assert found.reserved_bytes == RESERVED[name, optimize]
    blocks = [one.nbytes for one in found.of_run(1) if one.rule == "pattern"]
    assert blocks == [BLOCKS[name, optimize]] * (2 if BLOCKS[name, optimize] else 0)


def test_scratch_is_told_from_outputs() -> None:
    """A general convolution takes 65,536 bytes of scratch for its one worker."""
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[N,3,H,W] x) => (float[N,8,H,W] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w)  y = Relu(a) }"""
    feeds = {"x": np.ones((2, 3, 32, 32), np.float32)}
    found, _ = trace_model(weighted(text, w=(8, 3, 3, 3)), feeds, settings=PLAIN)
    assert [
        (one.kind, one.nbytes, one.node, one.value)
        for one in found.of_run(0)
        if one.rule == "scratch"
    ] == [("alloc", 65536, 0, ""), ("free", 65536, 0, "")]
    outputs = [one for one in found.of_run(0) if one.rule == "output" and one.kind == "alloc"]
    assert [(one.value, one.nbytes) for one in outputs] == [("y", 2 * 8 * 32 * 32 * 4)]


def test_nodes_and_values_of_random_graphs_are_those_of_the_rules(tmp_path: Path) -> None:
    cases = [random_model(seed) for seed in range(1000, 1120)]
    named = [name_nodes(case.model) for case in cases]
    outputs = [[value.name for value in case.model.graph.output] for case in cases]
    jobs = [
        Job(model.SerializeToString(), [case.feeds] * 2, wanted, PLAIN)
        for (model, _), case, wanted in zip(named, cases, outputs, strict=True)
    ]
    requests = nameless = 0
    for case, (_, places), raw in zip(cases, named, run_jobs(tmp_path, jobs), strict=True):
        assert not raw.error
        nodes = NodeMap(case.model, places, onnx.load(raw.saved))
        told = attribute(raw, nodes)
        events = told.events
        assert told.notes == ()
        plan = plan_allocation(load_model(case.model))
        for number, run in enumerate(runs_events(plan, [(0, sizes_of(plan, case.values))] * 2)):
            expected = [one for one in run.events if one.action is RuntimeEventAction.ALLOCATE]
            found = [one for one in events if one.run == number and one.kind == "alloc"]
            assert [(one.nbytes, one.node, one.rule) for one in found] == [
                (one.nbytes, one.node, one.rule) for one in expected
            ]
            for one, rule in zip(found, expected, strict=True):
                if (
                    one.value != rule.value
                ):  # equal outputs of one node, of which some share a buffer
                    assert one.value == ""
                    assert len(case.model.graph.node[one.node].output) > 1
                    nameless += 1
            requests += len(found)
        assert sum(1 if one.kind == "alloc" else -1 for one in events if one.run >= 0) == 0
    assert requests > 600
    assert nameless < requests / 100


def test_live_bytes_at_each_node_are_those_of_the_runtimes_own_statistics(tmp_path: Path) -> None:
    """A session of the extension module, with its own arena, tells what was requested and not given back."""
    path = packaged_model("magika")
    feeds = {"bytes": np.full((1, 2048), 7, np.int32)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(path, options)
    for _ in range(2):
        session.run(None, feeds)
    profiled = read_profile(Path(session.end_profiling()).read_text())
    if profiled[0].rows[0].memory is None:
        pytest.skip("mem_* fields come with onnxruntime 1.28")
    found, _ = trace_model(path, feeds, settings=PLAIN)
    for number, run in enumerate(profiled):
        live = found.reserved_bytes
        expected: dict[int, int] = {}
        for one in found.of_run(number):
            if one.kind == "alloc":
                live += one.nbytes
                if one.node >= 0:
                    expected[one.node] = live
            else:
                live -= one.nbytes
                if one.rule == "scratch":
                    expected[one.node] = live
        measured = {row.number: row.memory.requested for row in run.rows if row.memory is not None}
        assert {node: measured[node] for node in expected} == expected


def test_runs_of_changing_sizes_and_strings() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]> agraph (string[N] s) => (string[N,1] t) {
        a = StringConcat(s, s)  k = Identity(a)  t = Unsqueeze(k, axis) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axis"))
    runs = [{"s": np.array(["ä" * 40] * size, object)} for size in (3, 5)]
    found, _ = trace_model(model, runs, settings=PLAIN)
    each = 24 if sys.platform == "darwin" else 32
    asked = [
        (one.run, one.value, one.nbytes)
        for one in found.events
        if one.kind == "alloc" and one.run >= 0
    ]
    assert asked == [
        (0, "a", 3 * each),
        (0, "t", 3 * each),
        (1, "a", 5 * each),
        (1, "t", 5 * each),
    ]


def test_runtime_events_carry_the_bytes_that_are_live() -> None:
    found, _ = trace_model(CHAIN, {"x": np.ones((16, 64), np.float32)}, settings=PLAIN)
    events = found.runtime_events()
    assert [one.allocated_bytes for one in events] == [
        *(4096, 8192, 4096, 8192, 4096, 0),
        *(8192, 12288, 4096, 0),
    ]
    assert {one.action for one in events} == {RuntimeEventAction.ALLOCATE, RuntimeEventAction.FREE}
    assert events[0].owner == "a"
    assert events[0].op_type == "Exp"


# what is refused


def test_feeds_that_do_not_fit() -> None:
    with pytest.raises(FeedError, match="is not fed"):
        trace_model(CHAIN, {})
    with pytest.raises(FeedError, match="convert it with astype"):
        trace_model(CHAIN, {"x": np.ones((2, 64), np.int64)})


def test_a_model_that_the_runtime_refuses() -> None:
    text = '<ir_version: 10, opset_import: ["" : 18, "no.such" : 1]> agraph (float[N] x) => (y) { y = no.such.Op(x) }'
    with pytest.raises(ModelError, match=r"refuses the model: .*no\.such"):
        trace_model(text, {"x": np.ones(3, np.float32)})


def test_a_run_that_fails() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[N] x, int64[K] k) => (float[M] y)
        { y = Reshape(x, k) }"""
    feeds = {"x": np.ones(3, np.float32), "k": np.array([4], np.int64)}
    with pytest.raises(OnnxRuntimeError, match=r"run 0 of onnxruntime .* failed: .*Reshape"):
        trace_model(text, feeds)


def test_a_sequence_is_refused_with_what_to_do() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    graph = helper.make_graph(
        [helper.make_node("SequenceLength", ["s"], ["n"])],
        "lengths",
        [helper.make_value_info("s", kind)],
        [helper.make_tensor_value_info("n", 7, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(FeedError, match="a trace takes tensors"):
        trace_model(model, {"s": [np.ones(3, np.float32)]})


@pytest.mark.parametrize(
    ("ending", "shown"), [("kill -SEGV $$", "signal SIGSEGV"), ("exit 3", "exit code 3")]
)
def test_a_child_that_dies_is_told_with_its_last_lines(
    ending: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho the last words >&2\n{ending}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(OnnxRuntimeError, match=rf"died \({shown}\)[\s\S]*the last words"):
        trace_model(CHAIN, {"x": np.ones((2, 64), np.float32)})


def test_too_long_a_run_is_stopped() -> None:
    with pytest.raises(OnnxRuntimeError, match=r"took longer than 0\.01 seconds"):
        trace_model(CHAIN, {"x": np.ones((2, 64), np.float32)}, timeout=0.01)


def test_platforms_and_packages_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(OnnxRuntimeError, match="Linux and macOS, this is win32"):
        c_api.find_library()
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"onnx-notebook-profiler\[onnxruntime\]"):
        c_api.find_library()


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="optimize is one of none, basic"):
        SessionSettings(optimize="most")
    with pytest.raises(ValueError, match="0 or more"):
        SessionSettings(threads=-1)
    assert not issubclass(ValueError, ProfilerError)
