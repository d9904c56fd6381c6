from __future__ import annotations

import pytest

from onnx_notebook_profiler.render import format_bytes, format_int, format_ns, format_share


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (4100, "4,100 B"),
        (10239, "10,239 B"),
        (10240, "10.0 KiB"),
        (-20480, "-20.0 KiB"),
        (1048575, "1.0 MiB"),  # 1,023.999 KiB rounds into the next unit
        (15204352, "14.5 MiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**63 - 1, "8.0 EiB"),
        (2**75, "32,768.0 EiB"),
    ],
)
def test_bytes(nbytes: int, text: str) -> None:
    assert format_bytes(nbytes) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (1000, "1.00 µs"),
        (9_996, "10.0 µs"),
        (12_345_678, "12.3 ms"),
        (123_456_789, "123 ms"),
        (999_700_000, "1.00 s"),
        (83_000_000_000, "83.0 s"),
        (4_000_000_000_000, "4,000 s"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0 %"),
        (0.0001, "<0.1 %"),
        (0.453, "45.3 %"),
        (1.0, "100.0 %"),
        (float("nan"), "?"),
    ],
)
def test_shares(share: float, text: str) -> None:
    assert format_share(share) == text


def test_counts() -> None:
    assert format_int(1234567) == "1,234,567"
