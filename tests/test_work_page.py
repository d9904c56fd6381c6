"""The page about work is what the rules say of themselves."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_made_from_the_rules() -> None:
    spec = importlib.util.spec_from_file_location("work_page", ROOT / "scripts" / "work.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "work.md").read_text(encoding="utf-8")
    assert written == module.page(), "run python scripts/work.py"
