"""A private IPython shell whose displays are captured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tests.models import memory_demo_model, mul_add_model


class Shell:
    """Runs cells and hands over what they display."""

    def __init__(self, shell: Any) -> None:
        self.ip = shell

    def run(self, cell: str) -> Any:
        """Run a cell; IPython's own record of its result or error."""
        return self.ip.run_cell(cell)

    def value(self, cell: str) -> Any:
        """The value of a cell that must not fail."""
        done = self.run(cell)
        assert done.success, done
        return done.result

    def displayed(self) -> list[dict[str, str]]:
        """The bundles displayed since the last call."""
        bundles = [output["data"] for output in self.ip.display_pub.outputs]
        self.ip.display_pub.outputs.clear()
        return bundles

    @property
    def names(self) -> dict[str, Any]:
        return self.ip.user_ns  # type: ignore[no-any-return]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A fresh shell with the extension, the two small models and no history; its folder is empty."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    ip = InteractiveShell.instance(config=config)
    ip.display_pub = CapturingDisplayPublisher()
    ip.run_cell("%load_ext onnx_notebook_profiler")
    ip.user_ns.update(demo=memory_demo_model(), mul_add=mul_add_model())
    yield Shell(ip)
    ip.restore_sys_module_state()
    InteractiveShell.clear_instance()
