"""account="onnxruntime" against counts by hand, and against what real sessions report of their arena at each node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import ModelProto

import onnx_notebook_profiler as onp
from tests.models import text_model
from tests.ort.random_models import random_model

_HEAD = '<ir_version: 10, opset_import: ["" : 18]> agraph'


def computed(model: ModelProto | str, **options: Any) -> onp.ComputeContext:
    context = onp.ComputeContext(account="onnxruntime", **options)
    context.compute(text_model(f"{_HEAD} {model}") if isinstance(model, str) else model)
    return context


CHAIN = "(float[N,8] x) => (float[N,8] y) { a = Exp(x) b = Abs(a) c = Neg(b) y = Sqrt(c) }"


def test_a_chain_holds_two_buffers_and_its_output() -> None:
    # a; a and b; c in a's place and b; c and y. 32 bytes a row.
    context = computed(CHAIN)
    assert context.totals(N=10).tolist() == [320, 640, 640, 640]
    assert context.io_totals(N=10).tolist() == [0, 0, 0, 320]
    assert str(context.peak.expression) == "64*N"
    assert context.unplanned == ()


def test_in_chunks_each_buffer_is_rounded_up() -> None:
    context = computed(CHAIN, in_chunks=True)
    assert context.totals(N=10).tolist() == [512, 1024, 1024, 1024]
    assert context.totals(N=8).tolist() == [256, 512, 512, 512]
    assert context.memory[0]["total_bytes"] == "256*((7+N)//8)"


def test_totals_stand_at_the_author_s_nodes() -> None:
    # The runtime runs node 1 first: b alone, then a beside it, then y beside both.
    context = computed("(float[N] x) => (float[N] y) { a = Exp(x) b = Abs(x) y = Add(a, b) }")
    assert context.totals(N=1).tolist() == [8, 4, 12]


def test_inputs_weights_and_constants_are_not_counted() -> None:
    context = computed(
        "(float[N] x) => (float[N] y) <float[1] w = {2.0}>"
        " { c = Constant<value_floats = [1.0]>() a = Mul(x, w) y = Add(a, c) }"
    )
    assert context.totals(N=3).tolist() == [0, 12, 24]


def test_strings_are_objects_of_32_bytes() -> None:
    context = computed(
        "(string[N] x) => (string[M] y) { a = Concat<axis = 0>(x, x) y = Identity(a) }"
    )
    assert context.totals(N=3).tolist() == [192, 384]


def test_a_plan_that_is_not_known_is_not_priced() -> None:
    context = computed("(float[N] x) => (float[N] y) { a = Exp(x) y = HardSwish(a) }")
    assert [one.node for one in context.unplanned] == [1]
    assert context.totals(N=3).tolist() == [0, 0]
    assert context.unknown_nodes(N=3).tolist() == [True, True]


def test_chunks_are_those_of_onnxruntime() -> None:
    with pytest.raises(ValueError, match="set account='onnxruntime'"):
        onp.ComputeContext(in_chunks=True)
    with pytest.raises(ValueError, match="'evaluator' or 'onnxruntime', not 'arena'"):
        onp.ComputeContext(account="arena")  # type: ignore[arg-type]


def measured(model: ModelProto, feeds: dict[str, Any], place: Path) -> dict[str, int]:
    """Bytes in use at each node beyond those before the first one, from the profile of a first run."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_profiling = True
    options.profile_file_prefix = str(place / "profile")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    session.run(None, feeds)
    rows = json.loads(Path(session.end_profiling()).read_text())
    found = [row for row in rows if row["cat"] == "Node"]
    names = [row["name"].removesuffix("_kernel_time") for row in found]
    if "mem_requested_in_use_delta" not in found[0]["args"]:
        pytest.skip("this onnxruntime writes no memory into profiles")
    return {
        name: int(row["args"]["mem_bytes_requested_in_use"])
        for name, row in zip(names, found, strict=True)
    } | {"before": _before(found[0]["args"])}


def _before(first: dict[str, str]) -> int:
    return int(first["mem_bytes_requested_in_use"]) - int(first["mem_requested_in_use_delta"])


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_every_node_of_random_graphs_holds_what_the_profile_says(seed: int, tmp_path: Path) -> None:
    case = random_model(seed)
    found = measured(case.model, case.feeds, tmp_path)
    context = computed(case.model)
    assert context.unplanned == ()
    totals = context.totals(N=len(case.feeds["x"]))
    held = {
        node.name: int(total) for node, total in zip(case.model.graph.node, totals, strict=True)
    }
    before = found.pop("before")
    assert held == {name: size - before for name, size in found.items()}
    assert context.peak.evaluate(N=len(case.feeds["x"])) == max(found.values()) - before
