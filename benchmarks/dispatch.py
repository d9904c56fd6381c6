"""What a node costs beyond its kernel: a chain of Add on four floats, against a bare loop of the same numpy calls.

Both loops run in one process, in turn, many times; figures are medians. Run: python benchmarks/dispatch.py
"""

from __future__ import annotations

import itertools
import statistics
from time import perf_counter_ns

import numpy as np
import onnx.helper as oh
from onnx import ModelProto, TensorProto

import onnx_notebook_profiler as onp

NODES = 1000
ROUNDS = 60


def chain(nodes: int) -> ModelProto:
    """Adds one *nodes* times, on float32 [4]."""
    names = ["x", *(f"v{index}" for index in range(nodes - 1)), "y"]
    steps = [
        oh.make_node("Add", [source, "one"], [target])
        for source, target in itertools.pairwise(names)
    ]
    graph = oh.make_graph(
        steps,
        "chain",
        [oh.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [oh.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [oh.make_tensor("one", TensorProto.FLOAT, [4], [1.0] * 4)],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=10)


def bare(x: np.ndarray, one: np.ndarray, out: np.ndarray) -> None:
    """The kernels alone: as many calls of numpy's add into a buffer as the chain has nodes."""
    add = np.add
    for _ in range(NODES):
        add(x, one, out)


def main() -> None:
    """Print microseconds a node: of the bare loop, and what each way of running adds to it."""
    model = chain(NODES)
    x, one, out = np.ones(4, np.float32), np.ones(4, np.float32), np.empty(4, np.float32)
    quiet = onp.ReferenceEvaluator(model)
    events = onp.ReferenceEvaluator(
        model, events_enabled=True, allocator=onp.SimpleRawBufferAllocator(4096)
    )
    runs = {
        "bare loop of numpy.add": lambda: bare(x, one, out),
        "events off": lambda: quiet.run(None, {"x": x}),
        "events on, both accounts": lambda: events.run(None, {"x": x}),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            started = perf_counter_ns()
            run()
            times[name].append((perf_counter_ns() - started) / NODES / 1000)
    base = statistics.median(times["bare loop of numpy.add"])
    spread = statistics.quantiles(times["bare loop of numpy.add"], n=10)
    print(f"{NODES} nodes, {ROUNDS} rounds; bare loop p10 {spread[0]:.2f} p90 {spread[-1]:.2f} us")
    for name, taken in times.items():
        median = statistics.median(taken)
        least = min(taken)
        print(
            f"{name:26s} {median:6.2f} us a node, {median - base:6.2f} over the kernel; least {least:.2f}"
        )


if __name__ == "__main__":
    main()
