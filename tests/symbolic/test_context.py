"""ComputeContext: the published example figure for figure, members, buckets, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_notebook_profiler as onp
from tests.models import memory_demo_model, memory_demo_totals
from tests.symbolic.rows import computed, graph, model_of, reused, rows

KEYS = [
    "already_allocated_bytes",
    "initializers",
    "inputs",
    "intermediates",
    "output_allocation_bytes",
    "outputs",
    "total_bytes",
]


def bucket_text(bucket: dict[str, int | str]) -> str:
    """How the published example prints a bucket."""
    order = sorted(bucket.items(), key=lambda item: (item[0] != "", item[0]))
    return ", ".join(f"{tag or 'untagged'}={value}" for tag, value in order) or "-"


# the published example

TABLE = """
0 | MatMul  | 16*N+64 | 16*N | weight=16*N | weight=64 | -                     | weight=16*N | 32*N+64
1 | Concat  | 32*N+64 | 32*N | weight=16*N | weight=64 | weight=16*N           | weight=32*N | 64*N+64
2 | Shape   | 48*N+64 | 16   | weight=16*N | weight=64 | weight=32*N           | shape=16    | 48*N+80
3 | Abs     | 48*N+80 | 0    | weight=16*N | weight=64 | shape=16, weight=32*N | -           | 48*N+80
4 | Reshape | 48*N+80 | 0    | weight=16*N | weight=64 | shape=16, weight=32*N | -           | 48*N+80
"""


@pytest.mark.parametrize("reuse", ["operator", "structural"])
def test_published_table(reuse: str) -> None:
    model = memory_demo_model()
    context = computed(model, reuse)
    context.write_to_model(model)
    printed = [
        [
            str(index),
            node.op_type,
            str(memory[onp.NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY]),
            str(memory[onp.NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY]),
            bucket_text(memory[onp.NODE_MEMORY_INPUTS_KEY]),
            bucket_text(memory[onp.NODE_MEMORY_INITIALIZERS_KEY]),
            bucket_text(memory[onp.NODE_MEMORY_INTERMEDIATES_KEY]),
            bucket_text(memory[onp.NODE_MEMORY_OUTPUTS_KEY]),
            str(memory[onp.NODE_MEMORY_TOTAL_BYTES_KEY]),
        ]
        for index, (node, memory) in enumerate(zip(model.graph.node, context.memory, strict=True))
    ]
    expected = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
    assert printed == expected
    assert [context.node_peak_memory(index) for index in range(5)] == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("size", "totals"),
    [
        (1, [96, 128, 128, 128, 128]),
        (8, [320, 576, 464, 464, 464]),
        (32, [1088, 2112, 1616, 1616, 1616]),
        (128, [4160, 8256, 6224, 6224, 6224]),
    ],
)
def test_published_totals(size: int, totals: list[int]) -> None:
    context = computed(memory_demo_model())
    evaluated = [
        value if isinstance(value, int) else onp.evaluate_expression(value, {"N": size})
        for value in (memory["total_bytes"] for memory in context.memory)
    ]
    assert evaluated == totals == memory_demo_totals(size)
    assert context.totals(N=size).tolist() == totals


def test_names_of_keys() -> None:
    assert onp.NODE_MEMORY_TOTAL_BYTES_KEY == "total_bytes"
    assert onp.NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY == "already_allocated_bytes"
    assert onp.NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY == "output_allocation_bytes"
    assert onp.NODE_MEMORY_INPUTS_KEY == "inputs"
    assert onp.NODE_MEMORY_INITIALIZERS_KEY == "initializers"
    assert onp.NODE_MEMORY_INTERMEDIATES_KEY == "intermediates"
    assert onp.NODE_MEMORY_OUTPUTS_KEY == "outputs"
    assert onp.NODE_PEAK_MEMORY_KEY == "onnx_light.peak_memory"


# members


def test_keys_are_in_alphabetical_order() -> None:
    for memory in computed(memory_demo_model()).memory:
        assert list(memory) == KEYS


def test_constants_are_ints_and_the_rest_is_text() -> None:
    context = computed(memory_demo_model())
    row = context.node_memory(2)
    assert row["output_allocation_bytes"] == 16
    assert type(row["output_allocation_bytes"]) is int
    assert row["total_bytes"] == "48*N+80"
    assert type(context.node_memory(3)["output_allocation_bytes"]) is int
    assert context.node_memory(3)["outputs"] == {}
    assert context.node_memory(0)["intermediates"] == {}


def test_buckets_are_sorted_and_leave_out_zero() -> None:
    context = computed(
        graph(
            "g (float[0] E, float[N] X, int64[1] s) => (float[N] Y, float[0] F) "
            "{ Y = Reshape(X, s) F = Abs(E) }"
        )
    )
    assert context.memory[0]["inputs"] == {"shape": 8, "weight": "4*N"}
    assert list(context.memory[0]["inputs"]) == ["shape", "weight"]
    assert context.memory[1]["outputs"] == {}
    empty = computed(graph("g (float[0] E) => (float[0] F) { F = Abs(E) }"))
    assert empty.memory[0] == {
        "already_allocated_bytes": 0,
        "initializers": {},
        "inputs": {},
        "intermediates": {},
        "output_allocation_bytes": 0,
        "outputs": {},
        "total_bytes": 0,
    }


def test_an_untagged_bucket_has_the_empty_key() -> None:
    # A node without inputs and without a tag of its own gives its output none.
    nodes = [helper.make_node("RandomNormal", [], ["R"], shape=[3])]
    context = computed(model_of(nodes, {}, ["R"]))
    assert context.memory[0]["outputs"] == {"": 12}


@pytest.mark.parametrize("index", [-1, 5, 10**9])
@pytest.mark.parametrize("member", ["node_memory", "node_peak_memory", "node_reuse", "node_tag"])
def test_nodes_that_do_not_exist(member: str, index: int) -> None:
    with pytest.raises(IndexError, match="5"):
        getattr(computed(memory_demo_model()), member)(index)


def test_members_of_one_node() -> None:
    context = computed(memory_demo_model())
    assert len(context) == 5
    assert [(one.output_index, one.input_index) for one in context.node_reuse(3)] == [(0, 0)]
    assert context.node_reuse(0) == ()
    assert context.node_tag(2) == "shape"
    assert context.labels == tuple(
        ("", op) for op in ("MatMul", "Concat", "Shape", "Abs", "Reshape")
    )
    assert context.shape("C") == ("2*N", 4)
    assert context.shape("S") == (2,)
    assert context.shape("nothing") is None
    assert context.coverage.known == context.coverage.total == 7
    assert str(context.coverage) == "7 of 7 values"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("operators", "model"), "reuse"),
        (("operator", "models"), "account"),
        ((None, "model"), "reuse"),
    ],
)
def test_unknown_words(arguments: tuple[Any, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        onp.ComputeContext(*arguments)


def test_representation() -> None:
    context = onp.ComputeContext(reuse="none", account="evaluator")
    assert repr(context) == "ComputeContext(reuse='none', account='evaluator')"
    text = repr(computed(memory_demo_model()))
    assert "compute_context_memory_demo" in text
    assert "5 nodes" in text
    assert "0x" not in text


def test_before_anything_is_computed() -> None:
    context = onp.ComputeContext()
    assert len(context) == 0
    assert context.memory == []
    assert context.dims == ()
    assert context.unknown == ()
    assert context.labels == ()
    assert context.totals().shape == (0,)
    assert (context.peak.evaluate(), context.peak.node()) == (0, -1)
    with pytest.raises(onp.SizeError):
        context.totals(N=1)
    with pytest.raises(IndexError):
        context.node_memory(0)


def test_computing_again_forgets_the_model_before() -> None:
    context = computed(memory_demo_model())
    context.compute(graph("g (float[M] x) => (float[M] y) { y = Abs(x) }"))
    fresh = computed(graph("g (float[M] x) => (float[M] y) { y = Abs(x) }"))
    assert context.memory == fresh.memory
    assert context.dims == ("M",)
    assert context.totals(M=2).tolist() == [16]
    assert context.value_tags == fresh.value_tags


def test_computing_leaves_the_model_alone() -> None:
    model = memory_demo_model()
    before = model.SerializeToString(deterministic=True)
    computed(model)
    assert model.SerializeToString(deterministic=True) == before


def test_a_broken_model_is_a_model_error() -> None:
    with pytest.raises(onp.ModelError):
        onp.ComputeContext().compute("no such file.onnx")
    with pytest.raises(onp.ModelError):
        onp.ComputeContext().compute(ModelProto())


def test_paths_bytes_and_text(tmp_path: Path) -> None:
    model = memory_demo_model()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    expected = rows(computed(model))
    assert rows(computed(path)) == expected
    assert rows(computed(str(path))) == expected
    assert rows(computed(model.SerializeToString())) == expected
    assert rows(computed("g (float[N] x) => (float[N] y) { y = Abs(x) }")) == [
        ("4*N", "4*N", "8*N")
    ]


# what counts


def test_inputs_count_though_unused_and_after_their_last_use() -> None:
    model = graph(
        "g (float[4] X, float[8] unused) => (float[4] Z) <float[2] W = {1,2}> "
        "{ A = Abs(X) B = Neg(A) Z = Abs(B) }"
    )
    assert rows(computed(model, "none")) == [(56, 16, 72), (72, 16, 88), (72, 16, 88)]


def test_outputs_count_to_the_end_as_intermediates() -> None:
    model = graph("g (float[4] X) => (float[4] A, float[4] Z) { A = Abs(X) B = Abs(X) Z = Neg(B) }")
    context = computed(model, "none")
    assert rows(context) == [(16, 16, 32), (32, 16, 48), (48, 16, 64)]
    assert context.memory[2]["intermediates"] == {"weight": 32}


def test_an_initializer_that_is_an_input_counts_once() -> None:
    model = graph(
        "g (float[4] X, float[4] W) => (float[4] Y) <float[4] W = {1,2,3,4}> { Y = Add(X, W) }"
    )
    context = computed(model)
    assert rows(context) == [(32, 16, 48)]
    assert context.memory[0]["inputs"] == {"weight": 16}
    assert context.memory[0]["initializers"] == {"weight": 16}


def test_dims_of_an_overridable_initializer_are_not_asked_for() -> None:
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "W")
    nodes = [helper.make_node("MatMul", ["X", "W"], ["Y"])]
    model = model_of(nodes, {"X": ["N", 4], "W": ["M", "K"]}, ["Y"], initializer=[weight])
    context = computed(model)
    assert context.dims == ("N",)
    assert rows(context) == [("16*N+64", "16*N", "32*N+64")]


def test_a_value_that_a_node_reads_twice_counts_once() -> None:
    model = graph("g (float[4] X) => (float[4] Y) { A = Abs(X) Y = Mul(A, A) }")
    # ... and is not taken over: it occurs twice.
    assert rows(computed(model, "structural")) == [(16, 16, 32), (32, 16, 48)]


def test_inside_of_bodies_and_functions_is_not_counted() -> None:
    branch = graph(
        "g (float[4] X, bool c) => (float[4] Y) { Y = If(c) <"
        "then_branch = t () => (float[4] B) { a = Neg(X) b = Exp(a) B = Abs(b) }, "
        "else_branch = e () => (float[4] C) { C = Identity(X) }> }"
    )
    assert rows(computed(branch)) == [(17, 16, 33)]
    call = graph(
        "g (float[4] X) => (float[4] Y) { Y = d.F(X) }\n"
        '<domain: "d", opset_import: ["" : 18]> F (x) => (y) { a = Neg(x) b = Exp(a) y = Abs(b) }'
    )
    assert rows(computed(call)) == [(16, 16, 32)]


def test_operators_of_a_function_take_nothing_in_place() -> None:
    call = graph(
        "g (float[4] X) => (float[4] Y) { A = Abs(X) Y = d.F(A) }\n"
        '<domain: "d", opset_import: ["" : 18]> F (x) => (y) { y = Abs(x) }'
    )
    assert reused(computed(call)) == [[], []]
    assert reused(computed(call, "structural")) == [[], [(0, 0, "equal")]]


@pytest.mark.parametrize(
    ("data_type", "model_bytes", "numpy_bytes"),
    [
        ("BOOL", 15, 15),
        ("INT8", 15, 15),
        ("FLOAT8E4M3FN", 15, 15),
        ("FLOAT16", 30, 30),
        ("BFLOAT16", 30, 30),
        ("INT32", 60, 60),
        ("FLOAT", 60, 60),
        ("INT64", 120, 120),
        ("DOUBLE", 120, 120),
        ("COMPLEX64", 120, 120),
        ("COMPLEX128", 240, 240),
        ("INT4", 8, 15),
        ("UINT4", 8, 15),
        ("FLOAT4E2M1", 8, 15),
        ("INT2", 4, 15),
        ("UINT2", 4, 15),
        ("FLOAT6E2M3", 12, 15),
        ("FLOAT6E3M2", 12, 15),
    ],
)
def test_bytes_of_fifteen_elements(data_type: str, model_bytes: int, numpy_bytes: int) -> None:
    # ONNX packs elements below 8 bits, rounded up to a whole byte; numpy gives each a byte.
    code = getattr(TensorProto, data_type, None)
    if code is None:
        pytest.skip(f"this onnx has no {data_type}")
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Shape", ["a"], ["y"])]
    model = model_of(nodes, {"x": ["N", 5]}, [], data_type=code, opset=21)
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, [2]))
    # Initializers and inputs of the model's account, what the evaluator holds of `a`: a view, so 0.
    assert computed(model, "none").totals(N=3).tolist() == [2 * model_bytes, 2 * model_bytes + 16]
    nodes[0] = helper.make_node("Concat", ["x"], ["a"], axis=0)
    model = model_of(nodes, {"x": ["N", 5]}, [], data_type=code, opset=21)
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, [2]))
    held = computed(model, account="evaluator")
    assert held.totals(N=3).tolist() == [numpy_bytes, numpy_bytes + 16]
    assert held.io_totals(N=3).tolist() == [0, 16]


# weights are not read


def test_external_data_that_is_missing_does_not_matter(tmp_path: Path) -> None:
    def external(name: str, dims: list[int]) -> TensorProto:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="gone.bin")
        return tensor

    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["H"]),
        helper.make_node("Add", ["H", "b"], ["Y"]),
    ]
    weights = [external("W", [1000, 2000]), external("b", [2000])]
    model = model_of(nodes, {"X": ["N", 1000]}, ["Y"], initializer=weights)
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    fixed = 4 * 1000 * 2000 + 4 * 2000
    for source in (model, path):
        context = computed(source)
        assert context.unknown == ()
        # X 4,000 bytes a row, H 8,000; Y takes over H.
        assert context.totals(N=3).tolist() == [fixed + 36_000, fixed + 36_000]


def test_a_shape_in_external_data_makes_its_value_unknown(tmp_path: Path) -> None:
    shape = TensorProto(name="s", data_type=TensorProto.INT64, dims=[2])
    shape.data_location = TensorProto.EXTERNAL
    shape.external_data.add(key="location", value="gone.bin")
    model = model_of(
        [helper.make_node("Expand", ["X", "s"], ["Y"])], {"X": ["N", 1]}, ["Y"], initializer=[shape]
    )
    context = computed(model)
    assert [one.value for one in context.unknown] == ["Y"]
    assert context.totals(N=2).tolist() == [24]
