from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from onnx_notebook_profiler.render import Chart, Series, chart_figure
from onnx_notebook_profiler.render.palette import SERIES_COLORS

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_curves_hold_the_values(chart: Chart) -> None:
    axes = chart_figure(chart).axes[0]
    drawn = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    assert len(drawn) == 4  # the area and three outlines
    values = drawn[-1].get_data()[0]
    np.testing.assert_array_equal(values, [1024, np.nan, 512])
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["live", "peak so far", "predicted"]
    assert [label.get_text() for label in axes.get_yticklabels()][1] == "5 KiB"
    assert "peak 20.0 KiB at node 1 Add 'sum'" in [text.get_text() for text in axes.texts]
    assert drawn[1].get_edgecolor()[:3] == tuple(
        int(SERIES_COLORS[0][i : i + 2], 16) / 255 for i in (1, 3, 5)
    )


def test_it_draws_on_given_axes(chart: Chart) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    assert chart_figure(chart, axes) is axes
    assert axes.get_title(loc="left") == "Memory held after each node"


def test_a_new_figure_shows_itself_without_pyplot(fresh_python: Callable[[str], str]) -> None:
    printed = fresh_python(
        "import sys\n"
        "from onnx_notebook_profiler.render import Chart, Series, chart_figure\n"
        "assert 'matplotlib' not in sys.modules\n"
        "figure = chart_figure(Chart('c', ('a',), (Series('live', (1,)),)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "print(figure._repr_png_()[:8])"
    )
    assert printed.strip() == repr(PNG)


def test_hostile_names_are_no_mathematics() -> None:
    name = "$\\frac{$ _x"
    chart = Chart(name, (name, "b"), (Series(f"_{name}", (1, 2)),), 1, name)
    figure = chart_figure(chart)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the font lacks
        figure.savefig("/dev/null", format="png")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 1


def test_empty_and_long_charts() -> None:
    count = 50_000
    values = tuple(7 if position == 40_000 else 1 for position in range(count))
    chart = Chart("c", ("n",) * count, (Series("live", values),), 40_000, "p")
    patch = chart_figure(chart).axes[0].patches[0]
    assert isinstance(patch, StepPatch)
    values_drawn = patch.get_data()[0]
    assert len(values_drawn) == 2000
    assert max(values_drawn) == 7
    chart_figure(Chart("c", (), (Series("live", ()),)))
