"""Work of whole models: bytes, totals, what is unknown, and totals that others have published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from onnx_notebook_profiler import ComputeContext
from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.evaluator.supported import supported_operators
from onnx_notebook_profiler.symbolic.work_rules.registry import find_rule, rules
from onnx_notebook_profiler.symbolic.work_rules.without_rule import WITHOUT_RULE
from tests.models import memory_demo_model, packaged_model, text_model
from tests.symbolic.work_models import (
    DOMAINS,
    computed,
    declared_work,
    node_work,
    numbers,
    one_node,
    value,
)

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def test_each_node_of_a_small_model() -> None:
    """`memory_demo_model`: X [N, 4] @ W [4, 4], Concat with X to [2 N, 4], Shape, Abs, Reshape."""
    work = computed(memory_demo_model()).work
    at = [numbers(node, {"N": 10}) for node in work]
    assert [node.op for node in work] == ["MatMul", "Concat", "Shape", "Abs", "Reshape"]
    assert [node.node for node in work] == [0, 1, 2, 3, 4]
    assert at == [
        (160, 320, 160 + 64, 160),
        (0, 0, 320, 320),
        (0, 0, 0, 16),  # two int64; the tensor itself is not read
        (0, 80, 320, 320),
        (0, 0, 0, 0),  # a view
    ]
    assert str(work[0].macs) == "16*N"
    assert repr(work) == "ModelWork(5 nodes, 0 unknown, dims N)"
    assert work.unruled == ()


def test_totals_are_the_sums_over_the_nodes() -> None:
    context = computed(memory_demo_model())
    totals = context.work_totals(N=10)
    assert (totals.macs, totals.flops, totals.read, totals.written) == (160, 400, 864, 816)
    assert (totals.nodes, totals.unknown) == (5, 0)
    assert totals.intensity == pytest.approx(400 / 1680)
    assert list(totals.by_operator) == ["MatMul", "Abs", "Concat", "Reshape", "Shape"]
    assert totals.by_operator["Abs"].flops == 80
    assert totals.by_operator["Abs"].intensity == pytest.approx(80 / 640)
    assert context.work_totals({"N": 10}) == totals


def test_intensity_of_a_node() -> None:
    work = computed(memory_demo_model()).work
    # 320 FLOPs over 224 + 160 bytes; other dimensions may be given, too
    assert work[0].intensity(N=10) == pytest.approx(320 / 384)
    assert work[0].intensity({"N": 10}, other=3) == pytest.approx(320 / 384)
    assert work[4].intensity(N=10) is None
    with pytest.raises(SizeError):
        work[0].intensity()


def test_sizes_are_checked() -> None:
    context = computed(memory_demo_model())
    with pytest.raises(SizeError, match="N"):
        context.work_totals()
    with pytest.raises(SizeError, match="array"):
        context.work_totals(N=[1, 2])


def test_work_is_counted_when_it_is_asked_for_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = ComputeContext.compute.__globals__["count_work"]

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    monkeypatch.setitem(ComputeContext.compute.__globals__, "count_work", counted)
    context = computed(memory_demo_model())
    assert calls == []
    assert context.work is context.work
    context.work_totals(N=1)
    assert calls == [1]
    context.compute(one_node("Abs", ["float[2]"], ["float[2]"]))
    assert [node.op for node in context.work] == ["Abs"]


def test_a_context_that_computed_nothing_has_no_work() -> None:
    assert ComputeContext().work == ()
    assert ComputeContext().work_totals().flops == 0


def test_an_input_that_is_given_twice_is_read_once() -> None:
    model = text_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { y = Mul(x, x) }'
    )
    assert numbers(computed(model).work[0], {"N": 3}) == (0, 3, 12, 12)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "options", "read", "written"),
    [
        # 2 rows of 4 floats, and two indices of 8 bytes; not the table of 1000 rows
        ("Gather", ["float[1000,4]", "int64[2]"], ["float[2,4]"], {}, 48, 32),
        ("GatherElements", ["float[9,4]", "int64[2,4]"], ["float[2,4]"], {}, 96, 32),
        ("GatherND", ["float[9,4]", "int64[3,2]"], ["float[3]"], {}, 12 + 48, 12),
        ("Slice", ["float[9,4]", np.array([1]), np.array([3])], ["float[2,4]"], {}, 48, 32),
        # 64 numbers of 4 bits, 2 indices, 10 scales
        (
            "GatherBlockQuantized",
            ["uint8[10,16]", "int64[2]", "float[10,1]"],
            ["float[2,32]"],
            {"domain": "com.microsoft", "block_size": 32},
            32 + 16 + 40,
            256,
        ),
        # all of it
        ("Transpose", ["float[9,4]"], ["float[4,9]"], {}, 144, 144),
        ("Expand", ["float[1,4]", np.array([9, 4])], ["float[9,4]"], {}, 32, 144),
        ("Split", ["float[4,2]"], ["float[2,2]", "float[2,2]"], {"num_outputs": 2}, 32, 32),
        # the shape alone, or the type alone
        ("Size", ["float[9,4]"], ["int64[]"], {}, 0, 8),
        ("CastLike", ["float[9]", "double[5,5]"], ["double[9]"], {}, 36, 72),
        # views
        ("Identity", ["float[9,4]"], ["float[9,4]"], {}, 0, 0),
        ("Unsqueeze", ["float[9]", np.array([0])], ["float[1,9]"], {}, 0, 0),
        # the mask of a Dropout that does nothing is written all the same
        ("Dropout", ["float[9]"], ["float[9]", "bool[9]"], {}, 0, 9),
        # 5 numbers of 4 bits are 3 bytes
        ("DequantizeLinear", ["int4[5]", "float[]"], ["float[5]"], {}, 3 + 4, 20),
    ],
)
def test_bytes(
    op: str, inputs: list[Any], outputs: list[str], options: dict[str, Any], read: int, written: int
) -> None:
    work = node_work(op, inputs, outputs, **options)
    assert numbers(work)[2:] == (read, written), work.reason


def test_what_has_no_size_is_unknown_and_not_nothing() -> None:
    model = text_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float y)'
        "{ i = NonZero(x) j = Transpose(i) k = Cast <to = 1> (j) y = ReduceSum <keepdims = 0> (k) }"
    )
    context = computed(model)
    non_zero, transposed, cast, reduced = context.work
    assert numbers(non_zero, {"N": 5}) == (0, 5, 20, None)
    assert numbers(transposed, {"N": 5}) == (0, 0, None, None)
    assert numbers(cast, {"N": 5}) == (0, 0, None, None)
    assert numbers(reduced, {"N": 5}) == (None, None, None, 4)
    assert "'k'" in reduced.reason
    assert reduced.is_ruled
    assert cast.intensity(N=5) is None
    totals = context.work_totals(N=5)
    assert (totals.flops, totals.unknown, totals.intensity) == (5, 4, None)
    assert totals.by_operator["ReduceSum"].unknown == 1


def test_an_operator_that_nobody_knows_is_unruled() -> None:
    work = computed(one_node("Mystery", ["float[2]"], ["float[3]"], domain="made.up")).work
    assert work.unruled == ("made.up::Mystery",)
    # what it computes is unknown; its operands are known
    assert numbers(work[0]) == (None, None, 8, 12)
    assert not work[0].is_ruled
    assert work[0].reason == "no rule counts its operator"


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "options"),
    [
        ("Conv", ["float[2]", "float[3]"], ["float[2]"], {}),
        ("Einsum", ["float[2]"], ["float[2]"], {"equation": "ijk->i"}),
        ("Einsum", ["float[2]", "float[2]"], ["float[2]"], {"equation": "i->i"}),
        ("Softmax", ["float[2]"], ["float[2]"], {"axis": 7, "opset": 11}),
        ("MaxPool", ["float[1,1,4]"], ["float[1,1,4]"], {}),
        ("LSTM", ["float[2]", "float[2]", "float[2]"], ["float[2]"], {}),
        ("Attention", ["float[1,2,8]", "float[1,2,8]", "float[1,2,8]"], ["float[1,2,8]"], {}),
        ("Resize", ["float[2]"], ["float[2,2]"], {"mode": "linear"}),
        ("RNN", ["float[1,1,1]", "float[1,1,1]", "float[1,1,1]"], ["float[1,1,1,1]"],
         {"activations": ["<script>"]}),
    ],
)  # fmt: skip
def test_a_node_that_breaks_its_specification_is_unknown_or_counted(
    op: str, inputs: list[Any], outputs: list[str], options: dict[str, Any]
) -> None:
    work = node_work(op, inputs, outputs, **options)
    assert work.flops is None or op == "Softmax"
    assert bool(work.reason) == work.is_unknown


def test_an_attribute_of_a_function_is_no_number() -> None:
    model = one_node("Gelu", ["float[2]"], ["float[2]"])
    model.graph.node[0].attribute.add(
        name="approximate", type=onnx.AttributeProto.STRING, ref_attr_name="a"
    )
    work = computed(model).work[0]
    assert work.flops is None
    assert "refers to 'a'" in work.reason


def test_texts_have_no_bytes() -> None:
    assert numbers(node_work("Identity", ["string[2]"], ["string[2]"])) == (0, 0, 0, 0)
    work = node_work("StringConcat", ["string[2]", "string[2]"], ["string[2]"])
    assert numbers(work) == (None,) * 4


def alexnet_at_224() -> int:
    """The sum over its layers of places × filters × taps, two of them in two groups; 224 pixels make 54, 26, 12, 6."""
    convolutions = (
        54 * 54 * 96 * 3 * 121
        + 26 * 26 * 256 * 48 * 25
        + 12 * 12 * (384 * 256 + 384 * 192 + 256 * 192) * 9
    )
    return convolutions + 6 * 6 * 256 * 4096 + 4096 * 4096 + 4096 * 1000


@pytest.mark.parametrize(
    ("name", "macs", "within"),
    [
        # https://docs.pytorch.org/vision/stable/models.html, "GFLOPS", which are MACs
        ("resnet50", 4.09e9, 0.01),
        ("vgg19", 19.63e9, 0.01),
        ("densenet121", 2.83e9, 0.01),
        ("squeezenet", 0.35e9, 0.01),  # version 1.1
        # https://arxiv.org/abs/1409.4842: "1.5 billion multiply-adds"
        ("inception_v1", 1.5e9, 0.05),
        ("bvlc_alexnet", alexnet_at_224(), 0),
    ],
)
def test_published_totals(name: str, macs: float, within: float) -> None:
    context = ComputeContext()
    context.compute(LIGHT / f"light_{name}.onnx")
    totals = context.work_totals()
    assert totals.macs == pytest.approx(macs, rel=within)
    assert 2 * totals.macs < totals.flops < 2.2 * totals.macs
    assert totals.unknown == 0


def test_a_transformer_at_several_sizes() -> None:
    """MiniLM by its layers: 6 of width 384, hidden 1536; pooling takes no MACs."""
    context = ComputeContext()
    context.compute(packaged_model("minilm"))
    for batch, sequence in [(1, 16), (2, 128), (3, 77)]:
        projections = 4 * 384 * 384 + 2 * 384 * 1536
        layer = batch * sequence * (projections + 2 * sequence * 384)
        totals = context.work_totals(batch=batch, sequence=sequence)
        assert totals.macs == 6 * layer
        assert totals.unknown == 0
    assert context.work.unruled == ()


@pytest.mark.parametrize("attributes", [{}, {"axis": 9, "activations": [1], "kernel_shape": [0]}])
@pytest.mark.parametrize("rank", range(6))
def test_no_rule_breaks_on_a_node_that_does_not_fit(rank: int, attributes: dict[str, Any]) -> None:
    """Inputs and outputs that are not the operator's, without the attributes that it needs."""
    shape = f"float[{','.join('23456'[:rank])}]"
    nodes = [
        helper.make_node(op, ["x"] * 9, [f"y{k}"], domain=domain, **attributes)
        for k, (domain, op) in enumerate(rules())
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", shape)], [value(node.output[0], shape) for node in nodes]
    )
    domains = {node.domain for node in nodes}
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(domain, DOMAINS[domain]) for domain in domains]
    )
    work = declared_work(model)
    assert len(work) == len(nodes)
    assert [node.op for node in work if bool(node.reason) != node.is_unknown] == []


def test_every_operator_with_a_kernel_has_a_rule_or_a_reason() -> None:
    own = {
        (entry.domain, entry.op_type)
        for entry in supported_operators(onnxruntime=False)
        if entry.tier == "own"
    }
    run_others = {("", op) for op in ("If", "Loop", "Scan", "SequenceMap")}
    assert {key for key in own if find_rule(*key) is None} == set(WITHOUT_RULE) | run_others
    assert all(WITHOUT_RULE.values())


def test_a_default_domain_by_its_long_name() -> None:
    model = one_node("Relu", ["float[2]"], ["float[2]"])
    model.graph.node[0].domain = "ai.onnx"
    assert numbers(computed(model).work[0]) == (0, 2, 8, 8)


def test_a_constant_gives_the_length_of_a_transform() -> None:
    graph = helper.make_graph(
        [
            helper.make_node(
                "Constant", [], ["axis"], value=helper.make_tensor("", TensorProto.INT64, [], [1])
            ),
            helper.make_node("DFT", ["x", "", "axis"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8, 2])],
    )
    model: ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )
    assert numbers(computed(model).work[1], {"N": 4})[:2] == (0, 4 * 120)
