"""Amounts of memory as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_notebook_profiler.errors import SizeError
from onnx_notebook_profiler.symbolic.budget import parse_bytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (8192, 8192),
        ("8192", 8192),
        ("0", 0),
        ("512 MiB", 512 * 1024 * 1024),
        ("512mib", 512 * 1024 * 1024),
        (" 1.5 KiB ", 1536),
        ("1.5GB", 1_500_000_000),
        ("2 kB", 2000),
        ("2K", 2048),
        ("3 TiB", 3 * 2**40),
        ("0.3 KiB", 307),
        ("100 bytes", 100),
    ],
)
def test_amounts(text: Any, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", -1, True, "1e9", "12 parsecs", 1.5, None, "1,5 MiB"]
)
def test_what_is_no_amount(text: Any) -> None:
    with pytest.raises(SizeError, match="a budget is"):
        parse_bytes(text)
