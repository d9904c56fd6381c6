"""Functions of the model: attributes, defaults, absent inputs, functions in functions, events inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

from onnx_notebook_profiler.allocators import SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import RuntimeEventAction
from tests.memory_truth import assert_accounts_are_true
from tests.oracles import assert_same, ort

HEAD = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'
X = np.array([-1, 2], np.float32)


def function(signature: str, body: str, imports: str = '"" : 18, "local" : 1') -> str:
    return f'\n<domain: "local", opset_import: [{imports}]> {signature} {{ {body} }}'


def model(graph: str, *functions: str) -> ModelProto:
    return parser.parse_model(HEAD + graph + "".join(functions))


def check(proto: ModelProto, feeds: Any, by_hand: Any) -> None:
    (outputs,) = assert_accounts_are_true(proto, feeds)
    assert_same(outputs, by_hand)
    assert_same(outputs, ort(proto, feeds))


@pytest.mark.parametrize(
    ("call", "by_hand"),
    [
        ("local.F <a = 2.0, k = 6> (x)", np.array([-1, 2], np.int32)),
        ("local.F <k = 6> (x)", np.array([0, 2], np.int32)),  # 0.25 * (e**-1 - 1) is cut off to 0
        ("local.F <a = 2.0> (x)", np.array([2 * (np.exp(-1) - 1), 2], np.float64)),
    ],
)
def test_attributes_with_and_without_defaults(call: Any, by_hand: Any) -> None:
    proto = model(
        f"g (float[2] x) => ({'int32' if 'k' in call else 'double'}[2] y) {{ y = {call} }}",
        function(
            "F <a: float = 0.25, k: int = 11> (v) => (w)",
            "t = Elu <alpha: float = @a> (v) w = Cast <to: int = @k> (t)",
        ),
    )
    (outputs,) = assert_accounts_are_true(proto, {"x": X})
    assert_same(outputs, [by_hand])
    assert_same(outputs, ort(proto, {"x": X}))


def test_an_attribute_that_is_not_given_leaves_the_operators_default() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.F(x) }",
        function("F <a> (v) => (w)", "w = Elu <alpha: float = @a> (v)"),
    )
    (y,) = ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_allclose(y, [np.exp(-1) - 1, 2], rtol=1e-6)


def test_functions_in_functions_pass_attributes_on() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.Outer <b = 3.0> (x) }",
        function("Inner <a> (v) => (w)", "w = Elu <alpha: float = @a> (v)"),
        function(
            "Outer <b> (v) => (w)",
            "t = local.Inner <a: float = @b> (v) w = local.Inner <a = 1.0> (t)",
        ),
    )
    t = 3 * (np.exp(-1) - 1)
    check(proto, {"x": X}, [np.array([np.exp(t) - 1, 2], np.float32)])


def test_references_inside_bodies_and_outer_values_of_the_function() -> None:
    proto = model(
        "g (bool c, float[2] x) => (float[2] y) { y = local.F <a = 0.5> (c, x) }",
        function(
            "F <a> (c, v) => (w)",
            "n = Neg(v) w = If (c) <then_branch = t () => (p) { p = Elu <alpha: float = @a> (n) },"
            " else_branch = e () => (q) { q = Abs(n) }>",
        ),
    )
    for condition, by_hand in ((True, [1, 0.5 * (np.exp(-2) - 1)]), (False, [1, 2])):
        check(proto, {"c": np.array(condition), "x": X}, [np.array(by_hand, np.float32)])


def test_a_function_has_its_own_opsets() -> None:
    # ReduceSum takes its axes as an attribute up to opset 12, and as an input from 13 on
    proto = model(
        "g (float[2] x) => (float[1] y) { y = local.F(x) }",
        function("F (v) => (w)", "w = ReduceSum <axes = [0]> (v)", '"" : 11'),
    )
    (y,) = ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_array_equal(y, [1])


def test_absent_inputs_and_outputs() -> None:
    proto = model(
        "g (float[2] x, float hi) => (float[2] y, float[2] z) { y = local.F(x, , hi) z, = local.F(x) }",
        function("F (v, lo, hi) => (w, m)", "w = Clip(v, lo, hi) t = Neg(w) m = Abs(t)"),
    )
    del proto.graph.node[1].output[1:]
    feeds = {"x": X, "hi": np.array(1, np.float32)}
    (outputs,) = assert_accounts_are_true(proto, feeds)
    assert_same(outputs, [np.array([-1, 1], np.float32), X])


def test_results_that_nobody_asks_for_are_given_back() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { , y = local.F(x) }",
        function("F (v) => (w, m, k)", "w = Neg(v) m = Abs(v) k = Exp(v)"),
    )
    allocator = SimpleRawBufferAllocator(20)
    session = ReferenceEvaluator(proto, events_enabled=True, allocator=allocator)
    (y,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(y, [1, 2])
    assert allocator.allocated_count == 0
    assert session.events()[-1].allocated_bytes == 0


@pytest.mark.parametrize("body", ["w = Identity(v)", "r = Neg(v) w = Identity(v)"])
def test_a_function_that_passes_its_input_on_gives_a_copy(body: Any) -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.F(x) }", function("F (v) => (w)", body)
    )
    x = X.copy()
    ((y,),) = assert_accounts_are_true(proto, {"x": x})
    y[:] = 9
    np.testing.assert_array_equal(x, X)


def test_events_inside_a_function() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { a = Neg(x) y = local.F(a) }",
        function("F (v) => (w)", "t = Abs(v) w = Neg(t)"),
    )
    session = ReferenceEvaluator(proto, events_enabled=True, allocator=SimpleRawBufferAllocator(20))
    session.run(None, {"x": X})
    events = session.events()
    assert [
        (e.action.label, e.name or e.op_type, e.allocated_bytes, e.io_allocated_bytes)
        for e in events
    ] == [
        ("add", "x", 0, 0),
        ("add", "a", 8, 0),
        ("run_node", "Neg", 8, 0),
        ("add", "v", 8, 0),
        ("add", "t", 16, 0),
        ("run_node", "Abs", 16, 0),
        ("add", "w", 16, 8),
        ("run_node", "Neg", 16, 8),
        ("remove", "t", 8, 8),
        ("add", "y", 8, 8),
        ("run_node", "F", 8, 8),
        ("remove", "a", 0, 8),
    ]
    inside = [e for e in events if e.subgraph_path]
    assert {e.subgraph_path for e in inside} == {((1, "F"),)}
    assert {(e.subgraph_node_index, e.subgraph_attr_name) for e in inside} == {(1, "F")}
    call = next(e for e in events if e.op_type == "F")
    assert (call.op_domain, call.action) == ("local", RuntimeEventAction.RUN_NODE)
    assert call.summary().startswith("[run_node/unknown] local::F(a) node#1 took ")
    assert next(e for e in events if e.name == "y").kind == "output"


def test_recursion_is_an_error_before_anything_runs() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.F(x) }",
        function("F (v) => (w)", "w = local.G(v)"),
        function("G (v) => (w)", "w = local.F(v)"),
    )
    with pytest.raises(ModelError, match="recursive"):
        ReferenceEvaluator(proto)


def test_a_function_hides_the_operator_of_its_name() -> None:
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Abs(x) }'
        '\n<domain: "", opset_import: ["" : 18]> Abs (v) => (w) { w = Neg(v) }'
    )
    (y,) = ReferenceEvaluator(proto).run(None, {"x": X})
    np.testing.assert_array_equal(y, -X)
