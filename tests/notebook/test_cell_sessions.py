"""%%onnx_profile on cells that make and run sessions of onnxruntime, as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_notebook_profiler import Profile
from tests.notebook.conftest import Shell
from tests.notebook.test_cell_magic import profiled
from tests.ort.section_models import FEEDS, section_model

METHODS = ("__init__", "run", "run_with_ort_values", "run_with_iobinding")
NEW = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 28)


def class_as_it_is() -> dict[str, Any]:
    kind = onnxruntime.InferenceSession
    return {name: (getattr(kind, name), name in vars(kind)) for name in METHODS}


@pytest.fixture
def ready(shell: Shell) -> Iterator[Shell]:
    """The class must be what it was before, whatever the test did."""
    before = class_as_it_is()
    shell.names["gemm"] = section_model("gemm").SerializeToString()
    shell.names["feeds"] = FEEDS["gemm"]
    shell.value(
        "import numpy as np\nimport onnxruntime as ort\nfrom onnxruntime import InferenceSession"
    )
    yield shell
    assert class_as_it_is() == before


def test_a_session_that_the_cell_makes(ready: Shell, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    code = """
        session = InferenceSession(gemm, providers=["CPUExecutionProvider"])
        for _ in range(2):
            out = session.run(None, feeds)
        out[0].shape
    """
    assert ready.value(profiled(code, "-o prof")) == (3, 32)
    (shown,) = ready.displayed()
    assert "nodes 0, 1" in shown["text/plain"]
    prof = ready.names["prof"]
    assert isinstance(prof, Profile)
    assert prof.dims == {"N": 3}
    assert len(prof.measured_runs) == 2
    assert prof.backend.startswith("onnxruntime 1.")
    if NEW:  # 98,304 reserved, a block of 3,584, the output, and that of the first run, which `out` still holds
        assert prof.peak_bytes == 102272 + 384
    said = capfd.readouterr()
    assert "onnxruntime" not in said.err
    assert "onnx_profile" not in said.out
    assert list(Path.cwd().iterdir()) == []


def test_nothing_of_the_users_is_changed(ready: Shell) -> None:
    code = """
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(gemm, sess_options=options, providers=["CPUExecutionProvider"])
        out = session.run(["y"], input_feed=feeds)
        kept = (options.enable_profiling, options.profile_file_prefix, options.optimized_model_filepath)
    """
    ready.value(profiled(code, "-o prof"))
    fresh = onnxruntime.SessionOptions()
    assert ready.names["kept"] == (
        fresh.enable_profiling,
        fresh.profile_file_prefix,
        fresh.optimized_model_filepath,
    )
    session = ready.names["session"]
    assert session._model_bytes is ready.names["gemm"]
    assert session._model_path is None
    assert session._sess_options_initial is ready.names["options"]
    assert [node.stands_for for node in ready.names["prof"].nodes] == [(0,), (1,), (2,), (3,)]
    expected = onnxruntime.InferenceSession(ready.names["gemm"]).run(None, FEEDS["gemm"])
    assert np.array_equal(ready.names["out"][0], expected[0])
    again = session.run(None, FEEDS["gemm"])  # it still works
    assert np.array_equal(again[0], expected[0])


def test_a_session_from_a_file_with_names(ready: Shell, tmp_path: Path) -> None:
    model = section_model("gemm")
    for index, node in enumerate(model.graph.node):
        node.name = f"layer {index}"
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    ready.names["path"] = path
    ready.value(profiled("out = InferenceSession(path).run(None, feeds)", "-o prof"))
    prof = ready.names["prof"]
    assert prof.model_name == "net"
    assert [(node.name, node.stands_for) for node in prof.nodes] == [
        ("layer 1", (0, 1)),
        ("layer 2", (2,)),
        ("layer 3", (3,)),
    ]


def test_a_session_made_before_has_a_shadow(ready: Shell) -> None:
    ready.value("session = InferenceSession(gemm)")
    ready.value(profiled("out = session.run(None, feeds)", "-o prof"))
    prof = ready.names["prof"]
    assert "shadow session of the same model" in prof.notes[0]
    assert "it was made before" in prof.notes[0]
    assert [node.stands_for[-1] for node in prof.nodes][-1] == 3
    assert "shadow session" in prof.to_text().replace("\n", " ")


def test_a_session_that_profiles_itself_keeps_its_file(ready: Shell) -> None:
    code = """
        options = ort.SessionOptions()
        options.enable_profiling = True
        session = InferenceSession(gemm, options)
        out = session.run(None, feeds)
        mine = session.end_profiling()
    """
    ready.value(profiled(code, "-o prof"))
    assert Path(ready.names["mine"]).exists()
    assert "it writes a profile of its own" in ready.names["prof"].notes[0]


def test_wall_time_alone(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """A session made before that was not called by `run`: what it was fed is not known."""
    code = """
        binding = session.io_binding()
        binding.bind_cpu_input("x", feeds["x"])
        binding.bind_output("y")
        session.run_with_iobinding(binding)
    """
    ready.value("session = InferenceSession(gemm)")
    capsys.readouterr()
    ready.value(profiled(code))
    said = capsys.readouterr().out
    assert said.startswith(
        "onnx_profile: one run of an onnxruntime.InferenceSession, the last one in"
    )
    assert "what it was fed in its last run is not known" in said
    assert ready.displayed() == []


def test_runs_by_other_methods_of_a_new_session(ready: Shell) -> None:
    code = """
        session = InferenceSession(gemm)
        binding = session.io_binding()
        binding.bind_cpu_input("x", feeds["x"])
        binding.bind_output("y")
        session.run_with_iobinding(binding)
    """
    ready.value(profiled(code, "-o prof"))
    assert len(ready.names["prof"].nodes) == 3


def test_sessions_that_are_gone_when_the_cell_ends(ready: Shell) -> None:
    code = """
        def once(): return InferenceSession(gemm).run(None, feeds)[0].copy()
        a, b = once(), once()
    """
    ready.value(profiled(code, "-o found"))
    assert len(ready.names["found"]) == 2
    assert all(len(prof.nodes) == 3 for prof in ready.names["found"])


def test_a_cell_that_raises(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        session = InferenceSession(gemm)
        out = session.run(None, feeds)
        session.run(None, {"x": np.ones((3, 7), np.float32)})
    """
    done = ready.run(profiled(code, "-o prof"))
    assert not done.success
    assert type(done.error_in_exec).__name__ == "InvalidArgument"
    prof = ready.names["prof"]
    assert len(prof.nodes) == 3
    assert prof.error.startswith("InvalidArgument")


def test_a_model_that_is_refused_raises_as_ever(ready: Shell) -> None:
    done = ready.run(profiled("InferenceSession(b'no model')"))
    with pytest.raises(Exception, match="protobuf") as plain:
        onnxruntime.InferenceSession(b"no model")
    assert type(done.error_in_exec) is type(plain.value)
    done = ready.run(profiled("InferenceSession()"))
    assert isinstance(done.error_in_exec, TypeError)


def test_both_kinds_in_one_cell(ready: Shell) -> None:
    code = """
        from onnx_notebook_profiler import ReferenceEvaluator
        ReferenceEvaluator(gemm).run(None, feeds)
        out = InferenceSession(gemm).run(None, feeds)
    """
    ready.value(profiled(code, "-o found"))
    assert [prof.backend.split()[0] for prof in ready.names["found"]] == [
        "reference",
        "onnxruntime",
    ]


def test_sessions_of_this_package_are_not_shown(ready: Shell) -> None:
    code = """
        import onnx_notebook_profiler as onp
        inner = onp.profile(gemm, feeds, backend="onnxruntime")
        out = onp.ReferenceEvaluator(mul_add, kernels="onnxruntime").run(None, {"x": np.ones(2, np.float32)})
    """
    ready.value(profiled(code, "-o prof"))
    assert ready.names["prof"].backend == "reference"


def test_subclasses_and_nodes_without_names(ready: Shell) -> None:
    """Of three nameless Exp nodes each is found again."""
    text = """<ir_version: 10, opset_import: ["" : 18]> agraph (float[4] x) => (float[4] y) {
        a = Exp(x) b = Exp(a) y = Exp(b) }"""
    ready.names["chain"] = onnx.parser.parse_model(text).SerializeToString()
    code = """
        class Mine(InferenceSession):
            def __init__(self, model): super().__init__(model, providers=["CPUExecutionProvider"])
        out = Mine(chain).run(None, {"x": np.zeros(4, np.float32)})
    """
    ready.value(profiled(code, "-o prof"))
    assert [node.stands_for for node in ready.names["prof"].nodes] == [(0,), (1,), (2,)]


def test_the_line_magic(ready: Shell) -> None:
    ready.value("%onnx_profile gemm --dims N=3 --backend onnxruntime -o prof -q")
    assert [node.stands_for for node in ready.names["prof"].nodes] == [(0, 1), (2,), (3,)]
