"""What `max_mem` a model needs, by the rules: figures measured on the real runtime, and the words about them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings
from onnx_notebook_profiler.errors import MissingExtraError, ModelError, SizeError
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.planned_session import plan_model
from onnx_notebook_profiler.profile.arena_report import ArenaReport, make_report
from tests.ort.traced_runtime import library

arena_module = importlib.import_module("onnx_notebook_profiler.profile.arena")

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
    assert [found.works(limit) for limit in (0, 1, 20, 31, 32, 33)] == [True] * 4 + [False] * 2
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


# the real runtime


def traced(text: str = CHAIN, dims: Any = None, **options: Any) -> ArenaReport:
    return onp.arena_report(HEAD + text, dims or {"N": 16, "M": 64}, **options)


needs_runtime = pytest.mark.skipif(library() is None, reason="onnxruntime has no library to trace")
MATMUL = """g (float[N,64] x) => (float[N,128] y) <float[64,128] w, float[128] b>
    { a = MatMul(x, w) c = Add(a, b) y = Relu(c) }"""


def with_weights(text: str) -> onnx.ModelProto:
    """The model with numbers for the weights that it declares."""
    model = onnx.parser.parse_model(HEAD + text)
    numbers = np.random.default_rng(0)
    for value in model.graph.value_info:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        data = numbers.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, value.name))
    del model.graph.value_info[:]
    return model


@needs_runtime
@pytest.mark.parametrize("strategy", ["kNextPowerOfTwo", "kSameAsRequested"])
@pytest.mark.parametrize("optimized", [True, False])
def test_the_real_runtime_agrees_to_the_byte(strategy: Any, optimized: bool) -> None:
    found = onp.arena_report(
        with_weights(MATMUL), {"N": 3}, strategy=strategy, optimized=optimized, verify=True
    )
    # Measured with onnxruntime 1.32.0: weights packed into 64 * 128 * 4 bytes, outputs of 1,536.
    expected = {
        (True, "kNextPowerOfTwo"): 34304,
        (True, "kSameAsRequested"): 34304,
        (False, "kNextPowerOfTwo"): 38912,
        (False, "kSameAsRequested"): 35840,
    }
    assert found.session.reserved_bytes == 32768
    assert found.least_max_mem == expected[optimized, strategy]
    assert found.verified is not None
    assert found.verified.disagreed == ()
    assert len(found.verified.trials) >= 4
    assert "limits as predicted by onnxruntime" in found.to_text()


@needs_runtime
def test_a_trace_and_the_rules_say_the_same() -> None:
    for sizes in ({"N": 16, "M": 64}, {"N": 3, "M": 5}):
        by_rules = traced(dims=sizes, source="rules", optimized=False)
        by_trace = traced(dims=sizes, source="trace", optimized=False)
        assert by_trace.limits_by_runs == by_rules.limits_by_runs
        assert [run.block is not None for run in by_trace.session.runs] == [False, True, True]


@needs_runtime
def test_scratch_is_traced() -> None:
    """A convolution of the general kind takes 65,536 bytes while it runs; the rules do not know it."""
    text = """g (float[1,3,H,W] x) => (float[1,8,H,W] y) <float[8,3,3,3] w, float[8] b>
        { a = Conv<pads = [1, 1, 1, 1]>(x, w, b) y = Relu(a) }"""
    found = onp.arena_report(
        with_weights(text), {"H": 32, "W": 32}, optimized=False, verify=True, runs=2
    )
    scratch = [event for event in found.session.runs[0].events if event.rule == "scratch"]
    assert scratch[0].nbytes == 65536
    assert scratch[0].node == 0
    assert found.verified is not None
    assert found.verified.disagreed == ()


@needs_runtime
def test_branches_and_loops_are_traced() -> None:
    text = """g (float[N,64] x) => (float[N,64] y) <int64 trips = {3}> {
        a = Exp(x)
        b = Loop (trips, , a) <body = l (int64 i, bool go, float[N,64] s) => (bool on, float[N,64] n) {
            on = Identity(go)  t = Mul(s, s)  n = Sqrt(t) }>
        y = Neg(b) }"""
    found = onp.arena_report(HEAD + text, {"N": 16}, verify=True)
    assert found.verified is not None
    assert found.verified.disagreed == ()
    labels = {
        found.source.labels[event.node] for event in found.session.runs[0].events if event.node >= 0
    }
    assert any("in a body of node 1" in label for label in labels)


@needs_runtime
def test_runs_of_changing_sizes_share_a_key_in_the_real_runtime_too() -> None:
    sizes = [{"N": 32, "M": 32}, {"N": 8, "M": 8}, {"N": 32, "M": 32}, {"N": 5, "M": 64}]
    found = traced(dims=sizes, optimized=False, verify=True)
    assert found.collisions == ((sizes[0], sizes[1]),)
    assert found.verified is not None
    assert found.verified.disagreed == ()
    assert (
        found.limits_by_runs == traced(dims=sizes, optimized=False, source="rules").limits_by_runs
    )


@needs_runtime
def test_other_sizes_are_traced_together() -> None:
    found = traced()
    swept = found.over("N", 1, 64, points=4)
    assert (swept.sizes, swept.all_runs) == ((1, 4, 16, 64), (1024, 4096, 16384, 65536))


@needs_runtime
def test_a_model_that_the_runtime_refuses() -> None:
    text = '<ir_version: 10, opset_import: ["" : 18, "no.such" : 1]> g (float[N] x) => (y) { y = no.such.Op(x) }'
    with pytest.raises(ModelError, match="refuses the model"):
        onp.arena_report(text, {"N": 2})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dims": {"K": 2}}, "no symbolic dimension 'K': it has N, M"),
        ({"dims": []}, "it holds none"),
        ({"runs": 0}, "1 or more, not 0"),
        ({"max_mem": -5}, "max_mem is a number of bytes"),
        ({"no_such_bytes": 4}, "an arena has no setting 'no_such_bytes'"),
        ({"source": "rules"}, "Give optimized=False"),
    ],
)
def test_calls_that_are_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SizeError, match=re.escape(words)):
        onp.arena_report(HEAD + CHAIN, **options)
    with pytest.raises(ValueError, match="source is"):
        onp.arena_report(HEAD + CHAIN, source="guess")  # type: ignore[arg-type]


def test_without_onnxruntime_the_optimized_graph_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> Path:
        raise MissingExtraError("a trace needs onnxruntime, which is not installed")

    monkeypatch.setattr(arena_module, "find_library", missing)
    with pytest.raises(MissingExtraError):
        traced()
    assert traced(optimized=False).least_max_mem == 16384
