"""Fused, channels-last and blocked convolutions and pools, against onnxruntime or against the plain operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.kernels import _channels_last, _columns, blocked_layout
from onnx_notebook_profiler.evaluator.numpy_memory import numpy_memory
from tests.evaluator.kernels.harness import make_kernel, run_node
from tests.oracles import ort

MS, NHWC, NCHWC = "com.microsoft", "com.ms.internal.nhwc", "com.microsoft.nchwc"
F32 = np.float32


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(F32)


def node(op_type: str, inputs: Any, domain: str, **attributes: Any) -> Any:
    names = ["" if x is None else f"x{number}" for number, x in enumerate(inputs)]
    return helper.make_node(op_type, names, ["y"], domain=domain, **attributes)


def ours(op_type: str, *inputs: Any, domain: str = MS, **attributes: Any) -> Any:
    return run_node(node(op_type, inputs, domain, **attributes), inputs, 21 if not domain else 1)[0]


def theirs(op_type: str, *inputs: Any, domain: str = MS, **attributes: Any) -> Any:
    made = node(op_type, inputs, domain, **attributes)
    given = {name: x for name, x in zip(made.input, inputs, strict=True) if x is not None}
    graph = helper.make_graph(
        [made],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in given.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    opsets += [helper.make_opsetid(NCHWC, 1)] if domain == NCHWC else []
    return ort(helper.make_model(graph, opset_imports=opsets, ir_version=9), given)[0]


def close(actual: Any, expected: Any) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=5e-5)


ACTIVATIONS: Any = [
    {},
    {"activation": "Relu"},
    {"activation": "Tanh"},
    {"activation": "Sigmoid"},
    {"activation": "LeakyRelu", "activation_params": [0.3]},
    {"activation": "Clip", "activation_params": [-0.5, 0.75]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
]
GEOMETRIES: Any = [
    {},
    {"strides": [2, 1], "pads": [1, 2, 0, 1]},
    {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("channels", "filters", "group"), [(6, 4, 1), (6, 6, 6), (6, 4, 2)])
def test_fused_convolution_is_that_of_onnxruntime(
    activation: Any, channels: int, filters: int, group: int
) -> None:
    x, w = values(2, channels, 9, 8), values(filters, channels // group, 3, 3)
    bias = values(filters)
    for number, geometry in enumerate(GEOMETRIES):
        how = {"group": group, **geometry, **activation}
        plain = ours("FusedConv", x, w, bias, **how)
        close(plain, theirs("FusedConv", x, w, bias, **how))
        addend = values(*plain.shape, seed=number)
        close(
            ours("FusedConv", x, w, bias, addend, **how),
            theirs("FusedConv", x, w, bias, addend, **how),
        )
        close(ours("FusedConv", x, w, **how), theirs("FusedConv", x, w, **how))


@pytest.mark.parametrize(("rank", "op_type"), [(1, "FusedConv"), (3, "FusedConv")])
def test_fused_convolution_of_other_ranks(rank: int, op_type: str) -> None:
    x, w, bias = values(1, 2, *[6] * rank), values(3, 2, *[2] * rank), values(3)
    expected = np.maximum(ours("Conv", x, w, bias, domain=""), 0)
    close(ours(op_type, x, w, bias, activation="Relu"), expected)


def test_fused_convolution_of_one_element_works_in_pieces() -> None:
    x, w, bias = values(2, 3, 400, 400), values(8, 3, 1, 1), values(8)
    addend = values(2, 8, 400, 400)
    expected = np.maximum(ours("Conv", x, w, bias, domain="") + addend, 0)
    close(ours("FusedConv", x, w, bias, addend, activation="Relu"), expected)


@pytest.mark.parametrize(
    ("op_type", "domain"), [("NhwcConv", MS), ("NhwcFusedConv", MS), ("Conv", NHWC)]
)
@pytest.mark.parametrize(
    ("channels", "filters", "group"), [(6, 4, 1), (6, 6, 6), (6, 12, 6), (6, 4, 2), (1, 3, 1)]
)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_channels_last_is_channels_second_turned(
    op_type: str, domain: str, channels: int, filters: int, group: int, geometry: Any
) -> None:
    x, w = values(2, channels, 9, 8), values(filters, channels // group, 3, 3)
    bias = values(filters)
    how = {"group": group, **geometry}
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    expected = np.moveaxis(ours("Conv", x, w, bias, domain="", **how), 1, -1)
    close(ours(op_type, last, w, bias, domain=domain, **how), expected)
    close(
        ours(op_type, last, w, domain=domain, **how),
        np.moveaxis(ours("Conv", x, w, domain="", **how), 1, -1),
    )
    if op_type == "NhwcFusedConv":
        addend = values(*expected.shape)
        fused = ours(op_type, last, w, bias, addend, activation="Relu", **how)
        close(fused, np.maximum(expected + addend, 0))


@pytest.mark.parametrize("rank", [1, 3])
def test_channels_last_of_other_ranks(rank: int) -> None:
    x, w = values(2, 4, *[5] * rank), values(6, 4, *[2] * rank)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    close(ours("NhwcConv", last, w), np.moveaxis(ours("Conv", x, w, domain=""), 1, -1))
    each = values(4, 1, *[2] * rank)
    expected = np.moveaxis(ours("Conv", x, each, domain="", group=4), 1, -1)
    close(ours("NhwcConv", last, each, group=4), expected)


def test_channels_last_in_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, each = values(2, 40, 9, 8), values(48, 40, 3, 3), values(40, 1, 3, 3)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    expected = np.moveaxis(ours("Conv", x, w, domain="", pads=[1] * 4), 1, -1)
    alone = np.moveaxis(ours("Conv", x, each, domain="", pads=[1] * 4, group=40), 1, -1)
    monkeypatch.setattr(_columns, "CACHED", 2**12)
    monkeypatch.setattr(_columns, "LEAST", 1)
    monkeypatch.setattr(_channels_last, "ROOM", 2**12)
    _columns.plan_of.cache_clear()
    close(ours("NhwcConv", last, w, pads=[1] * 4), expected)
    close(ours("NhwcConv", last, each, pads=[1] * 4, group=40), alone)
    _columns.plan_of.cache_clear()


def test_narrow_channels_last_is_rounded_once() -> None:
    x = np.array([2048, 1, 1, 1, 1], np.float16).reshape(1, 5, 1)
    assert ours("NhwcFusedConv", x, np.ones((1, 1, 5), np.float16)).item() == 2052


# blocked layouts: 16 channels lie together


def blocked(x: Any, block: int = 16) -> Any:
    """[N, C, H, W] as the optimiser's tensors hold it."""
    n, c, h, w = x.shape
    padded = np.zeros((n, -(-c // block) * block, h, w), x.dtype)
    padded[:, :c] = x
    turned = padded.reshape(n, -1, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(turned).reshape(padded.shape)


def blocked_filters(w: Any, *, plain: bool, block: int = 16) -> Any:
    m, c, kh, kw = w.shape
    if plain:
        turned = w.reshape(m // block, block, c, kh, kw).transpose(0, 2, 3, 4, 1)
    else:
        turned = w.reshape(m // block, block, c // block, block, kh, kw).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(turned).reshape(w.shape)


CPU_BLOCK = 16  # what the code takes where numbers of channels allow for it


@pytest.mark.parametrize("channels", [16, 32, 20])
@pytest.mark.parametrize("last", [0, 1])
def test_reordering(channels: int, last: int) -> None:
    x = values(2, channels, 3, 5)
    given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x
    inner = ours("ReorderInput", given, domain=NCHWC, channels_last=last)
    np.testing.assert_array_equal(inner, blocked(x))
    back = ours("ReorderOutput", inner, domain=NCHWC, channels=channels, channels_last=last)
    np.testing.assert_array_equal(back, given)


def test_blocks_of_eight_where_sixteen_do_not_divide() -> None:
    x = values(1, 24, 3, 5)
    inner = blocked(x, 8)
    back = ours("ReorderOutput", inner, domain=NCHWC, channels=24)
    np.testing.assert_array_equal(back, x)
    w = values(40, 24, 3, 3)
    y = ours("Conv", inner, blocked_filters(w, plain=False, block=8), domain=NCHWC)
    close(y, blocked(ours("Conv", x, w, domain=""), 8))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("channels", "filters", "group"),
    [(3, 32, 1), (16, 16, 1), (32, 64, 1), (32, 32, 32), (32, 64, 2)],
)
def test_blocked_convolution(activation: Any, channels: int, filters: int, group: int) -> None:
    x, w = values(2, channels, 9, 8), values(filters, channels // group, 3, 3)
    bias = values(filters)
    plain_input = channels < 16
    stored = blocked_filters(w, plain=plain_input or group == filters)
    given = x if plain_input else blocked(x)
    for geometry in GEOMETRIES:
        how = {"group": group, **geometry}
        made = ours("FusedConv", x, w, bias, **how, **activation)
        close(ours("Conv", given, stored, bias, domain=NCHWC, **how, **activation), blocked(made))
        addend = values(*made.shape)
        expected = ours("FusedConv", x, w, None, addend, **how, **activation)
        found = ours(
            "Conv", given, stored, None, blocked(addend), domain=NCHWC, **how, **activation
        )
        close(found, blocked(expected))


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "geometry",
    [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
        {"ceil_mode": 1, "strides": [2, 2]},
    ],
)
def test_pools_in_other_layouts(op_type: str, geometry: Any) -> None:
    x = values(2, 32, 7, 9)
    how = {"kernel_shape": [3, 2], **geometry}
    expected = ours(op_type, x, domain="", **how)
    close(ours(op_type, blocked(x), domain=NCHWC, **how), blocked(expected))
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    made = run_node(node(op_type, [last], NHWC, **how), [last], 19)[0]
    close(made, np.moveaxis(expected, 1, -1))
    if op_type == "MaxPool":
        small = (last * 20).astype(np.int8)
        turned = ours("MaxPool", (x * 20).astype(np.int8), domain="", **how)
        found = ours("NhwcMaxPool", small, **how)
        assert found.dtype == np.int8
        np.testing.assert_array_equal(found, np.moveaxis(turned, 1, -1))


@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool"])
def test_global_pools_in_other_layouts(op_type: str) -> None:
    x = values(2, 32, 7, 9)
    expected = ours(op_type, x, domain="")
    close(ours(op_type, blocked(x), domain=NCHWC), blocked(expected))
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    close(ours(op_type, last, domain=NHWC), np.moveaxis(expected, 1, -1))


@pytest.mark.parametrize("how", [{"mode": "nearest"}, {"mode": "linear"}])
@pytest.mark.parametrize("transformation", ["asymmetric", "half_pixel", "align_corners"])
def test_blocked_upsampling(how: Any, transformation: str) -> None:
    if how["mode"] == "nearest":
        transformation = "asymmetric"
    x = values(2, 32, 3, 5)
    how = {**how, "coordinate_transformation_mode": transformation}
    made = helper.make_node("Resize", ["x", "", "s"], ["y"], nearest_mode="floor", **how)
    inputs = [x, None, np.array([1, 1, 2, 3], F32)]
    expected = run_node(made, inputs, 13)[0]
    kernel = blocked_layout.BlockedUpsample(
        node_spec(node("Upsample", [x], NCHWC, scales=[1, 1, 2, 3], **how), 1)
    )
    out = np.empty(*kernel.infer([blocked(x)])[0])
    kernel.compute([blocked(x)], [out])
    close(out, blocked(expected))
    if their_block() == CPU_BLOCK:
        close(out, theirs("Upsample", blocked(x), domain=NCHWC, scales=[1, 1, 2, 3], **how))


def their_block() -> int:
    """The block that onnxruntime has on this processor."""
    x = np.arange(32, dtype=F32).reshape(1, 32, 1, 1).repeat(2, axis=3)
    flat = theirs("ReorderInput", x, domain=NCHWC).reshape(-1)
    return int(np.argmax(np.diff(flat) < 0)) + 1


@pytest.mark.skipif(their_block() != CPU_BLOCK, reason="onnxruntime has other blocks here")
def test_blocked_operators_are_those_of_onnxruntime() -> None:
    x, bias, addend = values(1, 32, 8, 9), values(48), values(1, 48, 8, 9)
    given = blocked(x)
    np.testing.assert_array_equal(theirs("ReorderInput", x, domain=NCHWC), given)
    w = blocked_filters(values(48, 32, 3, 3), plain=False)
    how: Any = {"domain": NCHWC, "pads": [1] * 4, "activation": "Relu", "kernel_shape": [3, 3]}
    inputs = (given, w, bias, addend)
    close(ours("Conv", *inputs, **how), theirs("Conv", *inputs, **how))
    each = blocked_filters(values(32, 1, 3, 3), plain=True)
    close(ours("Conv", given, each, group=32, **how), theirs("Conv", given, each, group=32, **how))
    few, stem = values(1, 3, 8, 9), blocked_filters(values(16, 3, 3, 3), plain=True)
    close(ours("Conv", few, stem, **how), theirs("Conv", few, stem, **how))
    pool: Any = {"domain": NCHWC, "kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]}
    for op_type in ("MaxPool", "AveragePool"):
        close(ours(op_type, given, **pool), theirs(op_type, given, **pool))
    for op_type in ("GlobalMaxPool", "GlobalAveragePool"):
        close(ours(op_type, given, domain=NCHWC), theirs(op_type, given, domain=NCHWC))


# scratch and messages


@pytest.mark.parametrize(
    ("op_type", "domain", "shape", "filters", "group"),
    [
        ("FusedConv", MS, (1, 64, 160, 160), (64, 64, 3, 3), 1),
        ("NhwcConv", MS, (1, 160, 160, 64), (64, 64, 3, 3), 1),
        ("NhwcConv", MS, (1, 160, 160, 64), (64, 1, 3, 3), 64),
        ("Conv", NCHWC, (1, 64, 160, 160), (64, 64, 3, 3), 1),
        ("Conv", NCHWC, (1, 64, 160, 160), (64, 1, 3, 3), 64),
    ],
)
def test_scratch_stays_within_the_bound(
    op_type: str, domain: str, shape: Any, filters: Any, group: int
) -> None:
    x, w, bias = np.ones(shape, F32), np.ones(filters, F32), np.ones(filters[0], F32)
    made = node(op_type, [x, w, bias], domain, group=group, pads=[1] * 4, activation="Relu")
    kernel = make_kernel(made, 1)
    out = np.empty(*kernel.infer([x, w, bias])[0])
    with numpy_memory() as memory:
        kernel.compute([x, w, bias], [out])
    assert memory.live == 0
    assert memory.peak <= 2**22 + 2 * w.nbytes


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ((values(1, 2, 5), values(3, 2, 2), None, values(1, 3, 5)), {}, "Z looks like Y"),
        ((values(1, 2, 5), values(3, 1, 2)), {}, "group 1"),
        ((values(1, 2, 5), values(3, 2, 2)), {"activation": "Clip"}, "needs 2"),
    ],
)
def test_what_does_not_fit(inputs: Any, attributes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours("FusedConv", *inputs, **attributes)


def test_what_is_left_to_others() -> None:
    x, w = values(1, 2, 5), values(3, 2, 2)
    with pytest.raises(UnsupportedOperatorError, match="Gelu"):
        ours("FusedConv", x, w, activation="Gelu")
    with pytest.raises(UnsupportedOperatorError, match="int32"):
        ours("FusedConv", x.astype(np.int32), w.astype(np.int32))
    two = helper.make_node("MaxPool", ["x"], ["y", "i"], domain=NHWC, kernel_shape=[2])
    with pytest.raises(UnsupportedOperatorError, match="Indices"):
        run_node(two, [x], 12)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Conv", (values(1, 16, 5, 5), values(12, 16, 1, 1)), {}, "blocks hold 16 or 8"),
        ("Conv", (values(1, 16, 5, 5), values(16, 8, 1, 1)), {}, "do not fit group 1"),
        ("Conv", (values(1, 16, 5), values(16, 16, 1, 1)), {}, "got shape"),
        ("Conv", (values(1, 16, 5, 5), values(16, 16, 1, 1), values(1)), {}, "bias"),
        ("ReorderOutput", (values(1, 16, 5, 5),), {"channels": 17}, "1 to 16"),
        ("MaxPool", (values(1, 16, 5, 5),), {"kernel_shape": [2]}, "two axes"),
    ],
)
def test_blocks_that_do_not_fit(op_type: str, inputs: Any, attributes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours(op_type, *inputs, domain=NCHWC, **attributes)


def test_the_block_is_the_larger_that_divides() -> None:
    assert [blocked_layout.block_of(*some) for some in ((16,), (24,), (32, 8), (64, 48))] == [
        16,
        8,
        8,
        16,
    ]
