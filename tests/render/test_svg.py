from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

import pytest

from onnx_notebook_profiler.render import Chart, Series, chart_img, chart_svg
from onnx_notebook_profiler.render.lettering import anchored, fitted, text_width
from onnx_notebook_profiler.render.palette import DARK, LIGHT, SERIES_COLORS, strokes
from onnx_notebook_profiler.render.svg import ThemeName

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str | bytes) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - the picture is our own


def elements(svg: str, name: str) -> list[ET.Element]:
    return parsed(svg).findall(f".//{SVG}{name}")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in elements(svg, "text")]


def curve_heights(path: str) -> list[int]:
    """The levels that a stepped path runs through, read step by step: M x y, h dx, v dy."""
    heights: list[int] = []
    level = 0
    for kind, rest in re.findall(r"([MhvVZ])([^MhvVZ]*)", path):
        if kind == "M":
            level = int(rest.split()[1])
        elif kind == "v":
            level += int(rest)
        elif kind == "h":
            heights += [level] * int(rest)
    return heights


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, from its definition of relative luminance."""

    def luminance(color: str) -> float:
        parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_parts(chart: Chart) -> None:
    svg = chart_svg(chart)
    root = parsed(svg)
    assert root.get("role") == "img"
    assert "peak 20.0 KiB at node 1 Add 'sum'" in (root.get("aria-label") or "")
    shown = texts(svg)
    assert {"Memory held after each node", "live", "peak so far", "predicted"} <= set(shown)
    assert {"0", "5 KiB", "10 KiB", "15 KiB", "20 KiB", "1", "2"} <= set(shown)
    assert "peak 20.0 KiB at node 1 Add 'sum'" in shown
    assert len(elements(svg, "circle")) == 2


def test_no_scripts_ids_or_styles_within_a_page(chart: Chart) -> None:
    for theme in ("auto", "light", "dark"):
        svg = chart_svg(chart, theme=theme, titles=True)
        assert not elements(svg, "style")
        assert not elements(svg, "script")
        assert " id=" not in svg
    assert len(elements(chart_svg(chart, width=None, standalone=True), "style")) == 1


def test_steps_have_the_heights_of_their_values() -> None:
    chart = Chart("c", ("a", "b", "c", "d"), (Series("live", (0, 100, 50, 50)),))
    path = elements(chart_svg(chart), "path")[-1].get("d") or ""
    heights = curve_heights(path)
    # 1,000 units stand for 106: the axis reaches 6 % beyond the largest value.
    assert heights == [1000, round(1000 - 1000 / 1.06), *[round(1000 - 500 / 1.06)] * 2]


def test_an_unknown_value_breaks_the_line(chart: Chart) -> None:
    values = (1, None, 2, None, None, 3)
    gap = Chart("c", tuple("abcdef"), (Series("live", values),))
    path = elements(chart_svg(gap), "path")[-1].get("d") or ""
    assert re.findall(r"M(\d+) ", path) == ["0", "2", "5"]
    assert len(curve_heights(path)) == 3
    assert "3 of 6 unknown" in (parsed(chart_svg(gap)).get("aria-label") or "")


@pytest.mark.parametrize("count", [1_000, 50_000])
def test_a_long_curve_is_cut_to_the_pixels_and_keeps_its_peak(count: int) -> None:
    peak = count * 2 // 3
    values = tuple(10**6 if position == peak else position % 1000 for position in range(count))
    chart = Chart("c", tuple(map(str, range(count))), (Series("live", values, "area"),), peak, "p")
    svg = chart_svg(chart, width=None)
    heights = curve_heights(elements(svg, "path")[-1].get("d") or "")
    assert len(heights) == 760
    assert heights.index(min(heights)) == peak * 760 // count
    assert min(heights) == round(1000 - 1000 / 1.06)
    assert len(svg) < 40_000
    assert elements(svg, "circle")[0].get("cx") == f"{100 * (peak + 0.5) / count:.2f}%"


@pytest.mark.parametrize("width", [330, 400, 760, 1600])
@pytest.mark.parametrize("peak", [0, 1, 14, 49, 50, 85, 98, 99])
@pytest.mark.parametrize("label", ["node 3 Conv", "W" * 200, "名" * 90])
def test_the_label_of_the_peak_keeps_within_the_picture(width: int, peak: int, label: str) -> None:
    values = tuple(9 if position == peak else 1 for position in range(100))
    chart = Chart("c", ("n",) * 100, (Series("live", values),), peak, label)
    svg = chart_svg(chart, width=width)
    plot = elements(svg, "svg")[-1]
    left, wide = float(plot.get("x") or 0), float(plot.get("width") or 0)
    parent = next(
        element
        for element in parsed(svg).iter(f"{SVG}svg")
        if any((text.text or "").startswith("peak") for text in element.findall(f"{SVG}text"))
    )
    left, wide = float(parent.get("x") or 0), float(parent.get("width") or 0)
    text = next(t for t in parent.findall(f"{SVG}text") if (t.text or "").startswith("peak"))
    x = left + wide * float((text.get("x") or "").rstrip("%")) / 100
    # An em for every wide letter is more than any of the usual fonts takes.
    size = sum(11 if ord(char) > 255 or char in "W…" else 7 for char in text.text or "")
    before = {"start": 0.0, "middle": size / 2, "end": float(size)}[text.get("text-anchor") or ""]
    assert x - before >= 0
    assert x - before + size <= width


def test_a_point_can_be_read_on_hover(chart: Chart) -> None:
    titles = [element.text or "" for element in elements(chart_svg(chart, titles=True), "title")]
    assert titles == [
        "node 0 Conv; live: 1,024 B; peak so far: 1,024 B; predicted: 1,024 B",
        "node 1 Add; live: 20.0 KiB; peak so far: 20.0 KiB; predicted: unknown",
        "node 2 Relu; live: 512 B; peak so far: 20.0 KiB; predicted: 512 B",
    ]
    assert not elements(chart_svg(chart), "title")


def test_hostile_names_leave_the_picture_well_formed(hostile: str) -> None:
    series = (Series(hostile, (1, 2), "area"), Series(hostile, (None, 2), "dashed"))
    chart = Chart(hostile, (hostile, hostile), series, 1, hostile, note=hostile)
    svg = chart_svg(chart, titles=True)
    tags = {element.tag.removeprefix(SVG) for element in parsed(svg).iter()}
    assert tags <= {"svg", "g", "rect", "path", "line", "circle", "text", "title"}
    assert "$" not in svg
    data = re.search(r"base64,([^\"]*)", chart_img(chart))
    assert data is not None
    parsed(base64.b64decode(data[1]))


@pytest.mark.parametrize("values", [(), (0,), (5,), (None,), (None, None)])
def test_small_and_empty_charts(values: tuple[int | None, ...]) -> None:
    peak = 0 if values else -1
    chart = Chart("c", ("n",) * len(values), (Series("live", values, "area"),), peak, "p")
    for width in (None, 300):
        parsed(chart_svg(chart, width=width, titles=True, standalone=True))
    assert ("no node ran" in chart_svg(chart)) == (not values)
    parsed(chart_svg(Chart("c", ("n",) * len(values), ())))


def test_the_same_chart_gives_the_same_picture(chart: Chart) -> None:
    assert chart_svg(chart) == chart_svg(chart)
    assert chart_img(chart) == chart_img(chart)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_theme_is_readable(chart: Chart, theme: ThemeName) -> None:
    colors = DARK if theme == "dark" else LIGHT
    svg = chart_svg(chart, theme=theme)
    assert colors.paper in svg
    assert "var(" not in svg
    assert contrast(colors.ink, colors.paper) >= 7
    assert contrast(colors.muted, colors.paper) >= 4.5
    assert all(contrast(color, colors.paper) >= 3 for color in SERIES_COLORS)


def test_the_page_may_choose_the_colours(chart: Chart) -> None:
    svg = chart_svg(chart, theme="auto")
    assert f'fill="{LIGHT.paper}" style="fill:var(--jp-layout-color0,{LIGHT.paper})"' in svg


def test_series_differ_in_colour_and_dash() -> None:
    series = [Series("a", (), "area"), Series("b", ()), Series("c", (), "dashed"), Series("d", ())]
    drawn = strokes(series)
    assert len({stroke.color for stroke in drawn}) == 4
    assert len({stroke.dash for stroke in drawn}) == 4
    assert [stroke.filled for stroke in drawn] == [True, False, False, False]


def test_lettering_is_fitted() -> None:
    assert fitted("short", 200, 11) == "short"
    for text in ("W" * 100, "il" * 100, "名" * 50):
        cut = fitted(text, 120, 11)
        assert "…" in cut
        assert text_width(cut, 11) <= 120


def test_anchors() -> None:
    sides = [
        anchored("a rather long label", where, 100, left=0, right=0, size=11)[0]
        for where in (0.0, 0.5, 1.0)
    ]
    assert sides == ["start", "start", "end"]
    assert anchored("tiny", 0.5, 100, left=0, right=0, size=11) == ("middle", "tiny")
