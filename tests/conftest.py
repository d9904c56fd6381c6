"""What every test shares: quiet surroundings that are the same on each machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# Before anything imports matplotlib or starts a kernel.
os.environ["MPLBACKEND"] = "agg"
os.environ["ONP_PROGRESS"] = "0"

# The same examples in each run; durations differ too much between machines for a deadline.
hypothesis.settings.register_profile("onp", deadline=None, derandomize=True)
hypothesis.settings.load_profile("onp")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def fresh_python() -> Callable[[str], str]:
    """A callable that runs code in an interpreter of its own and returns what it printed."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
