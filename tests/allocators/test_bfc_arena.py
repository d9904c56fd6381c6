"""onnxruntime's arena: its rules by hand, against a plain model, and what its answers at other limits would be."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.allocators.arena_chunks import ArenaBuffer
from onnx_notebook_profiler.errors import (
    AllocationError,
    ArenaLimitError,
    InvalidFreeError,
    SizeError,
)
from tests.allocators.arena_model import PlainArena, Refused
from tests.models import text_model

MIB = 2**20
SAME: Literal["kSameAsRequested"] = "kSameAsRequested"
Step = tuple[str, int, int]


def sizes(arena: onp.BFCArena) -> list[list[tuple[int, bool]]]:
    """Size of each chunk and whether it is used, region by region."""
    return [[(one.size, one.in_use) for one in region.chunks] for region in arena.regions()]


# the rules


def test_a_request_is_rounded_up_and_the_first_region_has_a_mebibyte() -> None:
    arena = onp.BFCArena()
    given = arena.allocate(300, "x")
    assert (given.nbytes, given.size, given.offset) == (300, 512, 0)
    assert sizes(arena) == [[(512, True), (MIB - 512, False)]]
    chunk = arena.regions()[0].chunks[0]
    assert (chunk.owner, chunk.requested) == ("x", 300)


def test_regions_double_and_the_doubling_for_a_large_request_ignores_the_cap() -> None:
    arena = onp.BFCArena(max_power_of_two_extend_bytes=4 * MIB)
    for mebibytes in (1, 2, 4, 4, 16, 16, 4):
        arena.allocate(mebibytes * MIB)
    assert [region.size // MIB for region in arena.regions()] == [1, 2, 4, 4, 16, 16, 4]


def test_a_chunk_is_split_from_twice_the_size_on() -> None:
    arena = onp.BFCArena(8192)
    arena.allocate(4096)
    assert sizes(arena) == [[(4096, True), (4096, False)]]
    arena = onp.BFCArena(8192)
    arena.allocate(4352)
    assert sizes(arena) == [[(8192, True)]]
    arena = onp.BFCArena(8192, max_dead_bytes_per_chunk=1024)
    arena.allocate(4352)
    assert sizes(arena) == [[(4352, True), (3840, False)]]


def test_the_smallest_chunk_that_fits_is_taken_and_neighbours_merge() -> None:
    arena = onp.BFCArena(arena_extend_strategy=SAME)
    first, second, third = (arena.allocate(size) for size in (1024, 512, 2048))
    for one in (third, first, second):
        arena.free(one)
    assert sizes(arena) == [[(1024, False)], [(512, False)], [(2048, False)]]
    assert arena.allocate(600).size == 1024
    parts = [arena.allocate(512), arena.allocate(512), arena.allocate(512)]
    assert [one.region.number for one in parts if one.region] == [1, 2, 2]
    arena.free(parts[1])
    arena.free(parts[2])
    assert sizes(arena)[2] == [(2048, False)]


def test_two_neighbouring_regions_never_merge() -> None:
    arena = onp.BFCArena(12_288, SAME)
    for one in [arena.allocate(2048), arena.allocate(2048)]:
        arena.free(one)
    arena.allocate(4096)
    assert arena.statistics().total_allocated == 8192


def test_nothing_is_asked_for_nothing() -> None:
    arena = onp.BFCArena(256)
    given = arena.allocate(0)
    assert arena.statistics().num_allocs == 0
    assert arena.regions() == ()
    arena.free(given)
    with pytest.raises(InvalidFreeError):
        arena.free(given)


def test_reserved_bytes_are_not_rounded_and_count_against_the_limit() -> None:
    arena = onp.BFCArena(8192)
    weights = arena.reserve(8, "w")
    statistics = arena.statistics()
    assert (statistics.in_use, statistics.total_allocated, statistics.num_reserves) == (8, 8, 1)
    arena.allocate(100)
    assert [region.size for region in arena.regions()] == [7936]
    arena.free(weights)
    assert arena.statistics().total_allocated == 7936


@pytest.mark.parametrize(("limit", "works"), [(100, True), (30_768, True), (32_767, True), (32_768, False),
                                              (34_303, False), (34_304, True)])  # fmt: skip
def test_more_reserved_than_the_limit_makes_it_void(limit: int, works: bool) -> None:
    """A MatMul with 32,768 packed bytes and an output of 1,536, as the real runtime does."""
    arena = onp.BFCArena(limit)
    arena.reserve(32_768)
    if works:
        arena.allocate(1536)
    else:
        with pytest.raises(ArenaLimitError):
            arena.allocate(1536)


@pytest.mark.parametrize(("repeats", "works"), [(39, True), (40, False)])
def test_texts_of_24_bytes_in_8192(repeats: int, works: bool) -> None:
    """4k+1 tokens behind one normalized text; then 2,048 bytes for the counts."""
    arena = onp.BFCArena(8192)
    arena.reserve(8)
    arena.allocate(24)
    arena.allocate((4 * repeats + 1) * 24, "tokens")
    if works:
        assert arena.allocate(2048).size == 3840
        return
    with pytest.raises(ArenaLimitError) as caught:
        arena.allocate(2048, "counts")
    error = caught.value
    assert "Available memory of 0 is smaller than requested bytes of 2048" in str(error)
    assert (error.nbytes, error.rounded, error.available) == (2048, 2048, 0)
    assert "'counts'" in str(error)
    (region,) = arena.regions()
    assert error.regions == (region,)
    assert [(one.size, one.requested) for one in region.chunks] == [(256, 24), (7680, 3864)]


def test_shrinking_keeps_the_first_region_of_doubling_ones() -> None:
    arena = onp.BFCArena()
    given = [arena.allocate(MIB), arena.allocate(2 * MIB), arena.allocate(4 * MIB)]
    arena.free(given[0])
    arena.free(given[2])
    assert arena.shrink() == 4 * MIB
    statistics = arena.statistics()
    assert (statistics.num_arena_extensions, statistics.num_arena_shrinkages) == (2, 1)
    arena.allocate(2 * MIB)
    assert [region.size // MIB for region in arena.regions()] == [1, 2, 2]
    arena = onp.BFCArena(0, SAME)
    arena.free(arena.allocate(100))
    assert arena.shrink() == 256
    assert arena.statistics().total_allocated == 0


def test_statistics_by_the_names_of_the_runtime() -> None:
    arena = onp.BFCArena()
    assert set(arena.statistics().as_dict()) == {
        "Limit", "InUse", "TotalAllocated", "MaxInUse", "NumAllocs", "NumReserves", "NumArenaExtensions",
        "NumArenaShrinkages", "MaxAllocSize", "RequestedInUse",
    }  # fmt: skip
    arena.allocate(1000)
    assert arena.statistics().padding == 24
    assert arena.statistics().idle == MIB - 1024


# against a plain model


@st.composite
def sequences(draw: st.DrawFn) -> list[Step]:
    """Requests, frees and shrinks; (what, number of the request, bytes)."""
    live: list[int] = []
    found: list[Step] = []
    most = draw(st.sampled_from([600, 5_000, 300_000]))
    for number in range(draw(st.integers(1, 40))):
        kind = draw(st.sampled_from(["allocate"] * 10 + ["free"] * 8 + ["shrink", "reserve"]))
        if kind == "free" and live:
            found.append(("free", live.pop(draw(st.integers(0, len(live) - 1))), 0))
        elif kind == "shrink":
            found.append(("shrink", 0, 0))
        elif kind != "free":
            found.append((kind, number, draw(st.integers(1, most))))
            live.append(number)
    return found


def played(arena: onp.BFCArena, steps: Iterable[Step]) -> tuple[dict[int, ArenaBuffer], str]:
    """The live buffers, and the words of a refusal."""
    live: dict[int, ArenaBuffer] = {}
    for what, number, nbytes in steps:
        try:
            if what == "allocate":
                live[number] = arena.allocate(nbytes)
            elif what == "reserve":
                live[number] = arena.reserve(nbytes)
            elif what == "free":
                arena.free(live.pop(number))
            else:
                arena.shrink()
        except AllocationError as error:
            return live, str(error)
    return live, ""


SETTINGS = st.fixed_dictionaries(
    {
        "arena_extend_strategy": st.sampled_from([0, 1]),
        "initial_chunk_size_bytes": st.sampled_from([256, 1000, 4096, MIB]),
        "max_dead_bytes_per_chunk": st.sampled_from([0, 256, 1024, 128 * MIB]),
        "initial_growth_chunk_size_bytes": st.sampled_from([4096, 2 * MIB]),
        "max_power_of_two_extend_bytes": st.sampled_from([4096, MIB, 1024 * MIB]),
    }
)
LIMITS = st.one_of(st.just(0), st.integers(1, 20_000), st.integers(1, 3_000_000))


@settings(max_examples=250, deadline=None)
@given(sequences(), SETTINGS, LIMITS)
def test_every_answer_is_that_of_the_plain_model(
    steps: list[Step], options: dict[str, Any], limit: int
) -> None:
    arena = onp.BFCArena(limit, **options)
    plain = PlainArena(limit, **options)
    words = ""
    for what, number, nbytes in steps:
        try:
            if what == "shrink":
                plain.shrink()
            elif what == "free":
                plain.free(number)
            else:
                getattr(plain, what)(number, nbytes)
        except Refused as refusal:
            words = str(refusal)
            break
    live, error = played(arena, steps)
    assert error.startswith(words)
    assert bool(error) == bool(words)
    assert arena.statistics().as_dict() == plain.statistics()
    assert sizes(arena) == [
        [(piece[0], piece[1] > 0) for piece in region] for region in plain.regions.values()
    ]
    for region in arena.regions():
        offsets = np.cumsum([0, *(chunk.size for chunk in region.chunks)])
        assert [chunk.offset for chunk in region.chunks] == offsets[:-1].tolist()
        assert region.size == offsets[-1]
        free = [not chunk.in_use for chunk in region.chunks]
        assert not any(a and b for a, b in itertools.pairwise(free))
    for buffer in live.values():
        arena.free(buffer)
    assert arena.total_allocated_size == arena.allocated_count == 0


# other limits


@settings(max_examples=120, deadline=None)
@given(sequences(), SETTINGS, st.integers(0, 60_000), st.randoms(use_true_random=False))
def test_up_to_the_next_limit_nothing_changes(
    steps: list[Step], options: dict[str, Any], more: int, random: Random
) -> None:
    """The same chunks at the same places, and the same request refused."""
    limit = 1 + sum(nbytes for what, _, nbytes in steps if what == "reserve") + more

    def answer(at: int) -> tuple[list[tuple[int, int]], bool, int | None]:
        arena = onp.BFCArena(at, **options)
        live, error = played(arena, steps)
        places = [(one.region.number if one.region else -1, one.offset) for one in live.values()]
        return places, bool(error), arena.next_limit

    places, failed, following = answer(limit)
    assert following is None or following > limit
    last = min(limit + 40_000, (following or 2**63) - 1)
    for at in {last, *(random.randint(limit, last) for _ in range(40))}:
        assert answer(at)[:2] == (places, failed)


# as an allocator


def test_a_model_runs_under_it() -> None:
    model = text_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[N] x) => (float[N] y) { a = Exp(x)  b = Neg(a)  y = Sqrt(b) }"""
    )
    feeds = {"x": np.ones(100, np.float32)}
    arena = onp.BFCArena(1024)
    run = onp.ReferenceEvaluator(model, allocator=arena, events_enabled=True)
    assert run.run(None, feeds)[0].shape == (100,)
    # Two buffers of 400 bytes at once, in chunks of 512.
    assert arena.statistics().max_in_use == 1024
    assert max(event.peak_bytes for event in run.events()) == 1024
    with pytest.raises(AllocationError, match="'b'"):
        onp.ReferenceEvaluator(model, allocator=onp.BFCArena(768)).run(None, feeds)


def test_its_events() -> None:
    log = onp.EventLog()
    arena = onp.BFCArena(log=log)
    arena.reserve(10, "w")
    arena.free(arena.allocate(100, "x"))
    assert [(event.action.name, event.owner) for event in log] == [
        ("RESERVE", "w"), ("ALLOCATE", "x"), ("FREE", "x"),
    ]  # fmt: skip
    assert [event.allocated_bytes for event in log] == [10, 266, 10]


# what it is given


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_mem": -1}, "max_mem is a number of bytes, 0 or more (0: no limit), not -1"),
        ({"max_mem": True}, "max_mem is a number of bytes"),
        ({"max_mem": 1.5}, "not 1.5"),
        ({"max_mem": 2**63}, "max_mem is a number of bytes"),
        ({"arena_extend_strategy": 2}, "'kNextPowerOfTwo' (0, -1) or 'kSameAsRequested' (1), not 2"),
        ({"arena_extend_strategy": "kNext"}, "not 'kNext'"),
        ({"initial_chunk_size_bytes": 0}, "initial_chunk_size_bytes is a number of bytes, 1 or more"),
        ({"max_dead_bytes_per_chunk": -2}, "max_dead_bytes_per_chunk"),
        ({"max_power_of_two_extend_bytes": "1"}, "not '1'"),
    ],
)  # fmt: skip
def test_settings_that_are_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SizeError, match=re.escape(words)):
        onp.BFCArena(**options)


def test_what_is_no_request_and_no_buffer_of_its_own() -> None:
    arena, other = onp.BFCArena(), onp.BFCArena()
    with pytest.raises(SizeError, match="-1 bytes"):
        arena.allocate(-1)
    given = arena.allocate(8)
    with pytest.raises(InvalidFreeError, match="belongs to"):
        other.free(given)
    arena.free(given)
    with pytest.raises(InvalidFreeError, match="freed already"):
        arena.free(given)
    assert "holds 1,048,576 bytes, 0 in use" in repr(arena)
