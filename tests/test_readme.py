"""The README shows what really happens."""

import doctest
from pathlib import Path


def test_readme_examples(root: Path) -> None:
    failed, attempted = doctest.testfile(
        str(root / "README.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted > 5
    assert not failed
