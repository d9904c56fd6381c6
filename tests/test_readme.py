"""The README and the pages with examples show what really happens."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("page", "least"),
    [("README.md", 5), ("docs/formulas.md", 8), ("docs/onnxruntime.md", 6), ("docs/arena.md", 5)],
)
def test_examples_of_a_page(root: Path, page: str, least: int) -> None:
    failed, attempted = doctest.testfile(
        str(root / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted > least
    assert not failed
