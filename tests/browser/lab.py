"""A private JupyterLab server on the loopback address, and notebooks opened in its pages."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nbformat
from playwright.sync_api import Browser, ConsoleMessage, Page

# No request for news, and every cell in the page, also those out of view.
SETTINGS: Final = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}

START_SECONDS: Final = 60
PAGE_MILLISECONDS: Final = 60_000

READY: Final = """() => {
    const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
    return context?.isReady && context.session?.kernel?.status === "idle";
}"""

ALL_RUN: Final = """() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")];
    return prompts.length && prompts.every(prompt => /\\[\\d+\\]/.test(prompt.textContent));
}"""


@dataclass(frozen=True, slots=True)
class Lab:
    """A running server: where it listens, its token, and the folder that it serves."""

    url: str
    token: str
    folder: Path

    def ask(self, path: str, method: str = "GET") -> Any:
        """What the server's REST interface answers at *path*; None where it answers nothing."""
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.url}/api{path}",
            headers={"Authorization": f"token {self.token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
            return json.loads(answer.read() or b"null")

    def end_kernels(self) -> None:
        for session in self.ask("/sessions"):
            self.ask(f"/sessions/{session['id']}", "DELETE")
        assert self.ask("/kernels") == []


@contextlib.contextmanager
def serve(folder: Path, private: Path) -> Iterator[Lab]:
    """Serve *folder* with configuration, settings and data of its own, kept in *private*."""
    port, token = _free_port(), secrets.token_hex(16)
    url = f"http://127.0.0.1:{port}"
    log = private / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={port}",
                "--ServerApp.port_retries=0",
                f"--ServerApp.root_dir={folder}",
                f"--IdentityProvider.token={token}",
                "--LabApp.expose_app_in_browser=True",
                "--LabApp.extension_manager=readonly",
                # should the tests be killed, the server ends by itself
                "--ServerApp.shutdown_no_activity_timeout=600",
                "--MappingKernelManager.cull_idle_timeout=300",
            ],
            env=os.environ | _private_folders(private),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        lab = Lab(url, token, folder)
        _wait_for(lab, server, log)
        yield lab
    finally:
        _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _private_folders(private: Path) -> dict[str, str]:
    """Environment variables that keep the user's own configuration out, with our settings."""
    folders = {
        "IPYTHONDIR": private / "ipython",
        "JUPYTER_CONFIG_DIR": private / "config",
        "JUPYTER_DATA_DIR": private / "data",
        "JUPYTER_RUNTIME_DIR": private / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": private / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": private / "workspaces",
    }
    for folder in folders.values():
        folder.mkdir()
    for name, values in SETTINGS.items():
        file = folders["JUPYTERLAB_SETTINGS_DIR"] / f"@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    return {variable: str(folder) for variable, folder in folders.items()}


def _wait_for(lab: Lab, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            lab.ask("/status")
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()}") from None
            time.sleep(0.1)
        else:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels, which are one process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)


@dataclass  # no slots: Playwright puts an attribute on the object whose method it calls back
class Notebook:
    """A notebook in a page of its own browser context; remembers whatever goes wrong there."""

    lab: Lab
    browser: Browser
    file: Path
    page: Page = field(init=False)
    complaints: list[str] = field(default_factory=list)

    def open(self) -> Page:
        """Open the notebook, without side bars; JupyterLab starts a kernel where it finds one."""
        self.page = self.browser.new_page(viewport={"width": 1200, "height": 1000})
        self.page.set_default_timeout(PAGE_MILLISECONDS)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", self._hear)
        self.page.on("request", lambda request: self._watch(request.url))
        self.page.on("websocket", lambda socket: self._watch(socket.url))
        self.page.goto(f"{self.lab.url}/doc/tree/{self.file.name}?token={self.lab.token}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        return self.page

    def run(self) -> None:
        """Run all cells, and wait until each has its number."""
        self.page.wait_for_function(READY)
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(ALL_RUN)

    def save(self) -> None:
        self.command("docmanager:save")
        self.page.wait_for_function(
            "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
        )

    def copy_for_reader(self) -> Path:
        """A copy as another person gets it: not trusted, since changed, and without its kernel."""
        copy = self.file.with_name(f"copy-of-{self.file.name}")
        content = json.loads(self.file.read_text(encoding="utf-8"))
        # a notebook that names no language either, else JupyterLab picks a kernel that speaks it
        content["metadata"] = {"kernelspec": {"name": "absent", "display_name": "absent"}}
        copy.write_text(json.dumps(content), encoding="utf-8")
        return copy

    def decline_kernel(self) -> None:
        """Answer JupyterLab's question for a kernel, asked where it knows none, with none."""
        self.page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()
        self.page.locator(".jp-Dialog").wait_for(state="detached")

    def command(self, name: str) -> None:
        """Run a command of JupyterLab; the answer is not awaited, since some open a dialog."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def close(self) -> None:
        self.page.close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _watch(self, url: str) -> None:
        address = self.lab.url.partition(":")[2]
        if not url.startswith((f"http:{address}/", f"ws:{address}/", "data:", "blob:")):
            self.complaints.append(f"request: {url}")


def write_notebook(file: Path, cells: tuple[str, ...]) -> None:
    """Write a notebook of code cells to *file*."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, file)
