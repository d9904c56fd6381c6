"""Habits of the repository that a tool can check."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# Folders that exist on one machine only.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:home|root|work|Users)/")

BINARY = {".gif", ".ico", ".jpg", ".onnx", ".png", ".woff2"}

PAGES_WITH_COMMANDS = ("README.md", "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def files(root: Path) -> list[Path]:
    """Every file that is, or would be, tracked."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = [root / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def make_targets(root: Path) -> set[str]:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))


def test_no_path_of_one_machine_is_committed(root: Path, files: list[Path]) -> None:
    assert files
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in files
        if path.suffix not in BINARY
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert found == []


def test_changelog_says_what_is_unreleased(root: Path) -> None:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(r"^## \[?Unreleased\]?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    entries = re.findall(r"^- (.*?)(?=^- |^#|\Z)", section[1], re.MULTILINE | re.DOTALL)
    assert entries
    # full sentences, for a reader who uses the package
    assert [entry for entry in entries if not re.search(r"[.!]\)?\s*$", entry)] == []


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS)
def test_commands_of_the_page_exist(root: Path, page: str) -> None:
    text = (root / page).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    commands = set(re.findall(r"\bmake ([a-z][a-z-]*)", code))
    assert {"demo", "test"} <= commands
    assert commands <= make_targets(root)


def test_every_target_is_phony_or_makes_the_environment(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    assert make_targets(root) == phony
