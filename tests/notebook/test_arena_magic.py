"""%onnx_arena: the report as the value of a line, its options and what it refuses."""

from __future__ import annotations

import pytest

from onnx_notebook_profiler import ArenaReport
from tests.notebook.conftest import Shell
from tests.notebook.test_line_magics import usage_error

CHAIN = """
%%onnx_model chain -q
agraph (float[N,64] x) => (float[N,64] y) { a = Exp(x)  b = Abs(a)  c = Neg(b)  y = Sqrt(c) }
""".strip()
RULES = "--source rules --no-optimize"


def test_the_report_is_the_value_of_the_line(shell: Shell) -> None:
    shell.run(CHAIN)
    report = shell.value(f"%onnx_arena chain --dims N=16 --max-mem 8KiB {RULES}")
    assert isinstance(report, ArenaReport)
    assert (report.least_max_mem, report.first_run.least) == (16384, 8192)
    assert report.settings.max_mem == 8192
    assert "fails in run 2" in repr(report)
    assert "<img" in report._repr_html_()


def test_options_change_the_question(shell: Shell) -> None:
    shell.run(CHAIN)
    for options, least in (
        ("--no-pattern", 8192),
        ("--strategy kSameAsRequested", 8192),
        ("--runs 1", 8192),
        ("--runs 5", 16384),
    ):
        line = f"%onnx_arena chain --dims N=16 {RULES} {options} -q -o kept"
        assert shell.value(line) is None
        assert shell.names["kept"].least_max_mem == least


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%onnx_arena", "MODEL"),
        ("%onnx_arena chain --max-mem lots", "a budget is a number of bytes"),
        ("%onnx_arena chain --dims K=2", "no symbolic dimension 'K'"),
        ("%onnx_arena chain --source rules", "Give optimized=False"),
        ("%onnx_arena nothing_of_that_name", "nothing_of_that_name"),
    ],
)
def test_what_it_refuses(
    shell: Shell, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run(CHAIN)
    assert words in usage_error(shell, line, capsys)
