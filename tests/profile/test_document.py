"""The printed profile: sections, order, number of rows, what is said where, and times only when asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.profile.document import memory_chart, profile_document
from onnx_notebook_profiler.profile.result import Profile
from onnx_notebook_profiler.render.sections import Table
from tests.models import add_chain_model, memory_demo_model, mul_add_model
from tests.symbolic.rows import graph


def demo() -> Profile:
    return onp.profile(memory_demo_model(), dims={"N": 8})


def nodes_of(profile: Profile, **options: Any) -> Table:
    (section,) = [
        one for one in profile_document(profile, **options).sections if one.title == "Nodes"
    ]
    table = section.body[0]
    assert isinstance(table, Table)
    return table


def test_sections_and_their_order() -> None:
    document = profile_document(demo())
    assert [(one.title, one.folded) for one in document.sections] == [
        ("Memory", False),
        ("Nodes", False),
        ("Buffers alive at the peak", False),
        ("Operators", False),
        ("Events", True),
    ]
    assert document.title == "compute_context_memory_demo (N=8)"
    titles = re.findall(r"^(.+)\n-+$", demo().to_text(), re.MULTILINE)
    assert titles == ["Memory", "Nodes", "Buffers alive at the peak", "Operators", "Events"]


def test_unknown_sizes_have_a_section_where_there_are_any() -> None:
    model = graph("g (float[N] x) => (int64[1,K] y) { y = NonZero(x) }")
    profile = onp.profile(model, dims={"N": 3})
    document = profile_document(profile)
    assert [one.title for one in document.sections][-2:] == ["Unknown sizes", "Events"]
    text = profile.to_text()
    assert "1 value has a size that no formula gives" in text
    assert "Sizes are known by formula for 1 of 2 values; no prediction holds the others." in text
    assert "No node could be predicted" in text
    assert profile.nodes[0].predicted_bytes is None
    assert profile.nodes[0].live_bytes == 24  # three indices; the run knows


def test_headline_names_peak_and_generated_feeds() -> None:
    headline = profile_document(demo()).headline
    # W 64, C 256 and S 16; A is 256 too, and the output is a view of it.
    assert headline == "Peak 592 B at node 3 Abs. Generated values were fed to X."
    given = onp.profile(memory_demo_model(), {"X": np.ones((8, 4), np.float32)})
    assert profile_document(given).headline == "Peak 592 B at node 3 Abs."


def test_memory_paragraph_adds_up() -> None:
    text = " ".join(demo().to_text().split())
    assert "592 B at node 3 Abs: 336 B in the execution account" in text
    assert "256 B of outputs" in text
    assert "equal at 5 of 5 nodes" in text


def test_differences_are_named_in_the_paragraph() -> None:
    x = np.ones((2, 8), np.float32)[:, ::2]
    text = " ".join(onp.profile(memory_demo_model(), {"X": x}).to_text().split())
    assert "differ at 5 nodes: feeds copied to be contiguous." in text


def test_times_only_when_asked_for() -> None:
    profile = demo()
    assert "time" not in profile.to_text()
    timed = profile.to_text(times=True)
    assert "time" in timed
    assert re.search(r"take \d+% of \d", timed)
    assert profile.to_text() != timed


def test_order_of_nodes() -> None:
    profile = demo()
    assert [row[0] for row in nodes_of(profile).rows] == [0, 1, 2, 3, 4]
    by_time = nodes_of(profile, sort="time")
    times = [profile.nodes[int(str(row[0]))].time_ns for row in by_time.rows]
    assert times == sorted(times, reverse=True)
    by_memory = nodes_of(profile, sort="memory")
    live = [profile.nodes[int(str(row[0]))].live_bytes or 0 for row in by_memory.rows]
    assert live == sorted(live, reverse=True)
    assert by_memory.rows[0][0] == 3
    # The peak stays marked wherever it stands.
    for table in (nodes_of(profile), by_time, by_memory):
        assert [table.rows[at][0] for at in table.marked] == [3]


def test_top_limits_rows_and_counts_the_rest() -> None:
    profile = demo()
    table = nodes_of(profile, top=2)
    # two rows, and the peak wherever it is
    assert [row[0] for row in table.rows] == [0, 1, 3]
    assert table.more == 2
    assert nodes_of(profile, top=0).more == 5
    assert nodes_of(profile, top=99).more == 0
    assert "3 more" in profile.to_text(top=2)
    assert "3 more" in profile.to_html(top=2)


def test_long_models_are_cut_to_forty_rows() -> None:
    profile = onp.profile(add_chain_model(300))
    table = nodes_of(profile)
    assert (len(table.rows), table.more) == (40, 260)
    assert len(memory_chart(profile).labels) == 300
    assert len(profile.to_text().splitlines()) < 400


@pytest.mark.parametrize("options", [{"sort": "size"}, {"top": -1}])
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sort|top"):
        demo().to_text(**options)
    with pytest.raises(ValueError, match=r"sort|top"):
        demo().to_html(**options)


def test_chart() -> None:
    profile = demo()
    chart = memory_chart(profile)
    assert [one.name for one in chart.series] == ["live", "peak so far", "predicted"]
    assert list(chart.series[0].values) == [node.live_bytes for node in profile.nodes]
    assert list(chart.series[1].values) == [node.peak_bytes for node in profile.nodes]
    assert chart.peak == 3
    assert chart.note == "5 of 5 nodes ran; 5 of them are predicted"
    unknown = onp.profile(graph("g (float[N] x) => (int64[1,K] y) { y = NonZero(x) }"))
    assert [one.name for one in memory_chart(unknown).series] == ["live", "peak so far"]


def test_the_tables_of_a_small_model() -> None:
    text = onp.profile(mul_add_model(), dims={"N": 1024}).to_text()
    assert text[text.index("Nodes\n") :] == TABLES.strip("\n")


TABLES = """
Nodes
-----
  node  op   name  output (B)  live (B)  peak (B)  predicted (B)
  ----  ---  ----  ----------  --------  --------  -------------
     0  Mul             4,096     4,100     4,100          4,100
>    1  Add             4,096     8,196     8,196          8,196

Buffers alive at the peak
-------------------------
buffer  bytes  of the peak  account      made by
------  -----  -----------  -----------  ----------
z       4,096       50.0 %  execution    node 0 Mul
w       4,096       50.0 %  io           node 1 Add
two         4       <0.1 %  initializer

Operators
---------
op   nodes  output (B)  most live (B)
---  -----  ----------  -------------
Add      1       4,096          8,196
Mul      1       4,096          4,100

Events
------
7 events: 4 add, 2 run_node, 1 remove.

action    kind          name or op  node  execution (B)  execution peak (B)  io (B)
--------  ------------  ----------  ----  -------------  ------------------  ------
add       input         x                             0                   0       0
add       initializer   two                           4                   4       0
add       intermediate  z              0          4,100               4,100       0
run_node                Mul            0          4,100               4,100       0
add       intermediate  w              1          4,100               4,100   4,096
run_node                Add            1          4,100               4,100   4,096
remove                  z                             4               4,100   4,096
"""


BRANCHES = """<ir_version: 10, opset_import: ["" : 18]>
g (bool c, float[N] x) => (float[N] y) {
  y = If(c) <
    then_branch = t () => (float[N] a) {
      b = Concat<axis = 0>(x, x, x, x) s = ReduceMax<keepdims = 0>(b) a = Add(x, s)
    },
    else_branch = e () => (float[N] d) { d = Neg(x) }
  >
}"""


def test_a_peak_inside_a_branch_is_said_everywhere_alike() -> None:
    feeds = {"c": np.array(True), "x": np.ones(100, np.float32)}
    profile = onp.profile(BRANCHES, feeds)
    # the condition 1, b 1600, s 4; b is gone when a (400) is made
    assert profile.peak_bytes == 1605
    assert profile.nodes[0].live_bytes == 401
    assert profile.peak_label == "node 0 If then_branch, node 1 ReduceMax"
    chart = memory_chart(profile)
    assert chart.series[0].values == (1605,)
    assert profile.nodes[0].predicted_bytes == 401
    text = profile.to_text()
    assert "401" in text
    said = "equal at 1 of 1 nodes and at 3 of 3 nodes inside branches, loops and functions."
    assert said in " ".join(text.split())
    assert sum(buffer.nbytes for buffer in profile.live_at_peak) == 1605


def test_totals_of_nodes_with_bodies_are_whole() -> None:
    context = onp.ComputeContext(account="evaluator")
    context.compute(BRANCHES)
    assert context.body_nodes == (0,)
    assert context.unknown_nodes(N=3).tolist() == [False]
    assert not context.unsized_nodes().any()
