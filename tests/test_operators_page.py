"""The page of operators is what the package says of itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_made_from_the_list() -> None:
    spec = importlib.util.spec_from_file_location("operators", ROOT / "scripts" / "operators.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert written == module.page(), "run python scripts/operators.py"
