"""The page about ways to count shows what the formulas give."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_and_its_pictures_are_made_from_the_formulas() -> None:
    spec = importlib.util.spec_from_file_location("accounting", ROOT / "scripts" / "accounting.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, page in module.pages().items():
        written = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert written == page, "run python scripts/accounting.py"
