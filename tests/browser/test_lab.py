"""The extension as a person meets it: in a real JupyterLab, with mouse and keyboard.

The fixture `notebook` asserts after each test that the console stayed empty and that no request
left the machine.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from playwright.sync_api import Locator, Page

from tests.browser.lab import Lab, Notebook
from tests.models import memory_demo_model, memory_demo_totals, packaged_model

pytestmark = pytest.mark.browser

LOAD = "%load_ext onnx_notebook_profiler"

MODEL = """%%onnx_model tiny
<ir_version: 10, opset_import: ["" : 18]>
agraph (float[N] x) => (float[N] w) <float two = {2.0}> { z = Mul(x, two) w = Add(z, x) }
"""

PROFILE = """%%onnx_profile
import numpy as np
from onnx_notebook_profiler import ReferenceEvaluator
ReferenceEvaluator(tiny).run(None, {"x": np.arange(1024, dtype=np.float32)})[0][:4]
"""


def rows_with(place: Page | Locator, *words: str) -> Locator:
    """The rows of static tables that hold every one of *words*."""
    rows = place.locator(".jp-OutputArea tr")
    for word in words:
        rows = rows.filter(has_text=word)
    return rows


def assert_profile_is_read(page: Page) -> None:
    """What `PROFILE` shows. By hand, with N = 1024 and float32:

    after Mul, `z` (4,096 bytes) and `two` (4) are alive; after Add `w` (4,096) as well. The input
    `x` belongs to the caller.
    """
    rows_with(page, "Mul", "4,100").first.wait_for(state="attached")
    rows_with(page, "Add", "8,196").first.wait_for(state="attached")
    chart = page.locator(".jp-OutputArea img[src^='data:image/svg+xml']").first
    chart.wait_for(state="visible")
    assert chart.get_attribute("alt")


def totals(page: Page) -> list[int]:
    """The column of total bytes in the explorer's table."""
    table = page.locator(".onp-explorer .onp-totals table")
    titles = [title.lower() for title in table.locator("th").all_inner_texts()]
    column = next(position for position, title in enumerate(titles) if "total" in title)
    cells = table.locator(f"tr td:nth-child({column + 1})").all_inner_texts()
    return [int(re.sub(r"\D", "", cell)) for cell in cells]


def type_size(page: Page, size: int) -> None:
    box = page.locator(".onp-explorer input[type=number]")
    box.fill(str(size))
    box.press("Enter")


def test_profile_is_shown_and_read_again_without_kernel(
    notebook: Callable[..., Notebook], lab: Lab
) -> None:
    written = notebook(LOAD, MODEL, PROFILE)
    assert_profile_is_read(written.page)
    written.save()
    written.close()
    lab.end_kernels()

    reader = notebook(file=written.copy_for_reader())
    reader.decline_kernel()
    assert_profile_is_read(reader.page)
    assert lab.ask("/kernels") == []


def test_slider_moves_the_totals(notebook: Callable[..., Notebook], lab: Lab) -> None:
    onnx.save(memory_demo_model(), lab.folder / "demo.onnx")
    opened = notebook(LOAD, "%onnx_explore demo.onnx")
    page = opened.page
    page.locator(".onp-explorer").wait_for()
    assert page.locator(".onp-explorer .widget-label", has_text="N").count() >= 1

    type_size(page, 8)
    page.locator(".onp-totals", has_text="576").wait_for()
    assert totals(page) == [320, 576, 464, 464, 464]

    page.locator(".onp-explorer .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".onp-totals", has_text="640").wait_for()
    assert totals(page) == [352, 640, 512, 512, 512]
    assert page.locator(".onp-explorer input[type=number]").input_value() == "9"

    # a held key: values may be skipped, the last one never
    for _ in range(23):
        page.keyboard.press("ArrowRight")
    page.locator(".onp-totals", has_text="2,112").wait_for()
    assert totals(page) == memory_demo_totals(32)


def test_real_model_is_profiled_and_pictured(
    notebook: Callable[..., Notebook], lab: Lab, root: Path, tmp_path: Path
) -> None:
    """The README's picture: written to the path in ONP_SCREENSHOT, where that is set."""
    shutil.copy(packaged_model("minilm"), lab.folder / "minilm.onnx")
    opened = notebook(
        LOAD,
        "%onnx_explore minilm.onnx --dims batch=8 sequence=128",
        "%onnx_profile minilm.onnx --dims batch=8 sequence=128 --top 3",
    )
    page = opened.page
    rows_with(page, "word_embeddings.weight_mul").first.wait_for(state="attached")
    page.locator(".onp-explorer .noUi-handle").nth(1).wait_for()

    picture = root / os.environ.get("ONP_SCREENSHOT", str(tmp_path / "notebook.png"))
    picture.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=picture)
    assert picture.stat().st_size > 10_000
