"""The memory explorer, driven from Python; moves by a person are tested in the browser."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import pytest
from onnx import ModelProto, helper

from onnx_notebook_profiler import ComputeContext, MemoryExplorer, SizeError, explore
from onnx_notebook_profiler.notebook.controls import DimensionControl, slider_sizes
from tests.models import add_chain_model, memory_demo_model, memory_demo_totals, text_model

HOSTILE = "<img src=x onerror=alert(1)>$a$"


def controls(explorer: MemoryExplorer) -> list[DimensionControl]:
    return [child for child in explorer.children if isinstance(child, DimensionControl)]


def part(explorer: MemoryExplorer, name: str) -> str:
    """The HTML of the part with a class name."""
    (found,) = [child for child in explorer.children if name in child._dom_classes]
    return str(found.value)


def symbolic_chain(length: int) -> ModelProto:
    model = add_chain_model(length)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    return model


def test_values_of_the_seed() -> None:
    explorer = explore(memory_demo_model(), N=8)
    assert explorer.totals.tolist() == [320, 576, 464, 464, 464]
    assert (explorer.peak, explorer.peak_node, explorer.dims) == (576, 1, {"N": 8})
    assert isinstance(explorer.context, ComputeContext)
    assert "onp-explorer" in explorer._dom_classes


def test_assigned_sizes_move_the_controls() -> None:
    explorer = explore(memory_demo_model())
    explorer.dims = {"N": 32}
    (control,) = controls(explorer)
    assert control.box.value == 32
    assert explorer.totals.tolist() == memory_demo_totals(32)
    assert "2,112" in part(explorer, "onp-totals")
    assert "2,112 B at node 1 Concat" in part(explorer, "onp-headline")


def test_slider_and_box_move_each_other() -> None:
    explorer = explore(memory_demo_model(), N=8)
    (control,) = controls(explorer)
    control.slider.value += 1
    assert (control.box.value, explorer.dims) == (9, {"N": 9})
    assert explorer.totals.tolist() == memory_demo_totals(9)
    control.box.value = 40
    assert control.slider.value == 39  # the slider stops at 1, 2, 3, ...
    assert explorer.totals.tolist() == memory_demo_totals(40)


def test_a_size_between_the_sliders_stops_is_kept() -> None:
    explorer = explore(memory_demo_model())
    (control,) = controls(explorer)
    control.box.value = 4001
    assert explorer.dims == {"N": 4001}
    assert explorer.totals.tolist() == memory_demo_totals(4001)


def test_the_slider_grows_with_the_box() -> None:
    explorer = explore(memory_demo_model(), N=(2, 10))
    (control,) = controls(explorer)
    assert control.slider.max == 8
    for size in (5000, 0):
        control.box.value = size
        assert explorer.dims == {"N": size}
        assert explorer.totals.tolist() == memory_demo_totals(size)
    control.slider.value = control.slider.max
    assert explorer.dims == {"N": 8192}
    control.slider.value = control.slider.min
    assert explorer.dims == {"N": 0}


def test_stops_of_a_slider() -> None:
    assert slider_sizes(3, 6) == (3, 4, 5, 6)
    wide = slider_sizes(1, 5000)
    assert wide[:64] == tuple(range(1, 65))
    assert {96, 128, 384, 512, 768, 1024, 4096, 5000} <= set(wide)
    assert len(wide) < 300
    assert all(after - before <= before / 16 for before, after in pairwise(wide[64:-1]))
    assert slider_sizes(100, 100) == (100,)


def test_shapes_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    compute = ComputeContext.compute

    def counting(self: ComputeContext, *args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        compute(self, *args, **kwargs)

    monkeypatch.setattr(ComputeContext, "compute", counting)
    explorer = explore(memory_demo_model())
    for size in range(1, 20):
        explorer.dims = {"N": size}
    assert count == 1


def test_where_sliders_start_and_how_far_they_reach() -> None:
    model = text_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "g (float[batch, seq] x) => (float[batch, seq] y) { y = Abs(x) }"
    )
    assert explore(model).dims == {"batch": 1, "seq": 32}
    assert explore(model, {"seq": 7}, batch=2).dims == {"batch": 2, "seq": 7}
    assert explore(model, seq=(64, 128)).dims == {"batch": 1, "seq": 64}


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"K": 1}, "no symbolic dimension 'K': it has N"),
        ({"N": -1}, "'N' takes an integer"),
        ({"N": 1.5}, "1.5"),
        ({"N": True}, "True"),
        ({"N": 2**60}, "takes an integer from 0"),
        ({"N": (1, 2, 3)}, "pair"),
        ({"N": (5, 2)}, "lowest"),
    ],
)
def test_sizes_that_are_refused(dims: dict[str, Any], words: str) -> None:
    with pytest.raises(SizeError, match=words.replace("(", r"\(")):
        explore(memory_demo_model(), dims)


def test_assignment_refuses_all_or_takes_all() -> None:
    explorer = explore(memory_demo_model(), N=8)
    for wrong in ({"K": 1}, {"N": -1}, {"N": "8"}):
        with pytest.raises(SizeError):
            explorer.dims = wrong  # type: ignore[assignment]
    assert explorer.dims == {"N": 8}
    assert explorer.totals.tolist() == [320, 576, 464, 464, 464]


def test_overflow_is_said_in_the_headline() -> None:
    model = text_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "g (float[A, B, C] x) => (float[A, B, C] y) { y = Abs(x) }"
    )
    explorer = explore(model, A=1, B=1, C=1)
    for control in controls(explorer):
        control.box.value = 10**9
    assert "64-bit" in part(explorer, "onp-headline")
    assert part(explorer, "onp-totals") == part(explorer, "onp-chart") == ""
    assert repr(explorer).endswith("no totals)")
    with pytest.raises(SizeError, match="64-bit"):
        _ = explorer.totals
    controls(explorer)[0].box.value = 1
    controls(explorer)[1].box.value = 1
    assert explorer.peak == 8 * 10**9  # x and y, 4 bytes each


def test_hostile_names_are_text() -> None:
    model = memory_demo_model()
    model.graph.name = HOSTILE
    model.graph.node[1].name = HOSTILE
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    explorer = explore(model)
    html = [str(child.value) for child in explorer.children if hasattr(child, "value")]
    assert len(html) == 3
    assert "&lt;img src=x" in "".join(html)
    assert "<img src=x" not in "".join(html)
    assert "$a$" not in "".join(html)
    (control,) = controls(explorer)
    # the unreadable name is replaced; the author's text is plain text in the tooltip
    assert "<" not in control.slider.description + control.box.description
    assert not control.slider.description_allow_html
    assert not control.box.description_allow_html
    assert HOSTILE in control.slider.tooltip
    assert "\n" not in repr(explorer)


def test_repr_is_deterministic() -> None:
    first, second = (explore(memory_demo_model(), N=8) for _ in range(2))
    expected = "MemoryExplorer('compute_context_memory_demo', N=8: peak 576 B at node 1 Concat)"
    assert repr(first) == repr(second) == expected
    bundle = first._repr_mimebundle_()
    assert bundle["text/plain"] == expected
    assert "text/html" not in bundle


def test_a_model_without_symbolic_dimensions() -> None:
    explorer = explore(add_chain_model(2))
    assert explorer.dims == {}
    assert controls(explorer) == []
    assert "no symbolic dimensions" in part(explorer, "onp-fixed")
    # x and v0 of 16 bytes; then y takes over v0's buffer
    assert explorer.totals.tolist() == [32, 32]
    assert "no symbolic dimensions" in repr(explorer)


def test_a_model_without_nodes() -> None:
    model = memory_demo_model()
    del model.graph.node[:]
    del model.graph.output[:]
    explorer = explore(model)
    assert (explorer.peak, explorer.peak_node, explorer.totals.tolist()) == (0, -1, [])
    assert "no nodes" in repr(explorer)


def test_unknown_sizes_are_at_least() -> None:
    model = text_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "g (float[N] x) => (int64[1, K] y) { z = Abs(x) y = NonZero(z) }"
    )
    explorer = explore(model, N=1024)
    assert explorer.context.unknown_nodes(N=1024).tolist() == [False, True]
    table = part(explorer, "onp-totals")
    assert table.count("≥") == 1
    assert "at least" in part(explorer, "onp-headline")
    assert "1 of 2 totals" in part(explorer, "onp-headline")


def test_a_long_model_shows_the_largest_rows_and_charts_all() -> None:
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Concat", ["x"] * (i + 1), [f"y{i}"], f"c{i}", axis=0)
                for i in range(40)
            ],
            "wide",
            [helper.make_tensor_value_info("x", 1, ["N"])],
            [helper.make_tensor_value_info("y39", 1, None)],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    explorer = explore(model, N=1)
    table = part(explorer, "onp-totals")
    assert "30 of 40 nodes" in table
    assert table.count("<tr") == 31
    # each node makes one more copy of x than the one before: the first ten are the smallest
    assert ">c9<" not in table
    assert ">c10<" in table
    assert table.count("onp-marked") == 1
    assert "40 nodes" in part(explorer, "onp-chart")


def test_the_account_can_be_chosen() -> None:
    explorer = explore(memory_demo_model(), account="evaluator", N=8)
    # by hand: the input belongs to the caller; W and M; then C; C and S; C, S and A; S and A
    assert explorer.totals.tolist() == [192, 448, 336, 592, 336]


def test_a_move_takes_less_than_50_ms_on_1000_nodes() -> None:
    (control,) = controls(explore(symbolic_chain(1000), N=8))
    taken = []
    for _ in range(15):
        start = time.perf_counter()
        control.slider.value += 1
        taken.append(time.perf_counter() - start)
    assert statistics.median(taken) < 0.05
