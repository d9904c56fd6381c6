"""%%onnx_profile: the cell runs as ever, and its runs are shown."""

from __future__ import annotations

import textwrap

import pytest

from onnx_notebook_profiler import Profile
from onnx_notebook_profiler.evaluator.observe import current_observers
from tests.notebook.conftest import Shell

SETUP = """
import numpy as np
from onnx_notebook_profiler import ReferenceEvaluator
def feeds(n): return {"x": np.ones(n, np.float32)}
session, other = ReferenceEvaluator(mul_add), ReferenceEvaluator(mul_add)
"""


@pytest.fixture
def ready(shell: Shell, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell.value(SETUP)
    capsys.readouterr()
    return shell


def peak(n: int) -> int:
    """Of mul_add at N = *n*, by hand: `two`, `z` and `w` are alive at the last node."""
    return 4 + 4 * n + 4 * n


def profiled(code: str, options: str = "") -> str:
    return f"%%onnx_profile {options}\n{textwrap.dedent(code)}"


def test_run_is_shown_and_the_value_stays(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    value = ready.value(profiled("print('hi')\nout = session.run(None, feeds(3))\nout[0][0]"))
    assert value == 3.0
    assert ready.names["_"] == 3.0
    assert ready.names["out"][0].tolist() == [3.0] * 3
    assert capsys.readouterr().out.startswith("hi\n")
    (shown,) = ready.displayed()
    assert set(shown) == {"text/plain", "text/html"}
    assert "Add" in shown["text/plain"]
    assert "<table" in shown["text/html"]


def test_values_are_silenced_as_ever(ready: Shell) -> None:
    assert ready.value(profiled("session.run(None, feeds(1));")) is None
    assert ready.value(profiled("out = session.run(None, feeds(1))")) is None
    assert len(ready.displayed()) == 2


@pytest.mark.parametrize(
    ("mode", "cell", "value", "printed"),
    [
        ("none", "1\n2", None, ""),
        ("last_expr", "1\n2", 2, ""),
        ("last_expr_or_assign", "1\na = 5", 5, ""),
        ("last_expr_or_assign", "1\na: int = 6", 6, ""),
        ("all", "1\nb = 3\n2", 2, "1"),
    ],
)
def test_ipythons_choice_of_what_is_shown_holds(
    ready: Shell,
    mode: str,
    cell: str,
    value: object,
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ready.ip.ast_node_interactivity = mode
    capsys.readouterr()
    with_run = f"out = session.run(None, feeds(1))\n{cell}"
    if mode == "none":
        ready.run(profiled(with_run, "-o p"))
        assert ready.names["p"].peak_bytes == peak(1)
        return
    assert ready.run(profiled(with_run)).result == value
    out = capsys.readouterr().out
    assert printed in out


def test_bound_profile(ready: Shell) -> None:
    ready.value(profiled("session.run(None, feeds(5))", "-o prof"))
    assert isinstance(ready.names["prof"], Profile)
    assert ready.names["prof"].peak_bytes == peak(5)
    assert len(ready.displayed()) == 1


def test_quiet(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert ready.value(profiled("session.run(None, feeds(5))\n7", "-q -o prof")) == 7
    assert ready.names["prof"].peak_bytes == peak(5)
    assert ready.displayed() == []
    assert "onnx_profile" not in capsys.readouterr().out


def test_two_sessions_are_shown_apart(ready: Shell) -> None:
    ready.value(profiled("session.run(None, feeds(2))\nother.run(None, feeds(9));", "-o both"))
    assert [prof.peak_bytes for prof in ready.names["both"]] == [peak(2), peak(9)]
    first, second = ready.displayed()
    assert "(N=2)" in first["text/plain"]
    assert "(N=9)" in second["text/plain"]


def test_runs_of_one_session_show_the_highest_peak(
    ready: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    ready.value(profiled("for n in (2, 7, 7, 3): session.run(None, feeds(n))", "-o several"))
    assert [prof.peak_bytes for prof in ready.names["several"]] == [peak(2), peak(7), peak(3)]
    (shown,) = ready.displayed()
    assert "(N=7)" in shown["text/plain"]
    assert "4 runs of this session on 3 kinds of feeds" in capsys.readouterr().out


def test_equal_runs_count_as_one(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    ready.value(profiled("for _ in range(3): session.run(None, feeds(4))", "-o prof"))
    assert ready.names["prof"].peak_bytes == peak(4)
    assert len(ready.displayed()) == 1
    assert "3 runs of this session on feeds of equal shapes" in capsys.readouterr().out


def test_the_next_cell_is_not_watched(ready: Shell) -> None:
    ready.value(profiled("session.run(None, feeds(4));"))
    ready.displayed()
    ready.value("session.run(None, feeds(4))")
    assert ready.displayed() == []
    assert session_is_as_before(ready)


def session_is_as_before(ready: Shell) -> bool:
    session = ready.names["session"]
    return not session.events_enabled and session.events() == [] and session.allocator is None


def test_a_cell_that_raises(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    done = ready.run(profiled("out = session.run(None, feeds(6))\n\n1 / 0\nlate = 1", "-o prof"))
    assert isinstance(done.error_in_exec, ZeroDivisionError)
    assert ready.names["prof"].peak_bytes == peak(6)
    assert len(ready.displayed()) == 1
    assert current_observers() == ()
    assert "late" not in ready.names
    printed = capsys.readouterr().out
    assert "ZeroDivisionError" in printed
    # lines are counted from the magic's own
    assert done.error_in_exec.__traceback__ is not None
    last = done.error_in_exec.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    assert last.tb_lineno == 4


def test_a_run_that_fails(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    ready.value(
        "%%onnx_model -q clash\n"
        "agraph (float[A] x, float[B] y) => (float[C] z) { u = Abs(x) z = Add(u, y) }"
    )
    code = """
        clashing = ReferenceEvaluator(clash)
        clashing.run(None, {"x": np.ones(2, np.float32), "y": np.ones(1, np.float32)})
        clashing.run(None, {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)})
    """
    done = ready.run(profiled(code))
    assert type(done.error_in_exec).__name__ == "KernelError"
    (shown,) = ready.displayed()
    assert "failed" in shown["text/plain"]
    assert "shown is the one that failed" in capsys.readouterr().out


def test_no_run(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert ready.value(profiled("41 + 1", "-o nothing")) == 42
    printed = [line for line in capsys.readouterr().out.splitlines() if "onnx_profile" in line]
    assert len(printed) == 1
    assert "no onnx_notebook_profiler.ReferenceEvaluator" in printed[0]
    assert "nothing" not in ready.names
    assert ready.displayed() == []
    ready.value(profiled("1", "-q"))
    assert "onnx_profile" not in capsys.readouterr().out
    ready.run(profiled("1 / 0"))
    assert "nothing to show" not in capsys.readouterr().out


def test_code_that_is_no_plain_python(ready: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    ready.value(
        profiled(
            "names = !echo one\n%onnx_profile demo -q -o inner\nx = session.run(None, feeds(1))",
            "-o outer",
        )
    )
    assert list(ready.names["names"]) == ["one"]
    assert len(ready.names["inner"].nodes) == 5
    assert len(ready.names["outer"]) == 2  # the run of the inner magic is one of the cell
    assert ready.names["outer"][1].peak_bytes == peak(1)
    done = ready.run(profiled("def f(:\n    pass"))
    assert isinstance(done.error_in_exec, SyntaxError)
    capsys.readouterr()
    ready.run(profiled("import asyncio\nawait asyncio.sleep(0)"))
    assert capsys.readouterr().err.startswith("UsageError: %%onnx_profile cannot await")


def test_top_and_sort_reach_the_display(ready: Shell) -> None:
    ready.value(profiled("session.run(None, feeds(1));", "--top 1 --sort memory -o prof"))
    (shown,) = ready.displayed()
    assert shown["text/plain"] == ready.names["prof"].to_text(top=1, sort="memory")
