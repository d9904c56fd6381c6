"""Order, plan and events of random graphs against what the real onnxruntime does."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.events import runs_events
from onnx_notebook_profiler.ort.pattern import pattern_key
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation
from tests.ort.predicted import numbered, numbered_trace, sizes_of
from tests.ort.random_models import at_shape, random_model
from tests.ort.traced_runtime import library, trace

GRAPHS = 400

pytestmark = pytest.mark.skipif(library() is None, reason="needs onnxruntime's library on Linux")


def test_order_and_events_of_both_runs_are_the_runtimes(tmp_path: Path) -> None:
    cases = [random_model(seed) for seed in range(GRAPHS)]
    found = trace(tmp_path, [(one.model.SerializeToString(), [one.feeds] * 2) for one in cases])
    rules: set[str] = set()
    wrong: list[tuple[int, str]] = []
    for seed, (case, real) in enumerate(zip(cases, found, strict=True)):
        assert not real.error, (seed, real.error)
        plan = plan_allocation(load_model(case.model))
        assert not plan.unplanned
        rules.update(placement.rule for placement in plan.placements.values())
        names = [case.model.graph.node[index].name for index in plan.order.nodes]
        if names != list(real.order):
            wrong.append((seed, "order"))
        sizes = sizes_of(plan, case.values)
        runs = runs_events(plan, [(0, sizes)] * 2)
        for number, (run, traced) in enumerate(zip(runs, real.runs, strict=True)):
            if numbered(run.events) != numbered_trace(traced):
                wrong.append((seed, f"run {number}"))
    assert wrong == []
    assert rules == {"output", "alias", "in place", "free list", "own"}


SHAPES = [(16, 64), (64, 16), (32, 32), (8, 8), (2, 2), (32, 32), (16, 64), (4, 10)]
"""Keys 80, 80, 0, 0, 0, 0, 80, 14: the second, fourth and fifth run meet a pattern of another shape."""


def test_runs_of_changing_shapes(tmp_path: Path) -> None:
    cases = []
    for seed in range(150):
        runs = [at_shape(seed, shape) for shape in SHAPES]
        cases.append((runs[0].model, runs))
    found = trace(
        tmp_path,
        [(model.SerializeToString(), [one.feeds for one in runs]) for model, runs in cases],
    )
    wrong: list[tuple[int, int]] = []
    for seed, ((model, runs), real) in enumerate(zip(cases, found, strict=True)):
        assert not real.error, (seed, real.error)
        plan = plan_allocation(load_model(model))
        asked = [(pattern_key([one.feeds["x"].shape]), sizes_of(plan, one.values)) for one in runs]
        for number, (run, traced) in enumerate(
            zip(runs_events(plan, asked), real.runs, strict=True)
        ):
            if numbered(run.events) != numbered_trace(traced):
                wrong.append((seed, number))
    assert wrong == []
