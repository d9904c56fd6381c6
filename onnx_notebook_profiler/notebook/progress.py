"""A bar that counts nodes while a long run goes on, and leaves nothing in the saved notebook.

What was tried in a kernel, executed and saved by nbclient, and in JupyterLab:

- A widget, or a display that is updated to nothing, stays in the notebook as an empty output.
- ``clear_output`` leaves nothing, but takes along what the cell had printed.
- Carriage returns and backspaces are kept as they are by whoever saves the raw stream.

So the bar is a display, it is removed by clearing the cell, and what the cell had shown is sent again
(:mod:`~onnx_notebook_profiler.notebook.cell_output`). The saved outputs are equal to those of a run
without the bar. That needs to know all that the cell has shown: there is a bar only where the magic is
the first thing in its cell, and none inside an Output widget.

Who records the messages instead of their result, as nbval does, still sees the bar come and go.
Therefore there is none under pytest, and the environment variable ``ONP_PROGRESS`` decides for
everyone: 0 never, 1 always.

In a terminal the bar is a line on stderr that is wiped at the end; elsewhere there is none.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from onnx_notebook_profiler.notebook.cell_output import cell_output, is_watchable

__all__ = ["NodeProgress", "ProgressBars"]

_DELAY_NS = 700_000_000
_INTERVAL_NS = 100_000_000


class Place(Protocol):
    """Where a bar is shown."""

    @property
    def visible(self) -> bool:
        """Whether the bar is on show."""

    def show(self, data: Mapping[str, str]) -> None:
        """Show a bundle (MIME type -> text) or replace the one on show."""

    def take_back(self) -> None:
        """Remove it."""


class NodeProgress:
    """Called after each node with (nodes done, nodes in all); shows a bar once a run takes long.

    Several runs share one bar. When other output takes the bar's place it comes back later, each time after
    twice the delay.
    """

    def __init__(self, place: Place, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._place = place
        self._clock = clock
        self._delay = _DELAY_NS
        self._due = 0
        self._done = 0
        self._runs = 0
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Note that *done* of *total* nodes ran."""
        now = self._clock()
        if done <= self._done or not self._runs:
            self._runs += 1
            self._due = now if self._shown else now + self._delay
        self._done = done
        if now < self._due:
            return
        if self._shown and not self._place.visible:
            self._shown = False
            self._delay *= 2
            self._due = now + self._delay
            return
        self._place.show(_bundle(self._runs, done, total))
        self._shown = self._place.visible
        self._due = now + _INTERVAL_NS


def _bundle(run: int, done: int, total: int) -> dict[str, str]:
    words = f"{'' if run == 1 else f'run {run}: '}{done:,} of {total:,} nodes"
    bar = (
        f'<progress class="onp-progress" aria-label="nodes done" max="{total}" value="{done}" '
        f'style="width:16em;vertical-align:middle"></progress> {words}'
    )
    return {"text/plain": words, "text/html": bar}


class TerminalLine:
    """One line of a terminal, written over and wiped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._visible = False

    @property
    def visible(self) -> bool:
        """Whether the line is on show."""
        return self._visible

    def show(self, data: Mapping[str, str]) -> None:
        """Write the plain text over the line."""
        self._write(f"\r\x1b[K{data['text/plain']}")
        self._visible = True

    def take_back(self) -> None:
        """Wipe the line."""
        if self._visible:
            self._write("\r\x1b[K")
            self._visible = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class ProgressBars:
    """Gives each magic a bar, where there is a place for one."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._last_cell = ""

    @contextmanager
    def counting(self, magic: str, *, quiet: bool = False) -> Iterator[NodeProgress | None]:
        """While this is active a bar may be shown; None where there is no place for one.

        Args:
            magic: Name of the magic that asks; in a notebook it has to be the first thing in its cell.
            quiet: Show none.
        """
        watchable = is_watchable(self._shell.display_pub)
        is_first = watchable and self._is_first(magic)
        if quiet or not _is_wanted():
            yield None
        elif watchable:
            if is_first:
                with cell_output(self._shell.display_pub) as output:
                    yield NodeProgress(output)
            else:
                yield None
        elif not hasattr(self._shell, "kernel") and sys.stderr is not None and sys.stderr.isatty():
            line = TerminalLine(sys.stderr)
            try:
                yield NodeProgress(line)
            finally:
                line.take_back()
        else:
            yield None

    def _is_first(self, magic: str) -> bool:
        """Whether the running cell begins with *magic*, comments aside, and this is its first call."""
        request = self._shell.kernel.get_parent()
        code = request.get("content", {}).get("code", "")
        lines = (line.strip() for line in code.splitlines())
        first = next((line for line in lines if line and not line.startswith("#")), "")
        before, self._last_cell = self._last_cell, request["header"]["msg_id"]
        starts = re.match(rf"(?:%%|(?:[\w.]+\s*=\s*)?%){magic}\b", first) is not None
        return starts and before != self._last_cell


def _is_wanted() -> bool:
    setting = os.environ.get("ONP_PROGRESS", "")
    return setting == "1" if setting else "PYTEST_VERSION" not in os.environ
