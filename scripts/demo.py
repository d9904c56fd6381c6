"""Execute the quick-start notebook on a real model, without a browser, and print what it shows.

Leaves the executed notebook and an HTML report of its last profile in `build/demo/`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "real_model.ipynb"
TARGET = ROOT / "build" / "demo"
REPORT = TARGET / "report.html"

BAR_WIDTH = 30
CELL_SECONDS = 300

# Runs after the notebook's own cells, in their namespace.
WRITE_REPORT = """
import onnx_notebook_profiler as onp
profiles = [value for value in list(globals().values()) if isinstance(value, onp.Profile)]
if not profiles:
    raise LookupError("the notebook keeps no profile under a name, so there is nothing to report")
profiles[-1].to_html({path!r})
"""


class Bar:
    """A progress bar over the notebook's cells; where there is no terminal, a line for each."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Draw the bar for *done* finished cells."""
        filled = BAR_WIDTH * done // self.total
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        seconds = time.monotonic() - self.started
        text = f"[{bar}] {done}/{self.total} cells, {seconds:.0f} s"
        self._write(f"\r{text}" if self.terminal else f"{text}\n")

    def clear(self) -> None:
        """Take the bar away."""
        if self.terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in place, in a kernel of this environment."""
    bar = Bar(len(notebook.cells))

    def before_cell(cell_index: int, **_: Any) -> None:
        bar.show(cell_index)

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_SECONDS,
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        store_widget_state=False,
        on_cell_start=before_cell,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    try:
        client.execute(env=os.environ | {"ONP_PROGRESS": "0"})
        bar.show(bar.total)
    finally:
        bar.clear()


def shown_texts(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """The text of each output, in order: what was printed, and the text form of what was shown."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                yield output.text
            elif "text/plain" in output.get("data", ()) and "image/png" not in output.data:
                yield output.data["text/plain"]


def main() -> int:
    """Make the demonstration; 0 where it worked."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    report_cell = nbformat.v4.new_code_cell(WRITE_REPORT.format(path=str(REPORT)))
    notebook.cells.append(report_cell)
    try:
        execute(notebook)
    except CellExecutionError as error:
        sys.stderr.write(f"{NOTEBOOK.relative_to(ROOT)} failed:\n{error}\n")
        return 1
    notebook.cells.remove(report_cell)
    nbformat.write(notebook, TARGET / NOTEBOOK.name)

    print("\n\n".join(text.rstrip() for text in shown_texts(notebook)))
    environment = Path(sys.prefix)
    if environment.is_relative_to(ROOT):
        environment = environment.relative_to(ROOT)
    print(
        f"\nReport (open it in a browser): {REPORT}"
        f"\nNotebook, to play with it:     {environment}/bin/jupyter lab "
        f"{NOTEBOOK.relative_to(ROOT)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
