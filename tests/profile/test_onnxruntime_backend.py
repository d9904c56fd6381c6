"""profile(backend="onnxruntime"): one result, whoever runs the model."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.ort.settings import SessionSettings
from tests.ort.section_models import FEEDS, section_model
from tests.ort.traced_runtime import library

NEW = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 28)
needs_bytes = pytest.mark.skipif(not NEW, reason="mem_* fields come with onnxruntime 1.28")
needs_library = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")

PLAIN = SessionSettings(optimize="none", threads=1)


@needs_bytes
def test_rows_are_of_the_last_run_and_the_first_is_there_too() -> None:
    """98,304 reserved; first run 3,072 and twice 384; later a block of 3,584 and an output of 384."""
    found = onp.profile(section_model("gemm"), FEEDS["gemm"], backend="onnxruntime", settings=PLAIN)
    assert [node.op for node in found.nodes] == ["Gemm", "Relu", "Gemm", "Softmax"]
    assert [node.live_bytes for node in found.nodes] == [101888, 101888, 101888, 102272]
    first = [node.live_bytes for node in found.measured_runs[0].nodes]
    assert first == [98304 + 3072, 98304 + 3072, 98304 + 3456, 98304 + 768]
    assert [node.output_bytes for node in found.nodes] == [3072, 3072, 384, 384]
    assert found.peak_bytes == 102272
    assert (found.peak_node, found.peak_label) == (3, "node 3 Softmax")
    assert found.backend == f"onnxruntime {onnxruntime.__version__}"
    assert found.dims == {"N": 3}
    assert found.total_ns == sum(node.time_ns for node in found.nodes)
    text = found.to_text()
    assert "run 1: 101,760 B, run 3: 102,272 B" in text.replace("\n", " ")
    assert "predicted" not in text
    assert json.loads(found.to_json())["nodes"][3]["stands_for"] == [3]
    assert found.to_pandas()["live_bytes"].tolist() == [101888, 101888, 101888, 102272]


def test_fused_nodes_say_what_they_stand_for() -> None:
    found = onp.profile(section_model("gemm"), dims={"N": 3}, backend="onnxruntime")
    assert [(node.index, node.stands_for, node.mapping) for node in found.nodes] == [
        (1, (0, 1), "fused"),
        (2, (2,), "same"),
        (3, (3,), "same"),
    ]
    assert found.generated == ("x",)
    assert "nodes 0, 1" in found.to_text()
    assert "nodes 0, 1" in found.to_html()
    assert "3 nodes ran for 4 of the model" in found.to_text()


@needs_library
def test_a_trace_gives_buffers_scratch_and_requests() -> None:
    found = onp.profile(
        section_model("conv"),
        FEEDS["conv"],
        backend="onnxruntime",
        trace=True,
        runs=1,
        settings=PLAIN,
    )
    assert found.trace is not None
    assert [node.scratch_bytes for node in found.nodes] == [65536, 0, 65536, 0]
    assert [node.live_bytes for node in found.nodes] == [131168, 131168, 147552, 16544]
    assert [node.io_bytes for node in found.nodes] == [0, 0, 0, 64]
    assert [(one.name, one.nbytes, one.account, one.node_index) for one in found.live_at_peak] == [
        ("a", 131072, "execution", 0),
        ("c", 16384, "execution", 2),
        ("(reserved weight)", 64, "initializer", -1),
        ("(reserved weight)", 32, "initializer", -1),
    ]
    assert sum(one.nbytes for one in found.live_at_peak) == found.peak_bytes == 147552
    kinds = [event.action for event in found.events]
    assert kinds.count(RuntimeEventAction.RUN_NODE) == 4
    assert kinds.count(RuntimeEventAction.ALLOCATE) == kinds.count(RuntimeEventAction.FREE) == 5
    times = [event.timestamp_ns for event in found.events]
    assert times == sorted(times)


@needs_library
def test_a_trace_of_later_runs_shows_the_patterns_block() -> None:
    found = onp.profile(
        section_model("conv"), FEEDS["conv"], backend="onnxruntime", trace=True, settings=PLAIN
    )
    assert found.live_at_peak[0].name == "(block of the memory pattern)"
    assert found.live_at_peak[0].nbytes == 147456
    assert sum(one.nbytes for one in found.live_at_peak) == found.peak_bytes


def test_wrong_calls() -> None:
    model = section_model("gemm")
    with pytest.raises(ValueError, match="'reference' or 'onnxruntime', not 'tensorrt'"):
        onp.profile(model, FEEDS["gemm"], backend="tensorrt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="trace=True is for backend='onnxruntime'"):
        onp.profile(model, FEEDS["gemm"], trace=True)
    with pytest.raises(onp.FeedError):
        onp.profile(model, {"x": np.ones((3, 7), np.float32)}, backend="onnxruntime")


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(onp.MissingExtraError, match=r"onnx-notebook-profiler\[onnxruntime\]"):
        onp.profile(section_model("gemm"), FEEDS["gemm"], backend="onnxruntime")
