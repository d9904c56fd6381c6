"""`onp.profile`: rows, totals, peak, bodies, feeds, failures, and who owns the allocators."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.evaluator.observe import RunRecord, observing
from onnx_notebook_profiler.profile.profile import profile_run
from onnx_notebook_profiler.profile.result import LiveBuffer, Profile
from tests.models import memory_demo_model, mul_add_model, packaged_model
from tests.symbolic.rows import graph

RUN_NODE = onp.RuntimeEventAction.RUN_NODE

LOOP = (
    "g (float[2] x, int64 n, bool c) => (float[2] y) { y0 = Abs(x) y = Loop(n, c, y0) <"
    "body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] v3) "
    "{ k2 = Identity(k) v2 = Neg(v) v3 = Exp(v2) }> }"
)


def live_sum(profile: Profile) -> int:
    return sum(buffer.nbytes for buffer in profile.live_at_peak)


# rows and totals


def test_rows_say_what_each_node_cost() -> None:
    model = graph(
        "g (float[N] x) => (float[N] y, int64[1] s) { [first] a = Mul(x, x) y = d.F(a) s = Shape(a) }\n"
        '<domain: "d", opset_import: ["" : 18]> F (x) => (y) { y = Abs(x) }'
    )
    profile = onp.profile(model, dims={"N": 3})
    assert [(node.index, node.name, node.op, node.outputs) for node in profile.nodes] == [
        (0, "first", "Mul", ("a",)),
        (1, "", "d::F", ("y",)),
        (2, "", "Shape", ("s",)),
    ]
    assert [node.output_bytes for node in profile.nodes] == [12, 12, 8]
    assert [node.live_bytes for node in profile.nodes] == [12, 24, 32]
    assert [node.peak_bytes for node in profile.nodes] == [12, 24, 32]
    assert {node.runs for node in profile.nodes} == {1}
    assert profile.dims == {"N": 3}
    assert profile.node_count == 3
    assert profile.error == ""
    assert profile.generated == ("x",)


def test_rows_agree_with_the_events() -> None:
    profile = onp.profile(packaged_model("magika"))
    ran = [event for event in profile.events if event.action == RUN_NODE]
    top = [event for event in ran if not event.subgraph_path]
    assert [node.index for node in profile.nodes] == [event.node_index for event in top]
    assert [node.time_ns for node in profile.nodes] == [event.duration_ns for event in top]
    sums = [event.allocated_bytes + event.io_allocated_bytes for event in top]
    assert [node.live_bytes for node in profile.nodes] == sums
    assert [node.peak_bytes for node in profile.nodes] == np.maximum.accumulate(sums).tolist()
    assert profile.peak_bytes == max(sums)
    assert profile.peak_node == sums.index(max(sums))
    assert profile.total_ns == sum(node.time_ns for node in profile.nodes)
    assert live_sum(profile) == profile.peak_bytes
    assert profile.node_count == len(profile.nodes)


def test_totals_of_operators() -> None:
    profile = onp.profile(packaged_model("magika"))
    assert sum(total.count for total in profile.operators) == len(profile.nodes)
    assert sum(total.time_ns for total in profile.operators) == profile.total_ns
    for total in profile.operators:
        rows = [node for node in profile.nodes if node.op == total.op]
        assert total.count == len(rows)
        assert total.output_bytes == sum(row.output_bytes or 0 for row in rows)
        assert total.peak_live_bytes == max(row.live_bytes or 0 for row in rows)
    made = [total.output_bytes or 0 for total in profile.operators]
    assert made == sorted(made, reverse=True)


def test_the_peak_is_one_sum_and_no_sum_of_peaks() -> None:
    # The execution account is highest at node 0 (40 bytes), the io account at the end (8 bytes).
    model = graph(
        "g (float[10] x) => (float o, float p) { a = Abs(x) o = ReduceSum<keepdims=0>(a) "
        "p = Neg(o) }"
    )
    profile = onp.profile(model)
    assert [(node.execution_bytes, node.io_bytes) for node in profile.nodes] == [
        (40, 0),
        (40, 4),
        (0, 8),
    ]
    assert (profile.peak_bytes, profile.peak_node, profile.peak_label) == (
        44,
        1,
        "node 1 ReduceSum",
    )


def test_buffers_alive_at_the_peak() -> None:
    profile = onp.profile(
        graph(
            "g (float[N] x, float s) => (float[N] w) <float[2] two = {2, 2}, float[0] none = {}> "
            "{ a = Mul(x, s) w = Abs(a) }"
        ),
        dims={"N": 3},
    )
    assert profile.peak_node == 1
    assert profile.live_at_peak == (
        LiveBuffer("a", 12, "execution", 0, "Mul"),
        LiveBuffer("w", 12, "io", 1, "Abs"),
        LiveBuffer("two", 8, "initializer", -1, ""),
        LiveBuffer("s", 4, "input", -1, ""),
    )


def test_results_are_frozen() -> None:
    profile = onp.profile(mul_add_model(), dims={"N": 2})
    for result, field in (
        (profile, "peak_bytes"),
        (profile.nodes[0], "op"),
        (profile.operators[0], "count"),
        (profile.live_at_peak[0], "nbytes"),
        (profile.coverage, "known"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, field, 0)
        assert not hasattr(result, "__dict__")
    for collection in (profile.events, profile.nodes, profile.operators, profile.live_at_peak):
        assert isinstance(collection, tuple)


def test_a_model_without_nodes() -> None:
    profile = onp.profile(graph("g (float[N] x) => (float[N] x) { }"), dims={"N": 2})
    assert profile.nodes == ()
    assert (profile.peak_bytes, profile.peak_node, profile.peak_label) == (0, -1, "")
    assert profile.live_at_peak == ()
    assert "No node ran" in profile.to_text()
    assert "No node ran" in profile.to_html()


# bodies


def test_nodes_of_a_loop() -> None:
    feeds = {"x": np.ones(2, np.float32), "n": np.array(3), "c": np.array(True)}
    profile = onp.profile(graph(LOOP), feeds)
    assert [node.op for node in profile.nodes] == ["Abs", "Loop"]
    assert [(node.op, node.path, node.runs) for node in profile.body_nodes] == [
        ("Identity", ((1, "body"),), 3),
        ("Neg", ((1, "body"),), 3),
        ("Exp", ((1, "body"),), 3),
    ]
    inner = [event for event in profile.events if event.action == RUN_NODE and event.subgraph_path]
    for node in profile.body_nodes:
        runs = [event for event in inner if event.node_index == node.index]
        assert len(runs) == 3
        assert node.time_ns == sum(event.duration_ns for event in runs)
        assert node.live_bytes == max(event.live_bytes for event in runs)
    highest = max(event.live_bytes for event in profile.events if event.action == RUN_NODE)
    assert profile.peak_bytes == highest
    assert profile.peak_node == 1
    assert profile.peak_label.startswith("node 1 Loop body, node ")
    assert live_sum(profile) == profile.peak_bytes
    # Bodies are part of their node: no operator is counted twice.
    assert {total.op for total in profile.operators} == {"Abs", "Loop"}


def test_nodes_of_a_branch_and_of_a_function() -> None:
    model = graph(
        "g (float[2] x, bool c) => (float[2] y) { b = If(c) <"
        "then_branch = t () => (float[2] u) { u = Neg(x) }, "
        "else_branch = e () => (float[2] v) { w = Abs(x) v = Exp(w) }> y = d.F(b) }\n"
        '<domain: "d", opset_import: ["" : 18]> F (x) => (y) { z = Sqrt(x) y = Abs(z) }'
    )
    profile = onp.profile(model, {"x": np.ones(2, np.float32), "c": np.array(False)})
    assert [(node.op, node.path) for node in profile.body_nodes] == [
        ("Abs", ((0, "else_branch"),)),
        ("Exp", ((0, "else_branch"),)),
        ("Sqrt", ((1, "F"),)),
        ("Abs", ((1, "F"),)),
    ]
    text = profile.to_text()
    assert "0/else_branch" in text
    assert "1/F" in text
    assert live_sum(profile) == profile.peak_bytes


def test_a_real_model_with_nested_branches() -> None:
    feeds = {
        "input": np.zeros((1, 576), np.float32),
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(16_000),
    }
    profile = onp.profile(packaged_model("silero"), feeds)
    assert max(len(node.path) for node in profile.body_nodes) >= 2
    ran = [event.live_bytes for event in profile.events if event.action == RUN_NODE]
    assert profile.peak_bytes == max(ran)
    assert live_sum(profile) == profile.peak_bytes


# feeds


def test_generated_feeds_are_the_same_each_time_and_valid() -> None:
    value = helper.make_tensor_value_info
    kinds = {
        "f": TensorProto.FLOAT,
        "h": TensorProto.FLOAT16,
        "i": TensorProto.INT64,
        "b": TensorProto.BOOL,
        "s": TensorProto.STRING,
        "c": TensorProto.COMPLEX64,
    }
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds],
            "g",
            [value(name, kind, ["N", 2]) for name, kind in kinds.items()],
            [value(f"{name}_out", kind, None) for name, kind in kinds.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    records: list[RunRecord] = []
    with observing(records.append):
        for _ in range(2):
            profile = onp.profile(model, dims={"N": 3})
            assert profile.generated == tuple(kinds)
            assert profile.dims == {"N": 3}
    first, second = (record.feeds for record in records)
    for name in kinds:
        assert first[name].shape == (3, 2)
        assert first[name].dtype == second[name].dtype
        assert first[name].tolist() == second[name].tolist()
    fed = {event.name: event for event in profile.events if event.kind == "input"}
    assert all(0 <= number < 1 for number in fed["f"].values)
    assert len(set(fed["f"].values)) > 1
    assert set(fed["i"].values) == {1}
    assert set(fed["b"].values) == {1}
    assert set(fed["s"].string_values) == {"a"}
    assert fed["f"].shape == (3, 2)


def test_given_feeds_set_the_dimensions_of_generated_ones() -> None:
    model = graph(
        "g (float[N] x, float[N] z, float[M] u) => (float[N] y) { y = Add(x, z) v = Abs(u) }"
    )
    profile = onp.profile(model, {"x": np.ones(5, np.float32)}, dims={"M": 2})
    assert profile.dims == {"N": 5, "M": 2}
    assert profile.generated == ("z", "u")
    assert [node.output_bytes for node in profile.nodes] == [20, 8]


def test_dimensions_that_are_not_named_are_one() -> None:
    assert onp.profile(mul_add_model()).dims == {"N": 1}


@pytest.mark.parametrize("dims", [{"M": 3}, {"N": 3, "nope": 1}])
def test_unknown_dimensions(dims: dict[str, int]) -> None:
    with pytest.raises(onp.SizeError, match="N"):
        onp.profile(mul_add_model(), dims=dims)


@pytest.mark.parametrize("size", [-1, 1.5, "3", None])
def test_impossible_sizes(size: Any) -> None:
    with pytest.raises(onp.SizeError):
        onp.profile(mul_add_model(), dims={"N": size})


def test_an_input_without_shape_has_to_be_fed() -> None:
    model = graph("g (float[N] x) => (float[N] y) { y = Abs(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(onp.FeedError, match="'x'"):
        onp.profile(model)
    profile = onp.profile(model, {"x": np.ones(3, np.float32)})
    assert profile.generated == ()
    (node,) = profile.nodes
    assert (node.live_bytes, node.predicted_bytes) == (12, None)
    assert node.difference == "a value of unknown size is alive"
    assert profile.dims == {}


def test_feeds_that_do_not_fit() -> None:
    with pytest.raises(onp.FeedError, match="nope"):
        onp.profile(mul_add_model(), {"x": np.ones(2, np.float32), "nope": np.ones(2)})
    with pytest.raises(onp.FeedError):
        onp.profile(mul_add_model(), {"x": np.ones((2, 2), np.float32)})


def test_other_backends_are_refused() -> None:
    backend: Any = "tensorflow"
    with pytest.raises(ValueError, match="backend"):
        onp.profile(mul_add_model(), backend=backend)


def test_progress_counts_nodes() -> None:
    seen: list[tuple[int, int]] = []
    onp.profile(memory_demo_model(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


# failures


def failing_model() -> Any:
    return graph(
        "g (float[N] x, int64[1] i) => (float[K] y) "
        "{ a = Abs(x) b = Neg(a) c = Gather(b, i) y = Exp(c) }"
    )


def test_a_failed_run_keeps_its_profile() -> None:
    feeds = {"x": np.ones(3, np.float32), "i": np.array([7])}
    with pytest.raises(onp.KernelError) as caught:
        onp.profile(failing_model(), feeds)
    profile: Profile = caught.value.profile  # type: ignore[attr-defined]
    assert [node.op for node in profile.nodes] == ["Abs", "Neg"]
    assert profile.node_count == 4
    assert profile.error.startswith("KernelError: ")
    assert profile.events[-1].action == onp.RuntimeEventAction.FAIL_NODE
    assert profile.events[-1].node_index == 2
    assert (profile.peak_bytes, profile.peak_node) == (24, 1)
    assert live_sum(profile) == 24
    text = profile.to_text()
    assert "The run failed after 2 of 4 nodes" in text
    assert "2 of 4 nodes ran" in text
    assert profile.to_dict()["error"] == profile.error
    assert "The run failed" in profile.to_html()


def test_an_allocator_that_refuses() -> None:
    allocator = onp.SimpleRawBufferAllocator(2)
    session = onp.ReferenceEvaluator(
        graph("g (float[2] x) => (float[2] y) { a = Abs(x) b = Neg(a) c = Add(a, b) y = Exp(c) }"),
        allocator=allocator,
    )
    with pytest.raises(onp.AllocationError) as caught:
        onp.profile(session)
    profile: Profile = caught.value.profile  # type: ignore[attr-defined]
    assert [node.op for node in profile.nodes] == ["Abs", "Neg"]
    assert "AllocationError" in profile.error
    assert allocator.allocated_count == 0


def test_what_cannot_run_at_all_has_no_profile() -> None:
    with pytest.raises(onp.ModelError) as caught:
        onp.profile("no such file.onnx")
    assert not hasattr(caught.value, "profile")
    with pytest.raises(onp.UnsupportedOperatorError):
        onp.profile(graph("g (float[2] x) => (float[2] y) { y = d.Unheard(x) }"))


# allocators and evaluators of the caller


def test_allocators_of_the_caller_are_used() -> None:
    allocator = onp.SimpleRawBufferAllocator(64)
    io_allocator = onp.SimpleRawBufferAllocator(64)
    session = onp.ReferenceEvaluator(
        mul_add_model(), events_enabled=True, allocator=allocator, io_allocator=io_allocator
    )
    profile = onp.profile(session, dims={"N": 1024})
    assert allocator.peak_allocated_size == 4100
    assert io_allocator.peak_allocated_size == 4096
    assert allocator.total_allocated_size == 4  # the charge of the initializer
    assert tuple(session.events()) == profile.events
    again = onp.profile(session, dims={"N": 1024})
    assert [node.live_bytes for node in again.nodes] == [4100, 8196]
    assert allocator.total_allocated_size == 4


def test_an_evaluator_without_events_stays_without() -> None:
    session = onp.ReferenceEvaluator(mul_add_model())
    profile = onp.profile(session, dims={"N": 4})
    assert len(profile.events) == 7
    assert session.events() == []
    assert session.allocator is None


def test_a_run_that_somebody_observed() -> None:
    records: list[RunRecord] = []
    session = onp.ReferenceEvaluator(mul_add_model())
    with observing(records.append):
        session.run(None, {"x": np.ones(3, np.float32)})
    profile = profile_run(records[0])
    assert profile.dims == {"N": 3}
    assert profile.generated == ()
    assert [(node.live_bytes, node.difference) for node in profile.nodes] == [(16, ""), (28, "")]


@pytest.mark.parametrize("source", ["text", "bytes", "path"])
def test_what_a_model_may_be(source: str, tmp_path: Any) -> None:
    model: Any = "g (float[N] x) => (float[N] y) { y = Abs(x) }"
    if source == "bytes":
        model = mul_add_model().SerializeToString()
    elif source == "path":
        model = tmp_path / "some model.onnx"
        model.write_bytes(mul_add_model().SerializeToString())
    profile = onp.profile(model, dims={"N": 2})
    assert profile.peak_bytes
    if source == "path":
        assert profile.model_name == "some model"


def test_more_than_the_machine_has_is_refused_before_anything_is_made() -> None:
    with pytest.raises(onp.SizeError, match=r"bytes are free: choose smaller sizes"):
        onp.profile(mul_add_model(), dims={"N": 10**12})
    with pytest.raises(onp.SizeError, match="elements of inputs"):
        onp.profile(mul_add_model(), dims={"N": 10**18})


def test_a_failure_on_generated_feeds_says_what_to_give() -> None:
    model = (
        '<ir_version: 10, opset_import: ["" : 18]> '
        "g (float[N] x, int64[1] s) => (float[2,2] y) { y = Reshape(x, s) z = Reshape(x, s) }"
    )
    clash = (
        '<ir_version: 10, opset_import: ["" : 18]> '
        "g (float[N] x, int64[K] s) => (float[A,B] y) { t = Reshape(x, s) y = MatMul(t, t) }"
    )
    onp.profile(model.replace("float[2,2] y", "float[M] y"))
    with pytest.raises(onp.KernelError) as failed:
        onp.profile(clash, dims={"N": 3})
    assert "The values of 'x', 's' were generated: give real ones in feeds" in str(failed.value)
    assert "size 1 was taken for K: give sizes in dims" in str(failed.value)
    assert failed.value.profile.error  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [{"dims": "N=3"}, {"feeds": [1]}])
def test_mappings_are_asked_for(wrong: dict[str, Any]) -> None:
    with pytest.raises(onp.FeedError, match="is a mapping from name to value"):
        onp.profile(mul_add_model(), **wrong)
