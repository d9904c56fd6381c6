"""A Python of its own for what could take the notebook's down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from onnx_notebook_profiler.errors import OnnxRuntimeError

__all__ = ["call_child"]

_LAST_LINES: Final = 12


def call_child(module: str, folder: Path, timeout: float | None = None) -> None:
    """Run ``python -m MODULE FOLDER`` to its end, with this package in its path.

    Raises:
        OnnxRuntimeError: It died, or took longer than *timeout* seconds; the message has its last lines.
    """
    if not sys.executable:
        raise OnnxRuntimeError(
            "a trace starts a Python of its own, and sys.executable does not name one: run it from an ordinary Python"
        )
    source = str(Path(__file__).parents[2])
    paths = [source, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", module, str(folder)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module, nothing of the model in the command
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OnnxRuntimeError(
            f"the traced runs took longer than {timeout} seconds and were stopped: give a smaller model or a longer "
            f"timeout"
        ) from error
    if done.returncode:
        raise OnnxRuntimeError(_last_words(done.returncode, done.stderr))


def _last_words(code: int, stderr: str) -> str:
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}"
        if -code in signal.valid_signals():
            how = f"signal {signal.Signals(-code).name}"
    lines = "\n".join(stderr.strip().splitlines()[-_LAST_LINES:]) or "(nothing)"
    return (
        f"the process that ran the traced onnxruntime died ({how}); this one goes on. Use backend='onnxruntime' "
        f"without trace. Its last lines:\n{lines}"
    )
