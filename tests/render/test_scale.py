from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_notebook_profiler.render.scale import byte_ticks, decimate, index_ticks


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (0, ["0"]),
        (3, ["0", "1 B", "2 B", "3 B"]),
        (1023, ["0", "500 B", "1000 B"][:3]),
        (1280, ["0", "0.25 KiB", "0.5 KiB", "0.75 KiB", "1 KiB", "1.25 KiB"]),
        (16 * 2**20, ["0", "5 MiB", "10 MiB", "15 MiB"]),
        (900 * 2**10, ["0", "200 KiB", "400 KiB", "600 KiB", "800 KiB"]),
        (3 * 2**30, ["0", "1 GiB", "2 GiB", "3 GiB"]),
    ],
)
def test_ticks_are_round_in_one_binary_unit(top: int, labels: list[str]) -> None:
    assert [label for _, label in byte_ticks(top)] == labels


@given(st.integers(1, 2**62), st.integers(1, 8))
def test_ticks_stand_where_their_labels_say(top: int, count: int) -> None:
    ticks = byte_ticks(top, count)
    assert len(ticks) <= count + 1
    assert all(0 <= value <= top for value, _ in ticks)
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
    units["EiB"] = 2**60
    for value, label in ticks[1:]:
        figure, unit = label.split()
        assert float(figure) * units[unit] == value


@pytest.mark.parametrize(
    ("length", "ticks"),
    [(0, ()), (1, (0,)), (3, (0, 1, 2)), (5, (0, 1, 2, 3, 4)), (300, (0, 100, 200))],
)
def test_few_nodes_are_named(length: int, ticks: tuple[int, ...]) -> None:
    assert index_ticks(length) == ticks


@given(st.lists(st.none() | st.integers(0, 1000), min_size=1), st.integers(1, 20))
def test_decimation_keeps_the_maximum_of_each_bucket(values: list[int | None], limit: int) -> None:
    kept = decimate(values, limit)
    assert len(kept) == min(len(values), limit)
    # Which bucket a position falls into is counted here value by value.
    buckets: list[list[int]] = [[] for _ in kept]
    for position, value in enumerate(values):
        owner = max(b for b in range(len(kept)) if b * len(values) // len(kept) <= position)
        if value is not None:
            buckets[owner].append(value)
    assert list(kept) == [max(bucket) if bucket else None for bucket in buckets]


def test_decimation_keeps_a_lone_peak() -> None:
    values: list[int | None] = [1] * 50_000
    values[31_415] = 99
    kept = decimate(values, 760)
    assert len(kept) == 760
    assert max(value for value in kept if value is not None) == 99
    assert kept.index(99) == 31_415 * 760 // 50_000
