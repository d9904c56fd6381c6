"""How long the formulas take, as ratios within one process.

    python benchmarks/symbolic.py [MODEL or FOLDER ...]

For each model: `compute` against the shape engine alone on the same model, and against onnxruntime's symbolic shape
inference; totals of all nodes at one size and at a thousand; the peak at one size. Then a generated transformer of two
sizes, for the growth of a node's time. A loop of additions is timed beside: times in its units can be compared between
machines. Figures are the least of several.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
from models import label_of, model_files
from onnx import ModelProto, TensorProto

import onnx_notebook_profiler as onp

ROUNDS = 5


def least(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Least seconds of some calls."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        run()
        times.append(perf_counter() - started)
    return min(times)


def calibration() -> float:
    """Seconds of a loop of 100,000 additions."""

    def loop() -> int:
        total = 0
        for number in range(100_000):
            total += number
        return total

    return least(loop)


def transformer(layers: int) -> ModelProto:
    """Attention and feed-forward, 15 nodes a layer, on float32 [batch, seq, 64]."""
    weights, nodes, value = [], [], "x"
    for name, shape in (("w", [64, 64]), ("up", [64, 256]), ("down", [256, 64])):
        size = shape[0] * shape[1]
        weights.append(oh.make_tensor(name, TensorProto.FLOAT, shape, [0.0] * size))
    weights.append(oh.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
    for layer in range(layers):
        made = [f"{layer}.{step}" for step in range(15)]
        nodes += [
            oh.make_node("MatMul", [value, "w"], [made[0]]),
            oh.make_node("MatMul", [value, "w"], [made[1]]),
            oh.make_node("MatMul", [value, "w"], [made[2]]),
            oh.make_node("Transpose", [made[1]], [made[3]], perm=[0, 2, 1]),
            oh.make_node("MatMul", [made[0], made[3]], [made[4]]),
            oh.make_node("Mul", [made[4], "one"], [made[5]]),
            oh.make_node("Softmax", [made[5]], [made[6]]),
            oh.make_node("MatMul", [made[6], made[2]], [made[7]]),
            oh.make_node("MatMul", [made[7], "w"], [made[8]]),
            oh.make_node("Add", [made[8], value], [made[9]]),
            oh.make_node("MatMul", [made[9], "up"], [made[10]]),
            oh.make_node("Relu", [made[10]], [made[11]]),
            oh.make_node("MatMul", [made[11], "down"], [made[12]]),
            oh.make_node("Add", [made[12], made[9]], [made[13]]),
            oh.make_node("Mul", [made[13], "one"], [made[14]]),
        ]
        value = made[14]
    shape = ["batch", "seq", 64]
    graph = oh.make_graph(
        nodes,
        "transformer",
        [oh.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [oh.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        weights,
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=10)


def stripped(path: Path) -> ModelProto:
    """The model without its weights' data and recorded shapes."""
    model = onnx.load(path, load_external_data=False)
    del model.graph.value_info[:]
    return model


def compute(model: ModelProto) -> onp.ComputeContext:
    """All formulas of a model."""
    context = onp.ComputeContext(account="evaluator")
    context.compute(model)
    return context


def engine(model: ModelProto) -> None:
    """The shape engine alone."""
    import onnx_ir as ir
    from onnx_shape_inference import infer_symbolic_shapes

    infer_symbolic_shapes(ir.from_proto(model), warn_on_missing=False)


def onnxruntime_shapes(model: ModelProto) -> None:
    """onnxruntime.tools.symbolic_shape_infer, which leaves files behind."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            SymbolicShapeInference.infer_shapes(model, auto_merge=True)
        finally:
            os.chdir(here)


def attempt(run: Callable[[], Any]) -> float | None:
    """Least seconds, or None where it fails."""
    try:
        return least(run, 2)
    except Exception:  # noqa: BLE001 - whatever stops one tool
        return None


def queries(context: onp.ComputeContext, size: int) -> tuple[float, float, float]:
    """Seconds of totals at one size and at a thousand, and of the peak at one size."""
    one = dict.fromkeys(context.dims, size)
    many: dict[str, Any] = dict(one)
    if context.dims:
        many[context.dims[0]] = np.arange(1, 1001)
    for _ in range(20):
        context.peak.evaluate(one)
    peak = least(lambda: [context.peak.evaluate(one) for _ in range(100)]) / 100
    return least(lambda: context.totals(one)), least(lambda: context.totals(many)), peak


def row(label: str, proto: ModelProto, loop: float) -> str:
    """The figures of one model."""
    ours = least(lambda: compute(proto), 3)
    alone = attempt(lambda: engine(proto))
    theirs = attempt(lambda: onnxruntime_shapes(proto))
    one, many, peak = queries(compute(proto), 64)
    ratios = [f"{ours / alone:.2f}" if alone else "–", f"{theirs / ours:.2f}" if theirs else "–"]
    times = [f"{ours * 1000:.0f}", f"{ours / loop:.0f}"]
    rest = [f"{one * 1e6:.0f}", f"{many * 1000:.1f}", f"{peak * 1e6:.1f}"]
    return f"| {' | '.join([label, str(len(proto.graph.node)), *times, *ratios, *rest])} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", type=Path)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    loop = calibration()
    print(f"calibration loop: {loop * 1000:.2f} ms\n")
    print(
        "| model | nodes | compute, ms | in loops | compute / engine | onnxruntime / compute | totals, us | "
        "1,000 sizes, ms | peak, us |"
    )
    print("| --- |" + " --: |" * 8)
    for path in model_files(parser.parse_args().places):
        print(row(label_of(path), stripped(path), loop), flush=True)
    seconds = []
    for layers in (100, 1000):
        proto = transformer(layers)
        print(row(f"transformer of {layers} layers", proto, loop), flush=True)
        seconds.append(least(lambda proto=proto: compute(proto), 2) / len(proto.graph.node))  # type: ignore[misc]
    print(f"\ntime of a node at 10 times as many nodes: {seconds[1] / seconds[0]:.2f} times")


if __name__ == "__main__":
    main()
