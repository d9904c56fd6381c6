"""The memory pattern: layouts counted by hand, and held against what has to be true of any layout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.pattern import (
    NO_PATTERN,
    Block,
    MemoryPattern,
    lay_out,
    pattern_applies,
    pattern_key,
    rounded,
)
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan, plan_allocation
from tests.models import text_model

_HEAD = '<ir_version: 10, opset_import: ["" : 18]> agraph'


def planned(text: str) -> AllocationPlan:
    return plan_allocation(load_model(text_model(f"{_HEAD} {text}")))


def test_rounding_is_to_256() -> None:
    assert [rounded(size) for size in (0, 1, 256, 257)] == [0, 256, 256, 512]


@pytest.mark.parametrize(
    ("shapes", "key"),
    [
        ([(16, 64)], 80),
        ([(64, 16)], 80),
        ([(8, 8)], 0),
        ([(1, 1)], 0),
        ([(3, 4), (4, 5)], 3 ^ 5),
        ([()], 0),
        ([], 0),
    ],
)
def test_key_is_the_exclusive_or_of_all_dimensions(shapes: list[tuple[int, ...]], key: int) -> None:
    assert pattern_key(shapes) == key


def test_a_gap_is_taken_where_it_fits_best() -> None:
    # Without reuse of whole buffers: sizes differ. In the order of the run: a 1024, b 512, a goes, c 256 at 0.
    plan = planned(
        "(float[256] x, float[128] z, float[64] v) => (float[64] y, float[128] w)"
        " { a = Exp(x) r = Shape(a) b = Exp(z) c = Exp(v) y = Neg(c) w = Neg(b) }"
    )
    # Leaves r, y, w: w (node 5) with b, then y with c, then r with a.
    assert plan.order.nodes == (2, 5, 3, 4, 0, 1)
    found = lay_out(plan, {"a": 1024, "b": 512, "c": 256, "r": 8})
    # b goes after w, c after y; r lies behind a and lives to the end.
    assert found.blocks == {
        "b": Block(0, 512),
        "c": Block(0, 256),
        "a": Block(0, 1024),
        "r": Block(1024, 256),
    }
    assert found.peak == 1280


def test_the_rest_under_the_highest_offset_is_a_gap_too() -> None:
    plan = planned(
        "(float[256] x, float[128] z, float[64] v) => (float[192] y, float[256] w)"
        " { a = Exp(v) b = Exp(z) y = Concat<axis = 0>(a, b) c = Exp(x) w = Neg(c) }"
    )
    # Leaves y, w: w first with c, which then goes; b at 0, a behind it, under the 1024 bytes that c had.
    assert plan.order.nodes == (3, 4, 1, 0, 2)
    found = lay_out(plan, {"a": 256, "b": 512, "c": 1024})
    assert found.blocks == {"c": Block(0, 1024), "b": Block(0, 512), "a": Block(512, 256)}
    assert found.peak == 1024


def test_strings_outputs_and_reused_buffers_have_no_place() -> None:
    plan = planned(
        "(string[2] x, float[2] z) => (string[4] y, float[2] w)"
        " { a = Concat<axis = 0>(x, x) y = Identity(a) b = Exp(z) c = Relu(b) w = Neg(c) }"
    )
    assert set(lay_out(plan, {"a": 128, "b": 8}).blocks) == {"b"}


def test_a_pattern_holds_values_of_the_same_rounded_size() -> None:
    pattern = MemoryPattern({"a": Block(0, 512)}, 512)
    assert pattern.holds("a", 257)
    assert not pattern.holds("a", 256)
    assert not pattern.holds("b", 512)
    assert not NO_PATTERN.holds("a", 1)


@pytest.mark.parametrize(
    ("value", "applies"),
    [("float[N] x", True), ("float[] x", True), ("float x", True), ("seq(float[N]) x", False)],
)
def test_pattern_applies_to_tensors_of_known_rank(value: str, applies: bool) -> None:
    model = text_model(f"{_HEAD} (float[N] z) => (float[N] y) {{ y = Exp(z) }}")
    if value == "float[] x":
        model.graph.input.add(name="x").type.tensor_type.elem_type = 1
        applies = False
    elif "seq" in value:
        kind = model.graph.input.add(name="x").type.sequence_type.elem_type
        kind.tensor_type.elem_type = 1
    else:
        shape = model.graph.input.add(name="x").type.tensor_type
        shape.elem_type = 1
        shape.shape.SetInParent()
    assert pattern_applies(load_model(model)) is applies


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=12),
)
def test_live_blocks_never_overlap_and_the_peak_is_their_end(
    sizes: list[int], readers: list[int]
) -> None:
    # v0, v1, … one after the other; v_i is read last by the node readers[i], or by none.
    names = [f"v{index}" for index in range(len(sizes))]
    inputs: list[list[str]] = [["x"] for _ in names]
    for index, (name, reader) in enumerate(zip(names, readers, strict=False)):
        if index < reader < len(names):
            inputs[reader].append(name)
    body = " ".join(
        f"{name} = test.Op({', '.join(given)})" for name, given in zip(names, inputs, strict=True)
    )
    head = (
        '<ir_version: 10, opset_import: ["" : 18, "test" : 1]> agraph (float[N] x) => (float[N] y)'
    )
    text = f"{head} {{ {body} y = Exp(x) }}"
    plan = plan_allocation(load_model(text))
    pattern = lay_out(plan, dict(zip(names, sizes, strict=True)))
    live: dict[str, Block] = {}
    ends = [0]
    for node in plan.order.nodes:
        for name in (name for name in names if plan.placements[name].node == node):
            block = pattern.blocks[name]
            assert block.nbytes == rounded(sizes[names.index(name)])
            for other in live.values() if block.nbytes else ():
                apart = (
                    block.offset + block.nbytes <= other.offset
                    or other.offset + other.nbytes <= block.offset
                )
                assert apart or not other.nbytes
            live[name] = block
            ends.append(block.offset + block.nbytes)
        for name in plan.releases.get(node, ()):
            del live[name]
    assert pattern.peak == max(ends)
