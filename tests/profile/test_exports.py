"""A profile as plain values, JSON, a data frame and a figure: complete, valid, and safe whatever the names are."""

from __future__ import annotations

import base64
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from onnx import TensorProto, helper

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.profile.result import NodeProfile, Profile
from tests.models import memory_demo_model, mul_add_model
from tests.symbolic.rows import graph

OPS = ["MatMul", "Concat", "Shape", "Abs", "Reshape"]

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "$\\alpha$ & `code`",
    "line\nbreak\u202e",
]


def hostile_profile() -> Profile:
    """Model, values, nodes and a domain with names that would do harm where they are not escaped."""
    script, image, formula, broken = HOSTILE
    value = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Abs", [script], [image], name=formula),
                helper.make_node("NonZero", [image], [broken], name=script),
                helper.make_node("Neg", [image], [formula], name=broken),
            ],
            script,
            [value(script, TensorProto.FLOAT, [image, 2])],
            [value(formula, TensorProto.FLOAT, None), value(broken, TensorProto.INT64, None)],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    return onp.profile(model)


class Elements(HTMLParser):
    """What a page is made of: tags, attributes, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Elements:
    elements = Elements()
    elements.feed(html)
    return elements


def assert_harmless(html: str) -> Elements:
    elements = parsed(html)
    assert not {"script", "iframe", "object", "embed", "link", "form"} & set(elements.tags)
    for tag, name, value in elements.attributes:
        assert not name.startswith("on")
        assert name != "id"
        if name in ("src", "href"):
            assert tag == "img"
            assert (value or "").startswith("data:image/svg+xml;base64,")
    assert "http://" not in html.replace("http://www.w3.org/", "")
    assert "https://" not in html
    return elements


# plain values


def plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (str, int, float, bool)


def test_to_dict() -> None:
    profile = onp.profile(memory_demo_model(), dims={"N": 8})
    found = profile.to_dict()
    assert plain(found)
    assert found["schema_version"] == 1
    assert found["model"] == "compute_context_memory_demo"
    assert found["dims"] == {"N": 8}
    assert found["generated_inputs"] == ["X"]
    assert found["peak_bytes"] == profile.peak_bytes
    assert found["coverage"] == {"known": 7, "total": 7}
    assert [row["op"] for row in found["nodes"]] == OPS
    assert [row["live_bytes"] for row in found["nodes"]] == [
        node.live_bytes for node in profile.nodes
    ]
    assert len(found["events"]) == len(profile.events)
    first = found["events"][0]
    assert first["action"] == "add"
    # The keys of the event log come first, in their order; ours follow.
    assert list(first)[: len(profile.events[0].as_dict())] == list(profile.events[0].as_dict())
    assert list(first)[-7:] == [
        "io_allocated_bytes",
        "io_peak_bytes",
        "subgraph_path",
        "error",
        "tier",
        "scratch_bytes",
        "in_place",
    ]
    assert json.loads(json.dumps(found)) == found


def test_to_json(tmp_path: Path) -> None:
    profile = onp.profile(memory_demo_model(), dims={"N": 8})
    path = tmp_path / "profile.json"
    text = profile.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert json.loads(text) == profile.to_dict()
    assert "\n" not in profile.to_json(indent=None)
    assert profile.to_json(str(path)) == text


def test_numbers_that_json_lacks_are_null() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    profile = onp.profile(mul_add_model(), {"x": x})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(profile.to_json(), parse_constant=refuse)
    assert found["events"][0]["values"] == [None, None, None, 1.0]
    values = profile.to_dict()["events"][0]["values"]
    assert values[1] == np.inf


def test_names_survive_json() -> None:
    found = json.loads(hostile_profile().to_json())
    assert found["model"] == HOSTILE[0]
    assert [row["name"] for row in found["nodes"]] == [HOSTILE[2], HOSTILE[0], HOSTILE[3]]
    assert [row["outputs"] for row in found["nodes"]] == [[HOSTILE[1]], [HOSTILE[3]], [HOSTILE[2]]]
    assert [one["value"] for one in found["unknown"]] == [HOSTILE[3]]


def test_body_nodes_and_paths_in_json() -> None:
    model = graph(
        "g (float[2] x, bool c) => (float[2] y) { y = If(c) <"
        "then_branch = t () => (float[2] u) { u = Neg(x) }, "
        "else_branch = e () => (float[2] v) { v = Abs(x) }> }"
    )
    found = json.loads(onp.profile(model).to_json())
    assert [(row["op"], row["path"]) for row in found["body_nodes"]] == [
        ("Neg", [[0, "then_branch"]])
    ]
    assert [[0, "then_branch"]] in [event["subgraph_path"] for event in found["events"]]


# pandas


def test_to_pandas() -> None:
    profile = onp.profile(memory_demo_model(), dims={"N": 8})
    frame = profile.to_pandas()
    assert frame.index.name == "index"
    assert frame.index.tolist() == [0, 1, 2, 3, 4]
    assert frame["op"].tolist() == OPS
    assert frame["live_bytes"].tolist() == [node.live_bytes for node in profile.nodes]
    assert frame["predicted_bytes"].tolist() == [node.predicted_bytes for node in profile.nodes]
    assert str(frame["predicted_bytes"].dtype) == "Int64"
    assert set(frame.columns) | {"index"} == set(NodeProfile.__dataclass_fields__)


def test_an_unknown_prediction_is_missing_in_the_frame() -> None:
    frame = hostile_profile().to_pandas()
    assert frame["predicted_bytes"].isna().tolist() == [False, True, True]
    assert frame["predicted_bytes"].iloc[0] == 8
    empty = onp.profile(graph("g (float[2] x) => (float[2] x) { }")).to_pandas()
    assert empty.shape[0] == 0


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = onp.profile(mul_add_model())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(onp.MissingExtraError, match=r"pip install pandas"):
        profile.to_pandas()


# HTML


def test_html_holds_the_figures() -> None:
    profile = onp.profile(memory_demo_model(), dims={"N": 1024})
    html = profile.to_html()
    elements = assert_harmless(html)
    assert elements.tags.count("table") == 4
    assert elements.tags.count("img") == 1
    assert "details" in elements.tags
    for node in profile.nodes:
        assert f"{node.live_bytes:,}" in elements.text
    for op in ("MatMul", "Concat", "Shape", "Abs", "Reshape"):
        assert op in elements.text
    assert html == profile._repr_html_()
    assert html == profile.to_html()


def test_html_of_hostile_names() -> None:
    profile = hostile_profile()
    elements = assert_harmless(profile.to_html())
    # The text is all there, and a mathematics renderer finds no delimiter.
    assert HOSTILE[0] in elements.text
    assert "$" not in profile.to_html()
    (source,) = [value for _, name, value in elements.attributes if name == "src"]
    assert source is not None
    svg = base64.b64decode(source.split(",", 1)[1]).decode()
    assert "<script" not in svg
    assert "onerror='" not in svg
    assert svg.startswith("<svg")


def test_html_page(tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    profile = hostile_profile()
    fragment = profile.to_html(path)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert '<meta charset="utf-8">' in page
    assert fragment in page
    assert page.count("<body>") == 1
    elements = assert_harmless(page.replace('<meta charset="utf-8">', ""))
    assert {"html", "head", "title", "body"} <= set(elements.tags)
    assert "<title>&lt;script&gt;" in page


# figures


def test_plot_draws_live_and_peak_bytes() -> None:
    profile = onp.profile(memory_demo_model(), dims={"N": 8})
    figure = profile.plot()
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    (axes,) = figure.axes
    heights = {float(y) for line in axes.lines for y in np.asarray(line.get_ydata(), float)}
    assert profile.peak_bytes in heights
    texts = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "peak 592 B at node 3 Abs" in texts


def test_plot_into_axes_that_are_there() -> None:
    axes = Figure().add_subplot()
    assert onp.profile(mul_add_model()).plot(axes) is axes
    figure = Figure()
    hostile_profile().plot(figure.add_subplot())
    figure.canvas.draw()


# text


def test_text_is_the_same_for_two_runs() -> None:
    first, second = (onp.profile(memory_demo_model(), dims={"N": 8}) for _ in range(2))
    assert first.to_text() == second.to_text() == repr(first)
    assert [node.time_ns for node in first.nodes] != [node.time_ns for node in second.nodes]
    assert not re.search(r"0x[0-9a-f]{6}|\b\d+ (ns|µs|ms)\b", first.to_text())


def test_text_of_hostile_names_stays_in_its_lines() -> None:
    text = hostile_profile().to_text()
    assert "\u202e" not in text
    assert "line\nbreak" not in text
    for line in text.splitlines():
        assert line == line.rstrip()
