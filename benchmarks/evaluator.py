"""The evaluator against onnx.reference and onnxruntime, on one thread, model by model.

    python benchmarks/evaluator.py [MODEL or FOLDER ...]     time, a table in Markdown
    python benchmarks/evaluator.py --nodes 3 [...]           and where our time goes, node by node
    python benchmarks/evaluator.py --memory MODEL [--size DIM=N ...]   peak memory of whole processes

Without arguments it takes the models that installed packages ship. A folder with a ``make_inputs.py`` that has
``make_inputs(path)`` gets its feeds from there. All ways of running a model take turns in one process; figures are
medians, ratios are medians of the ratios within each round. onnxruntime runs unoptimised.
"""

# ruff: noqa: E402 - numpy reads the number of threads when it is imported

from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import onnx
from models import Model, load, model_files

import onnx_notebook_profiler as onp

LARGE = 5e-3
"""Seconds from which on a model counts as a large one, by onnxruntime's time."""
REFERENCE_LIMIT = 20.0
"""Seconds that one run of onnx.reference may take."""
REFERENCE_MEMORY = 8 * 2**30
ORT, ALL, NUMPY, EVENTS, TIER, REFERENCE = (
    "onnxruntime",
    "onnxruntime, every value an output",
    "numpy",
    "numpy with events",
    "kernels=onnxruntime",
    "onnx.reference",
)
COLUMNS = (("numpy", NUMPY, ORT), ("tier", TIER, ALL), ("events", EVENTS, NUMPY))
"""What a column holds: the ratio of two ways of running a model."""


class Timing(NamedTuple):
    """Seconds of each way in each round; fewer rounds for onnx.reference."""

    model: Model
    nodes: int
    seconds: Mapping[str, Sequence[float]]

    def median(self, way: str) -> float:
        """Median seconds, or NaN where the way does not run."""
        return statistics.median(self.seconds[way]) if self.seconds.get(way) else math.nan

    def ratio(self, way: str, base: str) -> float:
        """Median over the rounds of how many times as long *way* took as *base*."""
        if not self.seconds.get(way) or not self.seconds.get(base):
            return math.nan
        pairs = zip(self.seconds[way], self.seconds[base], strict=False)
        return statistics.median(one / other for one, other in pairs)

    @property
    def large(self) -> bool:
        """True for a model that counts as a large one."""
        return self.median(ORT) >= LARGE


def session(model: onnx.ModelProto | str, options: Any = None) -> Any:
    """A session of onnxruntime on one thread, unoptimised."""
    import onnxruntime

    options = options or onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def every_value(path: Path) -> onnx.ModelProto:
    """The model with each value of its main graph as an output."""
    model = onnx.load(path)
    known = {value.name for value in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in known:
                model.graph.output.add(name=name)
    return model


def evaluator(path: Path, **options: Any) -> onp.ReferenceEvaluator:
    """Ours."""
    return onp.ReferenceEvaluator(str(path), **options)


def ways(model: Model) -> dict[str, Callable[[], Any]]:
    """The ways of running *model* that are able to, each as a function without arguments."""
    feeds, path = dict(model.feeds), model.path
    makers: dict[str, Callable[[], Any]] = {
        ORT: lambda: session(str(path)),
        ALL: lambda: session(every_value(path)),
        NUMPY: lambda: evaluator(path, kernels="numpy"),
        EVENTS: lambda: evaluator(
            path,
            kernels="numpy",
            events_enabled=True,
            allocator=onp.SimpleRawBufferAllocator(100_000),
        ),
        TIER: lambda: evaluator(path, kernels="onnxruntime"),
    }
    found: dict[str, Callable[[], Any]] = {}
    for name, make in makers.items():
        try:
            runner = make()
            runner.run(None, feeds)
        except Exception as error:  # noqa: BLE001 - whatever stops one way, the others go on
            print(f"{model.label}: {name} fails: {str(error)[:150]}", file=sys.stderr)
            continue
        found[name] = lambda runner=runner: runner.run(None, feeds)
    return found


def reference_seconds(model: Model) -> float:
    """Seconds of one run of onnx.reference, tried in a process of its own; NaN where that fails or takes too long."""
    command = [sys.executable, __file__, "--one-reference-run", str(model.path)]
    try:
        done = subprocess.run(  # noqa: S603 - this file itself
            command, capture_output=True, text=True, timeout=REFERENCE_LIMIT * 1.5, check=False
        )
        return float(done.stdout) if done.returncode == 0 else math.nan
    except (subprocess.TimeoutExpired, ValueError):
        return math.nan


def reference_runner(model: Model) -> Callable[[], Any]:
    """onnx.reference as a function without arguments."""
    from onnx.reference import ReferenceEvaluator

    runner, feeds = ReferenceEvaluator(str(model.path)), dict(model.feeds)
    return lambda: runner.run(None, feeds)


def measure(model: Model, seconds: float, *, reference: bool) -> Timing:
    """Let all ways take turns for about *seconds*, at least three rounds and at most two hundred."""
    runners = ways(model)
    once = sum(timed(run) for run in runners.values())
    rounds = min(200, max(3, int(seconds / once))) if runners else 0
    slow = reference_seconds(model) if reference else math.nan
    slow_rounds = 0
    if slow <= REFERENCE_LIMIT:
        runners[REFERENCE] = reference_runner(model)
        slow_rounds = max(1, min(rounds, int(seconds / slow)))
    taken: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(rounds):
        for name, run in runners.items():
            if name != REFERENCE or number < slow_rounds:
                taken[name].append(timed(run))
    graph = onnx.load(model.path, load_external_data=False).graph
    return Timing(model, len(graph.node), taken)


def timed(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    started = perf_counter()
    run()
    return perf_counter() - started


# tables


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    found = [math.log(value) for value in values if not math.isnan(value)]
    return math.exp(sum(found) / len(found)) if found else math.nan


def print_table(timings: Sequence[Timing]) -> None:
    """One row for each model, slowest first, then what the goals are about."""
    print(
        "| model | nodes | onnxruntime, ms | numpy, ms | numpy | tier | events | onnx.reference |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    for timing in sorted(timings, key=lambda one: -one.median(ORT)):
        times = [f"{timing.median(way) * 1000:.2f}" for way in (ORT, NUMPY)]
        ratios = [f"{timing.ratio(way, base):.2f}" for _, way, base in COLUMNS]
        cells = [timing.model.label, str(timing.nodes), *times, *ratios, faster(timing)]
        print(f"| {' | '.join(cells).replace('nan', '–')} |")
    print()
    print("| models | of | geometric mean | median | worst |")
    print("| --- | --- | --: | --: | --: |")
    for text, large in (("5 ms and more", True), ("below 5 ms", False)):
        chosen = [timing for timing in timings if timing.large == large]
        for column, way, base in (*COLUMNS, ("onnx.reference", REFERENCE, NUMPY)):
            found = [timing.ratio(way, base) for timing in chosen]
            found = [one for one in found if not math.isnan(one)]
            if found:
                worst = min(found) if way == REFERENCE else max(found)
                middle = statistics.median(found)
                figures = f"{geometric_mean(found):.2f} | {middle:.2f} | {worst:.2f}"
                print(f"| {text} ({len(found)}) | {column} | {figures} |")


def faster(timing: Timing) -> str:
    """How many times as long onnx.reference takes as ours."""
    return f"{timing.ratio(REFERENCE, NUMPY):.1f}"


# node by node


def our_nodes(model: Model, rounds: int) -> dict[int, tuple[str, float]]:
    """Label and least seconds of each node of the main graph, by index."""
    runner = evaluator(model.path, kernels="numpy", events_enabled=True)
    found: dict[int, tuple[str, float]] = {}
    for _ in range(rounds):
        runner.run(None, dict(model.feeds))
        for event in runner.events():
            if event.action.label == "run_node" and not event.subgraph_path:
                _, before = found.get(event.node_index, ("", math.inf))
                label = f"{event.op_type} ({event.tier})"
                found[event.node_index] = (label, min(before, event.duration_ns / 1e9))
    return found


def their_nodes(model: Model, rounds: int) -> dict[int, float]:
    """Least seconds that onnxruntime's profiler saw for each node of the main graph."""
    proto = onnx.load(model.path)
    for index, node in enumerate(proto.graph.node):
        node.name = f"number{index}"
    found: dict[int, float] = {}
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        runner = session(proto, options)
        for _ in range(rounds):
            runner.run(None, dict(model.feeds))
        entries = json.loads(Path(runner.end_profiling()).read_text(encoding="utf-8"))
    for entry in entries:
        name = entry.get("name", "")
        if entry.get("cat") == "Node" and name.endswith("_kernel_time"):
            number = name.removesuffix("_kernel_time").removeprefix("number")
            if number.isdigit():
                found[int(number)] = min(found.get(int(number), math.inf), entry["dur"] / 1e6)
    return found


def print_nodes(model: Model, rounds: int, rows: int) -> None:
    """Operators, then single nodes, by what ours took longer than onnxruntime's."""
    ours, theirs = our_nodes(model, rounds), their_nodes(model, rounds)
    shapes = value_shapes(model)
    nodes = onnx.load(model.path, load_external_data=False).graph.node
    by_operator: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    listed = []
    for index, (label, mine) in ours.items():
        other = theirs.get(index, 0.0)
        for position, value in enumerate((mine, other, 1)):
            by_operator[label][position] += value
        listed.append((mine - other, index, label, mine, other))
    print(f"\n{model.label}: ms, least of {rounds} runs\n")
    print("| operator | nodes | numpy | onnxruntime | longer by |")
    print("| --- | --: | --: | --: | --: |")
    ranked = sorted(by_operator.items(), key=lambda item: item[1][1] - item[1][0])
    for label, (mine, other, count) in ranked[:rows]:
        print(
            f"| {label} | {count:.0f} | {mine * 1e3:.2f} | {other * 1e3:.2f} | {(mine - other) * 1e3:.2f} |"
        )
    print("\n| node | inputs | numpy | onnxruntime | longer by |")
    print("| --- | --- | --: | --: | --: |")
    for longer, index, label, mine, other in sorted(listed, reverse=True)[:rows]:
        seen = ", ".join(shapes.get(name, "") for name in nodes[index].input)
        print(
            f"| {index} {label} | {seen} | {mine * 1e3:.2f} | {other * 1e3:.2f} | {longer * 1e3:.2f} |"
        )


def value_shapes(model: Model) -> dict[str, str]:
    """The shape of each tensor of the main graph, as text."""
    runner = evaluator(model.path, kernels="numpy")
    plan = runner.plan
    names = [name for name in plan.slots if name]
    values = runner.run(names, dict(model.feeds))
    return {
        name: "x".join(map(str, value.shape)) or "scalar"
        for name, value in zip(names, values, strict=True)
        if hasattr(value, "shape")
    }


# memory of whole processes


def high_water() -> int:
    """The most bytes that this process has had in memory so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def one_memory_run(model: Model, way: str) -> None:
    """Run once and print what the process took, what it had before, and the accounts' own peak."""
    account = onp.SimpleRawBufferAllocator(100_000)
    before = high_water()
    if way == "numpy":
        runner: Any = evaluator(
            model.path, kernels="numpy", allocator=account, io_allocator=account
        )
    else:
        runner = session(str(model.path))
    for _ in range(2):
        runner.run(None, dict(model.feeds))
    print(json.dumps([high_water(), before, account.peak_allocated_size]))


def print_memory(path: Path, sizes: Sequence[str]) -> None:
    """Peak memory of a fresh process for ours and for onnxruntime, beside the accounts' peak."""
    extra = [part for size in sizes for part in ("--size", size)]
    print("| way | peak of the process, MiB | before the model | accounts' own peak |")
    print("| --- | --: | --: | --: |")
    for way in ("numpy", "onnxruntime"):
        command = [sys.executable, __file__, "--one-memory-run", way, str(path), *extra]
        done = subprocess.run(  # noqa: S603 - this file itself
            command, capture_output=True, text=True, check=True
        )
        peak, before, account = (f"{value / 2**20:.1f}" for value in json.loads(done.stdout))
        print(f"| {way} | {peak} | {before} | {account if way == 'numpy' else '–'} |")


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="model files, or folders of them")
    parser.add_argument("--seconds", type=float, default=6, help="time for each model")
    parser.add_argument("--no-reference", action="store_true", help="leave onnx.reference out")
    parser.add_argument("--nodes", type=int, default=0, help="look into this many slowest models")
    parser.add_argument("--rows", type=int, default=12, help="rows of the tables of nodes")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of time")
    parser.add_argument("--size", action="append", default=[], help="NAME=N or INPUT:AXIS=N")
    parser.add_argument("--one-reference-run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one-memory-run", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure what the command line asks for."""
    warnings.simplefilter("ignore")
    options = parsed()
    sizes = {name: int(number) for name, number in (one.split("=") for one in options.size)}
    paths = model_files(options.models)
    if options.memory:
        for path in paths:
            print_memory(path, options.size)
        return
    if options.one_memory_run:
        one_memory_run(load(paths[0], sizes), options.one_memory_run)
        return
    if options.one_reference_run:
        resource.setrlimit(resource.RLIMIT_AS, (REFERENCE_MEMORY, REFERENCE_MEMORY))
        print(timed(reference_runner(load(paths[0], sizes))))
        return
    timings = []
    for path in paths:
        model = load(path, sizes)
        timing = measure(model, options.seconds, reference=not options.no_reference)
        print(f"{model.label}: {timing.ratio(NUMPY, ORT):.2f}", file=sys.stderr)
        timings.append(timing)
    print_table([timing for timing in timings if timing.seconds.get(ORT)])
    slowest = sorted(timings, key=lambda one: -(one.ratio(NUMPY, ORT) if one.large else 0))
    for timing in slowest[: options.nodes]:
        print_nodes(timing.model, rounds=5, rows=options.rows)


if __name__ == "__main__":
    main()
