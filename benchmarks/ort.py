"""What it costs to trace onnxruntime: the recording allocator against the session's own arena, run by run.

    python benchmarks/ort.py [--rounds 7] [MODEL ...]

Sessions with and without the recording take turns in one process, on one thread. Figures are medians of later runs;
ratios are medians of the ratios within each round. Without arguments it takes the models that installed packages ship
and that take 5 ms or more.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import onnx
from models import load, model_files

from onnx_notebook_profiler.ort.settings import SessionSettings
from onnx_notebook_profiler.ort.tracing import Job, RawTrace, run_jobs

RUNS = 15
LARGE_MS = 5.0
SETTINGS = {
    "pattern": SessionSettings(threads=1),
    "no pattern": SessionSettings(threads=1, pattern=False),
}


def milliseconds(raw: RawTrace) -> float:
    """Median of the later runs."""
    assert not raw.error, raw.error
    return statistics.median(run.ended - run.began for run in raw.runs[3:]) / 1e6


def measure(path: Path, rounds: int) -> None:
    """Print one row for each setting."""
    model = load(path, {})
    graph = onnx.load(path, load_external_data=False).graph
    outputs = [value.name for value in graph.output]
    for name, settings in SETTINGS.items():
        for is_profiled in (False, True):
            jobs = [
                Job(path, [model.feeds] * RUNS, outputs, settings, None, is_traced, is_profiled)
                for _ in range(rounds)
                for is_traced in (False, True)
            ]
            with tempfile.TemporaryDirectory() as folder:
                found = run_jobs(Path(folder), jobs)
            plain = [milliseconds(raw) for raw in found[::2]]
            traced = [milliseconds(raw) for raw in found[1::2]]
            if statistics.median(plain) < LARGE_MS:
                continue
            ratio = statistics.median(t / p for t, p in zip(traced, plain, strict=True))
            rows = len(found[1].runs[-1].rows)
            print(
                f"| {model.label} | {name} | {'profiled' if is_profiled else 'not profiled'} | {rows} | "
                f"{statistics.median(plain):.2f} | {statistics.median(traced):.2f} | {ratio:.3f} |",
                flush=True,
            )


def main() -> None:
    """Measure each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        "| model | memory pattern | profile | requests a run | arena, ms | recorded, ms | ratio |"
    )
    print("|---|---|---|--:|--:|--:|--:|")
    for path in model_files(options.models):
        measure(path, options.rounds)


if __name__ == "__main__":
    main()
