"""Models whose weights are larger than memory is meant to be: analysed from the graph alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import onnx_notebook_profiler as onp

LAYERS, WIDTH, INNER = 2_500, 1_024, 420
LAYER = ("MatMul", "Sigmoid", "Mul", "MatMul", "Add", "Shape", "Reshape", "Tanh")

MEASURE = """
import json, sys
import onnx_notebook_profiler as onp

def read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

def highest_memory():
    # Not ru_maxrss: that begins with the memory of the process that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))

ctx = onp.ComputeContext(account="evaluator")
before = read()
ctx.compute(sys.argv[1])
peak = ctx.peak.evaluate(batch=2, seq=128)
print(json.dumps({
    "read": read() - before,
    "memory": highest_memory(),
    "peak": peak,
    "nodes": len(ctx),
    "unknown": len(ctx.unknown),
}))
"""


def save(folder: Path, layers: int) -> tuple[Path, int]:
    """A chain of layers whose weights are a file of holes; its path and the bytes of the weights."""
    nodes, weights, offset, x = [], [], 0, "x"
    for number in range(layers):
        a, b, c, d, e, s, r, y = (f"{letter}{number}" for letter in "abcdesry")
        for name, dims in ((f"w{number}", (WIDTH, INNER)), (f"v{number}", (INNER, WIDTH))):
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
            tensor.data_location = TensorProto.EXTERNAL
            length = 4 * WIDTH * INNER
            for key, value in (("location", "weights"), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            offset += length
        made = [
            *(([x, f"w{number}"], a), ([a], b), ([a, b], c), ([c, f"v{number}"], d)),
            *(([d, x], e), ([e], s), ([e, s], r), ([r], y)),
        ]
        nodes += [
            helper.make_node(op, given, [one]) for op, (given, one) in zip(LAYER, made, strict=True)
        ]
        x = y
    shape: list[str | int | None] = ["batch", "seq", WIDTH]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        weights,
    )
    path = folder / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(model.SerializeToString())
    with (folder / "weights").open("wb") as file:
        file.truncate(offset)
    return path, offset


@pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="the system does not count what is read"
)
def test_eight_gigabytes_are_never_read(tmp_path: Path) -> None:
    path, weights = save(tmp_path, LAYERS)
    assert weights > 8 * 2**30
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    found = json.loads(done.stdout)
    assert found["nodes"] == 20_000
    assert found["unknown"] == 0
    # Weights, and at the first Add of a layer what it reads and makes, [2, 128, 1024] each.
    assert found["peak"] == weights + 3 * 4 * 2 * 128 * WIDTH
    assert found["memory"] < 400 * 10**6
    assert found["read"] < 50 * 10**6  # the model's file, and modules that are imported meanwhile


def test_a_model_of_onnx_ir_with_more_than_protobuf_can_hold(tmp_path: Path) -> None:
    path, weights = save(tmp_path, 700)
    assert weights > 2**31
    ctx = onp.ComputeContext(account="evaluator")
    ctx.compute(ir.load(path))
    assert ctx.peak.evaluate(batch=2, seq=128) == weights + 3 * 4 * 2 * 128 * WIDTH


def test_a_model_of_onnx_ir_runs(tmp_path: Path) -> None:
    path, _ = save(tmp_path, 1)
    x = np.ones((1, 2, WIDTH), np.float32)
    (found,) = onp.ReferenceEvaluator(ir.load(path)).run(None, {"x": x})
    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-6)  # weights of zeros
    assert onp.profile(ir.load(path), {"x": x}).peak_bytes == onp.profile(path, {"x": x}).peak_bytes


def test_external_data_of_several_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    model = ir.load(save(tmp_path / "a", 1)[0])
    other = ir.load(save(tmp_path / "b", 1)[0])
    model.graph.initializers["v0"].const_value = other.graph.initializers["v0"].const_value
    with pytest.raises(onp.ModelError, match="in 2 folders"):
        onp.ComputeContext().compute(model)
