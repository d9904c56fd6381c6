"""The sessions of onnxruntime that a cell makes or runs, and their profiles afterwards."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_notebook_profiler.errors import ProfilerError
from onnx_notebook_profiler.notebook.arguments import one_line
from onnx_notebook_profiler.render.units import format_int, format_ns

if TYPE_CHECKING:
    from onnx_notebook_profiler.ort.observed_sessions import ObservedSession
    from onnx_notebook_profiler.profile.result import Profile

__all__ = ["CellSessions", "cell_sessions"]


class CellSessions:
    """What a cell did with onnxruntime; made by :func:`cell_sessions`."""

    def __init__(self, runtime: Any, folder: Path | None) -> None:
        self._runtime = runtime
        self._folder = folder
        self._sessions: list[ObservedSession] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, for as long as the cell runs."""
        if self._folder is None:
            yield
            return
        from onnx_notebook_profiler.ort.observed_sessions import observing_sessions

        with observing_sessions(self._runtime, self._folder) as self._sessions:
            yield

    def __bool__(self) -> bool:
        return any(one.runs for one in self._sessions)

    def profiles(self) -> Iterator[tuple[Profile | None, str]]:
        """For each session that ran its profile and what to say of it; without a profile the wall time alone."""
        from onnx_notebook_profiler.profile.session_profile import profile_session

        for one in self._sessions:
            if not one.runs:
                continue
            count = len(one.runs)
            runs = f"{format_int(count)} runs" if count > 1 else "one run"
            try:
                yield profile_session(one, self._runtime), ""
            except ProfilerError as error:
                last = format_ns(one.runs[-1].duration_ns)
                words = f"{runs} of an onnxruntime.InferenceSession, the last one in {last} by the clock on the wall"
                yield None, f"{words}; nothing more is known: {one_line(error)}"


@contextlib.contextmanager
def cell_sessions(cell: str) -> Iterator[CellSessions]:
    """For a cell that can have sessions: where onnxruntime is imported already, or where the cell names it.

    Profiles have to be asked for before this ends.
    """
    name = "onnxruntime"
    runtime = sys.modules.get(name)
    if runtime is None and name in cell and importlib.util.find_spec(name) is not None:
        runtime = importlib.import_module(name)
    if runtime is None:
        yield CellSessions(None, None)
        return
    with tempfile.TemporaryDirectory(prefix="onp-cell-", ignore_cleanup_errors=True) as folder:
        yield CellSessions(runtime, Path(folder))
