"""What is alive inside branches, loops and functions: the formulas against the events of a run, and counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.symbolic.peak import Place

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
MODELS = {
    "if": """g (float[N, 4] x, bool c) => (float[N, 4] y) {
        big = Concat<axis = 1>(x, x, x)
        y = If (c) <
            then_branch = t () => (float[N, 4] p) { a = Mul(x, x)  b = Concat<axis = 0>(a, a, a)  s = Shape(x)
                z = Constant<value_ints = [0, 0]>()  n = Slice(b, z, s)  p = Relu(n) },
            else_branch = e () => (float[N, 4] q) { h = Add(x, x)  q = Relu(h) }>
        u = Relu(big)
    }""",
    "if of a view": """g (float[N, 4] x, bool c) => (float[N, 4] y) {
        a = Mul(x, x)
        y = If (c) < then_branch = t () => (float[N, 4] p) { p = Identity(a) },
                     else_branch = e () => (float[N, 4] q) { q = Relu(a) }>
    }""",
    "loop that stacks": """g (float[N, 4] x) => (float[N, 4] last, float[S, N, 2] all) {
        trips = Constant<value_int = 5>()
        w = Mul(x, x)
        last, all = Loop (trips, , w) <
            body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next, float[N, 2] piece) {
                on = Identity(go)
                two = Constant<value_ints = [2, 2]>()
                p, piece = Split<axis = 1>(state, two)
                c = Concat<axis = 1>(p, piece)
                next = Add(c, w) }>
    }""",
    "loop over a size": """g (float[N, M] x) => (float[N, M] last, float[S, N, M] all) {
        s = Shape(x)
        zero = Constant<value_int = 0>()
        trips = Gather<axis = 0>(s, zero)
        last, all = Loop (trips, , x) <
            body = b (int64 i, bool go, float[N, M] state) => (bool on, float[N, M] next, float[N, M] piece) {
                on = Identity(go)
                d = Concat<axis = 1>(state, x)
                n = ReduceMax<keepdims = 1>(d)
                next = Mul(state, n)
                piece = Sub(next, x) }>
    }""",
    "loop of one": """g (float[N, 4] x) => (float[N, 4] last, float[S, N, 4] all) {
        trips = Constant<value_int = 1>()
        last, all = Loop (trips, , x) <
            body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next, float[N, 4] piece) {
                on = Identity(go)  next = Mul(state, x)  piece = Add(next, x) }>
    }""",
    "loop that stacks nothing": """g (float[N, 4] x, int64 trips) => (float[N, 4] last) {
        last = Loop (trips, , x) <
            body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next) {
                on = Identity(go)  h = Mul(state, x)  next = Add(h, x) }>
    }""",
    "scan": """g (float[T, B, 4] x, float[B, 4] h0) => (float[B, 4] last, float[T, B, 4] all) {
        h1 = Relu(h0)
        last, all = Scan<num_scan_inputs = 1,
            body = b (float[B, 4] h, float[B, 4] v) => (float[B, 4] n, float[B, 4] o) {
            s = Concat<axis = 1>(h, v)
            two = Constant<value_ints = [4, 4]>()
            p, q = Split<axis = 1>(s, two)
            n = Add(p, q)
            o = Mul(n, v) }>(h1, x)
    }""",
    "scan along axis 1": """g (float[B, T, 4] x, float[B, 4] h0) => (float[B, 4] last, float[B, T, 4] all) {
        last, all = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[B, 4] h, float[B, 4] v) => (float[B, 4] n, float[B, 4] o) {
                n = Add(h, v)  o = Mul(n, v) }>(h0, x)
    }""",
    "if in a loop": """g (float[N, 4] x, bool c) => (float[N, 4] last) {
        trips = Constant<value_int = 3>()
        last = Loop (trips, , x) <
            body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next) {
                on = Identity(go)
                m = Mul(state, x)
                next = If (c) <
                    then_branch = t () => (float[N, 4] p) { a = Concat<axis = 1>(m, m)
                        two = Constant<value_ints = [4, 4]>()  p, q = Split<axis = 1>(a, two) },
                    else_branch = e () => (float[N, 4] r) { r = Relu(m) }> }>
    }""",
}
FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "my" : 1]>
g (float[N, 4] x) => (float[N, 4] y) {
    a = Relu(x)
    y = my.twice(a)
}
<domain: "my", opset_import: ["" : 18]>
twice (v) => (w) { c = Concat<axis = 1>(v, v)  k = Constant<value_ints = [4, 4]>()
    p, q = Split<axis = 1>(c, k)  w = Add(p, q) }
"""


def feeds_of(model: onnx.ModelProto, sizes: dict[str, int], condition: bool) -> dict[str, Any]:
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == onnx.TensorProto.BOOL:
            feeds[value.name] = np.array(condition)
        elif kind.elem_type == onnx.TensorProto.INT64:
            feeds[value.name] = np.array(4, np.int64)
        else:
            feeds[value.name] = np.ones(shape, np.float32)
    return feeds


def measured(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[Any, int]:
    """The most bytes alive at each node inside another one, over all its runs."""
    session = onp.ReferenceEvaluator(
        model,
        events_enabled=True,
        kernels="numpy",
        allocator=onp.SimpleRawBufferAllocator(1_000),
    )
    session.run(None, feeds)
    most: dict[Any, int] = {}
    for event in session.events():
        if event.action == onp.RuntimeEventAction.RUN_NODE and event.subgraph_path:
            key = (event.subgraph_path, event.node_index)
            most[key] = max(most.get(key, 0), event.live_bytes)
    return most


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", [*MODELS, "function"])
def test_bytes_inside_equal_those_of_a_run(name: str, condition: bool) -> None:
    model = onnx.parser.parse_model(FUNCTION if name == "function" else HEAD + MODELS[name])
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    assert not any(moment.unknown for moment in context.inside)
    assert not context.unknown_nodes(dict.fromkeys(context.dims, 3)).any()
    for sizes in (
        {"N": 3, "M": 2, "T": 4, "B": 2},
        {"N": 2, "M": 7, "T": 2, "B": 5},
        {"N": 1, "M": 1, "T": 1, "B": 1},
    ):
        used = {dim: sizes[dim] for dim in context.dims}
        most = measured(model, feeds_of(model, sizes, condition))
        predicted = {
            (moment.path, moment.index): moment.total.evaluate(used) for moment in context.inside
        }
        assert most
        assert {key: predicted[key] for key in most} == most


def test_the_larger_branch_is_the_peak() -> None:
    model = onnx.parser.parse_model(HEAD + MODELS["if"])
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    # c 1 byte, big 48 N, b 48 N, s and z 16 each, n 16 N
    assert context.peak.evaluate(N=100) == 1 + 4_800 + 4_800 + 32 + 1_600
    assert context.peak.place(N=100) == Place(1, "If_1/then_branch/Slice_4")
    assert context.peak.node(N=100) == 1
    assert context.highest(N=100).tolist() == [4_801, 11_233, 11_201]


def test_a_branch_that_never_runs_counts_nothing() -> None:
    model = onnx.parser.parse_model(
        HEAD
        + """g (float[N, 4] x) => (float[N, 4] y) {
        c = Constant<value = bool {0}>()
        y = If (c) < then_branch = t () => (float[N, 4] p) { a = Concat<axis = 1>(x, x)
                         two = Constant<value_ints = [4, 4]>()  p, r = Split<axis = 1>(a, two) },
                     else_branch = e () => (float[N, 4] q) { q = Relu(x) }>
    }"""
    )
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    assert [moment.label for moment in context.inside] == ["If_1/else_branch/Relu_0"]
    assert context.peak.evaluate(N=10) == 161


def test_a_loop_that_never_runs_counts_nothing() -> None:
    model = onnx.parser.parse_model(HEAD + MODELS["loop over a size"])
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    # the number of trips, int64
    assert {moment.total.evaluate({"N": 0, "M": 3}) for moment in context.inside} == {8}


def test_trips_that_data_decides() -> None:
    model = onnx.parser.parse_model(
        HEAD
        + """g (float[N, 4] x, int64 trips) => (float[N, 4] last, float[S, N, 4] all) {
        last, all = Loop (trips, , x) <
            body = b (int64 i, bool go, float[N, 4] state) => (bool on, float[N, 4] next, float[N, 4] piece) {
                on = Identity(go)  next = Mul(state, x)  piece = Add(next, x) }>
    }"""
    )
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    assert all(moment.unknown for moment in context.inside)
    assert context.unknown_nodes(N=3).tolist() == [True]
    (trips,) = context.data_dims
    context.compute(model, data_sizes={trips: 4})
    assert not context.unknown_nodes(N=3).any()
    most = measured(model, feeds_of(model, {"N": 3}, True))
    assert {
        (moment.path, moment.index): moment.total.evaluate({"N": 3}) for moment in context.inside
    } == most
