"""What `max_mem` a model needs, by the rules: figures measured on the real runtime, and the words about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings
from onnx_notebook_profiler.errors import ModelError, SizeError
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.planned_session import plan_model
from onnx_notebook_profiler.profile.arena_report import ArenaReport, make_report

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
CHAIN = "g (float[N,M] x) => (float[N,M] y) { a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c) }"


def report(
    text: str = CHAIN,
    sizes: Sequence[Mapping[str, int]] = ({"N": 16, "M": 64},) * 3,
    *,
    pattern: bool = True,
    **settings: Any,
) -> ArenaReport:
    return make_report(
        "chain",
        plan_model(load_model(HEAD + text)),
        sizes,
        ArenaSettings.checked(**settings),
        lambda _: {},
        pattern=pattern,
        optimized=False,
    )


def test_figures_of_the_real_runtime() -> None:
    """Measured with onnxruntime 1.32.0: 8,192 for one run, 16,384 for three; 8,192 with the other strategy."""
    found = report()
    assert found.first_run.least == 8192
    assert found.least_max_mem == 16384
    assert [str(one) for one in found.working] == ["16,384 and more"]
    assert [found.works(limit) for limit in (0, 8192, 16383, 16384)] == [True, False, False, True]
    assert report(arena_extend_strategy="kSameAsRequested").least_max_mem == 8192
    assert report(pattern=False).least_max_mem == 8192


def test_the_failing_request() -> None:
    moment = report(max_mem=8192).at()
    assert not moment.works
    refusal = moment.refusal
    assert refusal is not None
    assert (refusal.run, refusal.event.node, refusal.event.value) == (1, 3, "y")
    assert [(one.size, one.used) for one in moment.regions] == [(8192, 8192)]
    assert report().at(16384).works
    assert report().at().max_mem == 16384


def test_the_report_says_it() -> None:
    text = report(max_mem=8192).to_text()
    assert "max_mem of at least 16,384 bytes (16.0 KiB) and more works for 3 runs" in text
    assert "a single run needs 8,192" in text
    words = " ".join(text.split())
    assert "max_mem=8,192 fails in run 2 at node 3 Sqrt, value 'y' of 4,096 bytes" in words
    assert "kSameAsRequested needs 8,192 B less." in words
    assert "From 8,192 to 16,383 bytes a first run can work and a later one fail" in words
    html = report(max_mem=8192).to_html()
    assert html.count("onp-bars-image") == 3
    assert text == report(max_mem=8192).to_text()


def test_kept_results_hold_memory() -> None:
    found = report()
    # Two more results of 4,096 bytes, beside what three runs need.
    assert found.least_with_kept_results == 16384 + 2 * 4096
    assert any("24,576 bytes are needed" in one for one in found.warnings)


def test_runs_that_share_a_key() -> None:
    """[16, 64] and [64, 16] leave one pattern; all squares do, too."""
    sizes = ({"N": 32, "M": 32}, {"N": 8, "M": 8})
    found = report(sizes=sizes)
    assert found.collisions == (sizes,)
    words = " ".join(found.warnings)
    assert "Runs of N=32, M=32 and of N=8, M=8 share one memory pattern" in words
    # The block of 8,192 and an input of [8, 8]: buffers of 256 each beside it.
    arena = onp.BFCArena()
    held = sum(event.nbytes for event in (found.session.runs[1].block or ())[:1])
    assert held == 8192
    assert arena.statistics().in_use == 0
    assert report(sizes=({"N": 16, "M": 64}, {"N": 64, "M": 16})).collisions != ()
    assert report(sizes=({"N": 16, "M": 64}, {"N": 17, "M": 64})).collisions == ()
    assert report(sizes=sizes, pattern=False).collisions == ()


def test_a_void_limit_is_warned_of() -> None:
    text = """g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}, float[4] v = {1, 2, 3, 4}>
        { a = Mul(x, w) y = Add(a, v) }"""
    found = report(text, [{"N": 1}], max_mem=20)
    assert found.session.reserved_bytes == 32
    assert found.works(20)
    assert not found.works(33)
    assert "more than max_mem=20: the limit is void" in " ".join(found.warnings)


def test_other_sizes() -> None:
    found = report(sizes=({"N": 16, "M": 64},) * 2)
    swept = found.over("N", 1, 64, points=4)
    assert swept.sizes == (1, 4, 16, 64)
    # A buffer of one row is 256 bytes; two of them, and twice the block of two.
    assert swept.first_run == (512, 2048, 8192, 32768)
    assert swept.all_runs == (1024, 4096, 16384, 65536)
    assert dict(swept)[16] == 16384
    assert "64.0 KiB at N=64" in repr(swept)
    assert "<img" in swept._repr_html_()
    assert found.over("N", 3, 5).sizes == (3, 4, 5)
    assert found.largest("N", 16384) == 16
    assert found.largest("N", 1023) is None
    assert found.largest("N", 0, at_most=9) == 9


def test_the_largest_size_is_not_bisected() -> None:
    """A size works where its chunk is split: every size up to the answer and beyond it is tried one by one."""
    found = report(sizes=({"N": 1, "M": 64},), pattern=False)
    tried = [size for size in range(1, 200) if found.resized({"N": size, "M": 64}).at(20_000).works]
    assert found.largest("N", 20_000, at_most=199) == max(tried)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda one: one.works(-1), "max_mem is a number of bytes"),
        (lambda one: one.at(True), "max_mem is a number of bytes"),
        (lambda one: one.over("K", 1, 2), "no symbolic dimension 'K': it has N, M"),
        (lambda one: one.over("N", 5, 2), "not 5 to 2"),
        (lambda one: one.over("N", 1, 99, points=1), "2 points or more"),
        (lambda one: one.largest("K", 100), "no symbolic dimension 'K'"),
    ],
)
def test_questions_that_are_none(call: Any, words: str) -> None:
    with pytest.raises(SizeError, match=re.escape(words)):
        call(report())


def test_a_model_that_is_not_planned_says_where() -> None:
    text = """g (float[N] x, bool c) => (float[N] y) {
        y = If (c) <then_branch = t () => (float[N] p) { p = Abs(x) },
                    else_branch = e () => (float[N] q) { q = Neg(x) }> }"""
    with pytest.raises(ModelError, match="not known at 1 of its 1 nodes; the first is node 0"):
        plan_model(load_model(HEAD + text))


def test_a_size_that_data_decides() -> None:
    text = "g (float[N] x) => (int64[1,K] y) { a = Exp(x) y = NonZero(a) }"
    with pytest.raises(SizeError, match="data decides the size of 'y'"):
        report(text, [{"N": 4}])
