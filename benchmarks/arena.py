"""How long the simulated arena takes, and a report of what a session needs.

    python benchmarks/arena.py

An allocation and a free among 10,000 live chunks against an insertion and a deletion in a dictionary of 10,000 keys, in
turn in one process. Then the report of a generated transformer of a thousand nodes: plan, requests of three runs, the
limits that work for one run and for all.
"""

from __future__ import annotations

import itertools
import random
import statistics
from time import perf_counter

from symbolic import transformer

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.allocators.arena_settings import STRATEGIES, ArenaSettings
from onnx_notebook_profiler.model import load_model
from onnx_notebook_profiler.ort.planned_session import plan_model
from onnx_notebook_profiler.profile.arena_report import make_report

LIVE, STEPS, ROUNDS = 10_000, 50_000, 7


def chunk_ratio() -> tuple[float, float, float]:
    """Microseconds of an allocation and a free, of the dictionary's pair, and the ratio; medians of rounds."""
    rng = random.Random(0)  # noqa: S311 - sizes
    arena = onp.BFCArena()
    live = [arena.allocate(rng.randrange(1, 100_000)) for _ in range(LIVE)]
    places = [rng.randrange(LIVE) for _ in range(STEPS)]
    sizes = [rng.randrange(1, 100_000) for _ in range(STEPS)]
    keys = dict.fromkeys(range(LIVE), 0)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        started = perf_counter()
        for place, size in zip(places, sizes, strict=True):
            arena.free(live[place])
            live[place] = arena.allocate(size)
        ours.append(perf_counter() - started)
        started = perf_counter()
        for place, size in zip(places, sizes, strict=True):
            del keys[place]
            keys[place] = size
        theirs.append(perf_counter() - started)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    scale = 1e6 / STEPS
    return statistics.median(ours) * scale, statistics.median(theirs) * scale, ratio


def main() -> None:
    """Print both tables."""
    ours, theirs, ratio = chunk_ratio()
    print(f"allocate and free at {LIVE:,} live chunks: {ours:.2f} us")
    print(f"insert and delete in a dictionary:        {theirs:.2f} us, ratio {ratio:.1f}\n")
    proto = transformer(67)
    print(f"report of a model of {len(proto.graph.node):,} nodes, three runs")
    print("| strategy | sizes | plan | requests | limits | in all | least, one run | least, all |")
    print("| --- | --- | --: | --: | --: | --: | --: | --: |")
    plan_model(load_model(transformer(1)))
    for strategy in STRATEGIES:
        for sizes in ({"batch": 1, "seq": 16}, {"batch": 8, "seq": 128}, {"batch": 32, "seq": 512}):
            times = [perf_counter()]
            source = plan_model(load_model(proto))
            times.append(perf_counter())
            settings = ArenaSettings.checked(arena_extend_strategy=strategy)
            report = make_report(
                "transformer",
                source,
                [sizes] * 3,
                settings,
                lambda _: {},
                pattern=True,
                optimized=False,
            )
            times.append(perf_counter())
            least, once = report.limits.least, report.first_run.least
            times.append(perf_counter())
            steps = [f"{b - a:.3f}" for a, b in itertools.pairwise(times)]
            shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
            print(
                f"| {strategy} | {shown} | {' | '.join(steps)} | {times[-1] - times[0]:.2f} s |"
                f" {once:,} | {least:,} |"
            )


if __name__ == "__main__":
    main()
