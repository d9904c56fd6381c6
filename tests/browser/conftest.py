"""Fixtures for tests that drive a real JupyterLab in headless Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.lab import Lab, Notebook, serve, write_notebook

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


MISSING = f"no Chromium found ({', '.join(PROGRAMS)} in PATH, or the program in ONP_CHROMIUM)"

REQUIRED = os.environ.get("ONP_REQUIRE_BROWSER") == "1"


def find_chromium() -> str | None:
    candidates = (os.environ.get("ONP_CHROMIUM"), *map(shutil.which, PROGRAMS))
    return next((program for program in candidates if program), None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, not for each test, that the browser is missing."""
    if find_chromium() is None and not REQUIRED:
        terminalreporter.write_line(f"Browser tests are left out: {MISSING}.")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program; skips where there is none, or fails where one is required."""
    program = find_chromium()
    if program is None:
        if REQUIRED:
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return program


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab for all tests, over an empty folder. Asks for the browser first: it may skip."""
    folder, private = (tmp_path_factory.mktemp(name) for name in ("notebooks", "jupyter"))
    with serve(folder, private) as lab:
        yield lab


@pytest.fixture
def notebook(
    lab: Lab, browser: Browser, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Notebook]]:
    """A callable that opens an existing notebook file, or writes one from cells and runs it.

    Afterwards nothing may have been reported: no error in the page or its console, and no request
    to anywhere but the server.
    """
    opened: list[Notebook] = []

    def open_notebook(*cells: str, file: Path | None = None) -> Notebook:
        path = file or lab.folder / f"{request.node.name}.ipynb"
        if cells:
            write_notebook(path, cells)
        opened.append(Notebook(lab, browser, path))
        opened[-1].open()
        if cells:
            opened[-1].run()
        return opened[-1]

    yield open_notebook
    for one in opened:
        one.close()
    lab.end_kernels()
    assert [complaint for one in opened for complaint in one.complaints] == []
