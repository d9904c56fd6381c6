"""The fixtures themselves, on notebooks without our package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.lab import Lab, Notebook

pytestmark = pytest.mark.browser

SLIDER = """
import ipywidgets
slider = ipywidgets.IntSlider(1, 1, 9)
text = ipywidgets.HTML("<b class=probe>1</b>")
slider.observe(lambda c: setattr(text, "value", f"<b class=probe>{c.new}</b>"), "value")
ipywidgets.VBox([slider, text])
"""

TABLE = """
from IPython.display import HTML
HTML("<table class=probe><tr><td>saved</td></tr></table><script>document.title = 'ran'</script>")
"""


def test_keys_reach_the_kernel_and_come_back(notebook: Callable[..., Notebook]) -> None:
    page = notebook(SLIDER).page
    page.locator(".noUi-handle").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.locator(".probe", has_text="4").wait_for()


def test_a_saved_notebook_is_read_without_kernel_and_trust(
    notebook: Callable[..., Notebook], lab: Lab
) -> None:
    written = notebook(TABLE)
    written.save()
    written.close()
    lab.end_kernels()

    reader = notebook(file=written.copy_for_reader())
    reader.decline_kernel()
    reader.page.locator(".probe", has_text="saved").wait_for()
    assert reader.page.title() != "ran"
    assert lab.ask("/kernels") == []


def test_what_goes_wrong_in_a_page_is_heard(notebook: Callable[..., Notebook]) -> None:
    opened = notebook("1 + 1")
    opened.page.evaluate("() => { console.error('said'); setTimeout(() => { throw 'thrown' }); }")
    with opened.page.expect_event("requestfailed"):
        opened.page.evaluate("() => { new Image().src = 'http://127.0.0.1:1/away.png'; }")
    opened.page.wait_for_function("() => true")
    heard = {complaint.partition(":")[0] for complaint in opened.complaints}
    assert heard == {"console", "error", "request"}
    opened.complaints.clear()
