"""The progress bar: when it comes, and that nothing is left of it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from onnx_notebook_profiler.notebook.progress import NodeProgress, TerminalLine, _is_wanted

MS = 1_000_000


class Place:
    """Remembers what it was asked to show."""

    def __init__(self) -> None:
        self.visible = False
        self.texts: list[str] = []

    def show(self, data: Mapping[str, str]) -> None:
        self.visible = True
        self.texts.append(data["text/plain"])

    def take_back(self) -> None:
        self.visible = False


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def run(progress: NodeProgress, clock: Clock, nodes: int, ms: int) -> None:
    """A run of *nodes* nodes that take *ms* milliseconds each."""
    for done in range(1, nodes + 1):
        clock.now += ms * MS
        progress(done, nodes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def progress(place: Place, clock: Clock) -> NodeProgress:
    return NodeProgress(place, clock)


def test_short_runs_show_nothing(progress: NodeProgress, place: Place, clock: Clock) -> None:
    for _ in range(100):
        run(progress, clock, 60, 10)
    assert place.texts == []


def test_long_runs_count_nodes(progress: NodeProgress, place: Place, clock: Clock) -> None:
    run(progress, clock, 1200, 1)
    # first after 700 ms, then each 100 ms
    assert place.texts == [f"{count:,} of 1,200 nodes" for count in range(701, 1200, 100)]


def test_runs_share_a_bar(progress: NodeProgress, place: Place, clock: Clock) -> None:
    run(progress, clock, 10, 100)
    run(progress, clock, 10, 100)
    assert place.texts[-1] == "run 2: 10 of 10 nodes"
    assert "run 2: 1 of 10 nodes" in place.texts


def test_a_bar_that_lost_its_place_comes_back_late(
    progress: NodeProgress, place: Place, clock: Clock
) -> None:
    run(progress, clock, 10, 100)
    place.take_back()
    before = len(place.texts)
    for done in range(11, 40):
        clock.now += 100 * MS
        progress(done, 100)
    # noticed at once, and shown again 1,400 ms after that
    assert len(place.texts) > before
    assert place.texts[before] == "25 of 100 nodes"


def test_terminal_line_is_wiped() -> None:
    stream = io.StringIO()
    line = TerminalLine(stream)
    line.take_back()
    assert stream.getvalue() == ""
    line.show({"text/plain": "1 of 2 nodes"})
    assert line.visible
    line.take_back()
    assert stream.getvalue() == "\r\x1b[K1 of 2 nodes\r\x1b[K"
    assert not line.visible


@pytest.mark.parametrize(
    ("setting", "pytest_version", "wanted"),
    [("0", "", False), ("1", "9.0", True), ("", "9.0", False), ("", "", True)],
)
def test_environment_decides(
    setting: str, pytest_version: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ONP_PROGRESS", setting), ("PYTEST_VERSION", pytest_version)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert _is_wanted() is wanted


SETUP = """
%load_ext onnx_notebook_profiler
import sys
import ipywidgets
import numpy as np
from IPython.display import HTML, clear_output, display
from onnx_notebook_profiler import ReferenceEvaluator
from onnx_notebook_profiler.notebook import progress
from tests.models import add_chain_model
progress._DELAY_NS = progress._INTERVAL_NS = 0
model = add_chain_model(20)
session = ReferenceEvaluator(model)
feeds = {"x": np.ones(4, np.float32)}
"""

# what a cell may show before, between, while and after its runs
CELLS = {
    "plain": "%%onnx_profile\nout = session.run(None, feeds)",
    "line": "# a comment\n%onnx_profile model --top 3",
    "bound": "prof = %onnx_profile model",
    "all sides": """%%onnx_profile
print("before")
print("to stderr", file=sys.stderr)
display(HTML("<b>bold</b>"))
handle = display("first", display_id=True)
session.run(None, feeds)
handle.update("second")
print("between")
session.run(None, feeds)
print("after")
"value"
""",
    "widget": """%%onnx_profile
slider = ipywidgets.IntSlider(3)
display(slider)
session.run(None, feeds)
slider.value = 4
""",
    "cleared": """%%onnx_profile
print("gone")
session.run(None, feeds)
clear_output()
print("kept")
session.run(None, feeds)
print("pending")
clear_output(wait=True)
print("last")
session.run(None, feeds);
""",
    "while it runs": "%%onnx_profile\nsession.verbose = 1\nout = session.run(None, feeds)",
    "raising": "%%onnx_profile\nsession.verbose = 0\nprint('yes')\nout = session.run(None, feeds)\n1/0",
    "large": """%%onnx_profile
print("a" * 5_000_000)
session.run(None, feeds)
print("end")
""",
}
HIDDEN = {
    "quiet": "%%onnx_profile -q\nout = session.run(None, feeds)",
    "not first": "print('first')\n%onnx_profile model",
    "second": "%onnx_profile model -q\n%onnx_profile model",
    "caught": """%%onnx_profile
output = ipywidgets.Output()
with output:
    print("inside")
    session.run(None, feeds)
""",
}


def execute(
    cells: list[str], root: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> tuple[list[Any], list[list[str]]]:
    """The saved outputs of each cell, and the types of all messages that came meanwhile."""
    monkeypatch.setenv("ONP_PROGRESS", setting)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    messages: list[list[str]] = [[] for _ in cells]

    class Client(NotebookClient):
        def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
            messages[cell_index].append(f"{msg['msg_type']} {msg['content']}")
            return super().process_message(msg, cell, cell_index)

    client = Client(
        notebook,
        kernel_name="python3",
        allow_errors=True,
        timeout=120,
        resources={"metadata": {"path": str(root)}},
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells], messages


def comparable(outputs: list[Any]) -> list[Any]:
    """Outputs without measured times and ids; neighbouring pieces of a stream joined, as their cut is chance."""
    kept: list[Any] = []
    for output in outputs:
        one = dict(output)
        if one["output_type"] == "stream":
            if kept and kept[-1].get("name") == one["name"]:
                kept[-1]["text"] += one["text"]
                continue
        elif "data" in one:
            data = dict(one["data"])
            if "onp-report" in data.get("text/html", ""):
                data["text/html"] = "report"
            view = "application/vnd.jupyter.widget-view+json"
            data.update({view: ""} if view in data else {})
            one["data"] = data
        kept.append(one)
    return kept


@pytest.mark.notebook
def test_nothing_is_left_in_the_notebook(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [SETUP, *CELLS.values(), *HIDDEN.values()]
    with_bar, messages = execute(cells, root, monkeypatch, "1")
    without, quiet = execute(cells, root, monkeypatch, "0")
    assert with_bar[0] == []
    names = ["setup", *CELLS, *HIDDEN]
    for name, ours, theirs, heard, silence in zip(
        names, with_bar, without, messages, quiet, strict=True
    ):
        assert comparable(ours) == comparable(theirs), name
        bars = [message for message in heard if "<progress" in message]
        assert bool(bars) == (name in CELLS and name != "large"), name
        assert not any("<progress" in message for message in silence), name
    # and the test sees what it is meant to see
    saved = dict(zip(names, map(comparable, with_bar), strict=True))
    assert saved["all sides"][0]["text"] == "before\n"
    assert saved["cleared"][0]["text"].startswith("last\n")
    assert saved["raising"][-1]["ename"] == "ZeroDivisionError"
    assert saved["while it runs"][0]["text"].count("Add(") == 20
