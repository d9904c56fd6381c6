"""%onnx_profile, %onnx_explore, %%onnx_model and the extension itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_notebook_profiler import MemoryExplorer, Profile
from tests.models import memory_demo_model, text_model
from tests.notebook.conftest import Shell

NAMES = {
    "line": {"onnx_profile", "onnx_explore", "onnx_arena"},
    "cell": {"onnx_profile", "onnx_model"},
}


def ours(shell: Shell, kind: str) -> set[str]:
    return {name for name in shell.ip.magics_manager.magics[kind] if name.startswith("onnx_")}


def usage_error(shell: Shell, cell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a cell with a usage error prints."""
    capsys.readouterr()
    assert not shell.run(cell).success
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    lines = printed.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("UsageError: ")
    return lines[0]


def test_extension_loads_reloads_and_unloads(shell: Shell) -> None:
    for again in ("%load_ext", "%reload_ext"):
        shell.run(f"{again} onnx_notebook_profiler")
        assert {kind: ours(shell, kind) for kind in NAMES} == NAMES
    shell.run("%unload_ext onnx_notebook_profiler")
    assert {kind: ours(shell, kind) for kind in NAMES} == {"line": set(), "cell": set()}
    shell.run("%load_ext onnx_notebook_profiler")
    assert isinstance(shell.value("%onnx_profile demo"), Profile)


def test_unloading_leaves_a_name_that_somebody_else_took(shell: Shell) -> None:
    shell.ip.register_magic_function(lambda line: 7, "line", "onnx_profile")
    shell.run("%unload_ext onnx_notebook_profiler")
    assert shell.value("%onnx_profile") == 7


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("%onnx_profile?", ["MODEL", "--dims", "--sort {order,time,memory}", "%%onnx_profile -o"]),
        ("%%onnx_profile?", ["MODEL", "--top N", "--times"]),
        ("?%onnx_explore", ["MODEL", "--dims", "--account"]),
        ("%%onnx_model?", ["NAME", "agraph"]),
    ],
)
def test_help(
    shell: Shell, question: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.value(question)
    printed = " ".join(capsys.readouterr().out.split())
    for word in words:
        assert word in printed


def test_profile_is_the_value_of_the_line(shell: Shell) -> None:
    # by hand: z = 4096 B and two = 4 B after Mul, w = 4096 B more after Add; x is the caller's
    prof = shell.value("%onnx_profile mul_add --dims N=1024")
    assert [node.live_bytes for node in prof.nodes] == [4100, 8196]
    assert prof.dims == {"N": 1024}
    assert shell.displayed() == []
    shell.value("prof = %onnx_profile mul_add --dims N=1024")
    assert shell.names["prof"].peak_bytes == 8196


def test_profile_is_bound_and_kept_quiet(shell: Shell) -> None:
    assert shell.value("%onnx_profile mul_add --dims N=2 -o kept").peak_bytes == 20
    assert shell.names["kept"].peak_bytes == 20
    assert shell.value("%onnx_profile mul_add -q --output quiet") is None
    assert shell.names["quiet"].peak_bytes == 12


def test_models_come_from_variables_and_files(shell: Shell) -> None:
    onnx.save(memory_demo_model(), "with space.onnx")
    onnx.save(memory_demo_model(), "plain.onnx")
    shell.run("from onnx_notebook_profiler import ReferenceEvaluator")
    shell.run(
        "session = ReferenceEvaluator(demo); path = 'plain.onnx'; data = demo.SerializeToString()"
    )
    for model in (
        "demo",
        "session",
        "path",
        "data",
        "plain.onnx",
        '"with space.onnx"',
        "'./plain.onnx'",
    ):
        prof = shell.value(f"%onnx_profile {model} --dims N=8")
        assert prof.dims == {"N": 8}
        assert len(prof.nodes) == 5


def test_a_variable_of_a_function_is_found(shell: Shell) -> None:
    shell.value(
        "def run():\n    inner = demo\n    return get_ipython().run_line_magic('onnx_profile', 'inner')"
    )
    assert len(shell.value("run()").nodes) == 5


def test_dimensions_need_not_be_identifiers(shell: Shell) -> None:
    model = memory_demo_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "p2o.DynamicDimension.0"
    shell.names["paddle"] = model
    prof = shell.value("%onnx_profile paddle --dims p2o.DynamicDimension.0=3")
    assert prof.dims == {"p2o.DynamicDimension.0": 3}
    explorer = shell.value('%onnx_explore paddle --dims "p2o.DynamicDimension.0=8"')
    assert explorer.totals.tolist() == [320, 576, 464, 464, 464]


def test_several_dimensions_in_one_option_or_more(shell: Shell) -> None:
    shell.names["two"] = text_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[A] x, float[B] y) => (float[A] u, float[B] v)'
        "{ u = Abs(x) v = Abs(y) }"
    )
    for options in ("--dims A=2 B=3", "--dims A=2 --dims B=3"):
        assert shell.value(f"%onnx_profile two {options}").dims == {"A": 2, "B": 3}


def test_top_sort_and_times_shape_what_is_shown(shell: Shell) -> None:
    plain = shell.value("%onnx_profile demo --dims N=8")
    asked = shell.value("%onnx_profile demo --dims N=8 --top 2 --sort memory --times")
    assert isinstance(asked, Profile)
    assert repr(asked) == asked.to_text(times=True, top=2, sort="memory") != repr(plain)
    assert asked._repr_html_() == asked.to_html(top=2, sort="memory")
    # most live bytes first, by hand: Abs holds S, C, A and W, Concat holds M, C and W
    text = repr(asked).partition("\nNodes\n")[2]
    assert text.index(" Abs ") < text.index(" Concat ")
    assert "more rows" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%onnx_profile", "needs a MODEL"),
        ("%onnx_profile absent", "'absent' is neither a variable nor a file"),
        ("%onnx_profile demo --sort size", "order"),
        ("%onnx_profile demo --top 0", "whole number"),
        ("%onnx_profile demo --top many", "whole number"),
        ("%onnx_profile demo --nonsense", "--nonsense"),
        ("%onnx_profile demo other", "other"),
        ("%onnx_profile demo -o 1x", "'1x'"),
        ("%onnx_profile demo -o for", "'for'"),
        ("%onnx_profile demo --dims N", "NAME=SIZE"),
        ("%onnx_profile demo --dims N=-1", "expected an integer of 0 or more"),
        ("%onnx_profile demo --dims N=1 N=2", "two sizes"),
        ("%onnx_profile demo --dims K=8", "'K'"),
        ("%onnx_profile demo --dims {N}=8", "'{N}'"),
        ("%onnx_profile 'demo", "quote"),
        ("%onnx_profile text", "no model file"),
        ("%onnx_explore", "MODEL"),
        ("%onnx_explore absent", "neither"),
        ("%onnx_explore demo --dims K=8", "'K'"),
        ("%onnx_explore demo --account wrong", "evaluator"),
        ("%%onnx_profile demo\n1", "takes no MODEL, --dims or --feeds"),
        ("%%onnx_profile --sort size\n1", "order"),
        ("%%onnx_model\nagraph () => () {}", "NAME"),
        ("%%onnx_model a.b\nagraph () => () {}", "'a.b'"),
        ("%%onnx_model bad\nno model", "ONNX text"),
        ("%%onnx_model bad\nagraph (float[N] x) => (float[N] y) {", "no ONNX model"),
        ("%%onnx_model bad\nagraph (float[N] x) => (float[N] y) { y = Abs(q) }", "'q'"),
    ],
)
def test_usage_errors_are_one_line(
    shell: Shell, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.names["text"] = "nowhere.onnx"
    assert words in usage_error(shell, line, capsys)
    assert "bad" not in shell.names


def test_a_run_that_fails_shows_how_far_it_came(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.names["clash"] = text_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[A] x, float[B] y) => (float[C] z)'
        "{ u = Abs(x) z = Add(u, y) }"
    )
    assert "Add" in usage_error(shell, "%onnx_profile clash --dims A=2 B=3 -o failed", capsys)
    (shown,) = shell.displayed()
    assert set(shown) == {"text/plain", "text/html"}
    assert [node.op for node in shell.names["failed"].nodes] == ["Abs"]
    assert shell.names["failed"].error


def test_explorer_is_the_value_of_the_line(shell: Shell) -> None:
    explorer = shell.value("%onnx_explore demo --dims N=8 -o mine")
    assert isinstance(explorer, MemoryExplorer)
    assert explorer is shell.names["mine"]
    assert explorer.totals.tolist() == [320, 576, 464, 464, 464]
    assert shell.value("%onnx_explore demo -q") is None
    shell.run(
        "from onnx_notebook_profiler import ReferenceEvaluator\nsession = ReferenceEvaluator(demo)"
    )
    assert shell.value("%onnx_explore session --dims N=8").peak == 576


def test_text_becomes_a_model(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.value("%%onnx_model tiny\nagraph (float[N] x) => (float[N] y) { y = Abs(x) }")
    assert [node.op_type for node in shell.names["tiny"].graph.node] == ["Abs"]
    assert "0: Abs(x) -> y" in capsys.readouterr().out.splitlines()
    whole = '<ir_version: 9, opset_import: ["" : 17]>\nagraph (float[N] x) => (float[N] y) { y = Neg(x) }'
    shell.value(f"%%onnx_model -q tiny\n{whole}")
    assert shell.names["tiny"].ir_version == 9
    assert capsys.readouterr().out == ""


def test_sizes_and_feeds_may_be_variables(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.names["count"] = np.int64(5)
    for written in ("N=count", "N={count}", "N=$count"):
        assert shell.value(f"%onnx_profile demo --dims {written}").dims == {"N": 5}
    shell.names["count"] = 2.5
    assert "or a variable that holds one" in usage_error(
        shell, "%onnx_profile demo --dims N=count", capsys
    )
    shell.names["given"] = {"X": np.zeros((7, 4), np.float32)}
    profile = shell.value("%onnx_profile demo --feeds given")
    assert (profile.dims, profile.generated) == ({"N": 7}, ())
    assert "mapping" in usage_error(shell, "%onnx_profile demo --feeds count", capsys)
    assert "none called" in usage_error(shell, "%onnx_profile demo --feeds nobody", capsys)
