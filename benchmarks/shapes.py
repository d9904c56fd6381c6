"""Shape inference against a real run: how many values each way of doing it gets right, and how long it takes.

    python benchmarks/shapes.py [MODEL or FOLDER ...]

Without arguments it takes the models that installed packages ship. A value is the tensor that a node of the main graph
gives. Recorded shapes are removed first, and every open dimension of the inputs gets a name. A value counts as *right*
where every dimension is a number or an expression over these names that fits the runs at two sizes (at one, where the
model runs at no other), as *wrong* where one does not fit, as *anonymous* where one has an invented name or none, and
as *unknown* where there is no shape at all, or the tool gave up on the model.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from models import Model, load, model_files
from onnx import ModelProto
from onnx_shape_inference import infer_symbolic_shapes

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.model import graph_inputs, load_model
from onnx_notebook_profiler.symbolic.dims import read_dims
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.expression_parser import parse_expression
from onnx_notebook_profiler.symbolic.shapes import ValueType, infer_types

KINDS = ("right", "wrong", "anonymous", "unknown")
REPEATS = 3

Shape = tuple[int | str | Expr | None, ...]
Tool = Callable[[ModelProto], Mapping[str, Shape]]


class Run(NamedTuple):
    """The sizes of the named dimensions, and the shape of every value."""

    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]


# models


def named(path: Path) -> tuple[ModelProto, dict[str, list[int | str]]]:
    """A copy without recorded shapes whose open input dimensions are ``s0``, ``s1``, …; and the inputs' shapes.

    One name of the author's stays one name.
    """
    model = onnx.load(path)
    graph = model.graph
    names: dict[str, str] = {}
    shapes: dict[str, list[int | str]] = {}
    for value in graph_inputs(graph):
        shape: list[int | str] = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                shape.append(dim.dim_value)
                continue
            text = dim.dim_param.strip()
            key = text if text not in ("", "?", "-1") else f"{value.name}:{axis}"
            dim.dim_param = names.setdefault(key, f"s{len(names)}")
            shape.append(dim.dim_param)
        shapes[value.name] = shape
    del graph.value_info[:]
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return model, shapes


def runs_of(model: Model, shapes: Mapping[str, Sequence[int | str]]) -> list[Run]:
    """A run with the model's feeds, and one at other sizes if there are any at which it runs."""
    evaluator = onp.ReferenceEvaluator(str(model.path))
    names = [name for step in evaluator.plan.steps for name in step.node.output if name]
    base: dict[str, int] = {}
    for name, shape in shapes.items():
        for dim, size in zip(shape, np.shape(model.feeds.get(name, ())), strict=False):
            if isinstance(dim, str):
                base.setdefault(dim, int(size))
    found = [_run(evaluator, names, model.feeds, base)]
    for change in _changes(base):
        feeds = {
            name: _resized(feed, shapes.get(name, ()), change) for name, feed in model.feeds.items()
        }
        with contextlib.suppress(Exception):  # not every size suits every model; then the next
            return [*found, _run(evaluator, names, feeds, change)]
    return found


def _changes(base: Mapping[str, int]) -> list[dict[str, int]]:
    if not base:
        return []
    doubled = {name: 2 * size for name, size in base.items()}
    single = [{**base, name: 2 * size} for name, size in base.items()]
    return [doubled, *single, *({**base, name: size + 1} for name, size in base.items())]


def _resized(feed: Any, shape: Sequence[int | str], sizes: Mapping[str, int]) -> Any:
    """*feed* at other sizes, its numbers over again."""
    if not isinstance(feed, np.ndarray) or len(shape) != feed.ndim:
        return feed
    wanted = [
        sizes[dim] if isinstance(dim, str) else size
        for dim, size in zip(shape, feed.shape, strict=True)
    ]
    return np.resize(feed, wanted)


def _run(
    evaluator: onp.ReferenceEvaluator,
    names: Sequence[str],
    feeds: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> Run:
    values = evaluator.run(list(names), dict(feeds))
    shapes = {
        name: value.shape
        for name, value in zip(names, values, strict=True)
        if isinstance(value, np.ndarray)
    }
    return Run(dict(sizes), shapes)


# tools


def ours(model: ModelProto) -> Mapping[str, Shape]:
    """This package."""
    loaded = load_model(model)
    found = infer_types(loaded, read_dims(loaded))
    return {name: kind.shape for name, kind in found.types.items() if isinstance(kind, ValueType)}


def by_onnx(model: ModelProto) -> Mapping[str, Shape]:
    """``onnx.shape_inference`` with data propagation."""
    return _declared(onnx.shape_inference.infer_shapes(model, data_prop=True))


def by_onnxruntime(model: ModelProto) -> Mapping[str, Shape]:
    """``onnxruntime.tools.symbolic_shape_infer``."""
    from onnxruntime.tools.symbolic_shape_infer import (
        SymbolicShapeInference,
    )

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):  # it leaves files behind
        return _declared(SymbolicShapeInference.infer_shapes(model, auto_merge=True))


def by_engine(model: ModelProto) -> Mapping[str, Shape]:
    """onnx-shape-inference alone."""
    found = ir.from_proto(model)
    infer_symbolic_shapes(found, warn_on_missing=False)
    return {
        value.name or "": tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
        for node in found.graph
        for value in node.outputs
        if value.shape is not None
    }


TOOLS: Mapping[str, Tool] = {
    "ours": ours,
    "onnx": by_onnx,
    "onnxruntime": by_onnxruntime,
    "engine alone": by_engine,
}


def _declared(model: ModelProto) -> dict[str, Shape]:
    return {
        value.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in value.type.tensor_type.shape.dim
        )
        for value in (*model.graph.value_info, *model.graph.output)
        if value.type.tensor_type.HasField("shape")
    }


# the comparison


def judge(shape: Shape | None, name: str, runs: Sequence[Run]) -> str:
    """Which of :data:`KINDS` a shape is."""
    if shape is None:
        return "unknown"
    anonymous = False
    if any(len(shape) != len(run.shapes[name]) for run in runs):
        return "wrong"
    for axis, dim in enumerate(shape):
        size = _size(dim)
        if size is None or not size.symbols <= runs[0].sizes.keys():
            anonymous = True
            continue
        for run in runs:
            try:
                fits = size.evaluate(run.sizes) == run.shapes[name][axis]
            except ExpressionError:
                fits = False
            if not fits:
                return "wrong"
    return "anonymous" if anonymous else "right"


def _size(dim: int | str | Expr | None) -> Expr | None:
    if isinstance(dim, Expr) or dim is None:
        return dim
    if isinstance(dim, int):
        return Expr.constant(dim)
    try:
        return parse_expression(dim)
    except ExpressionError:
        return None


def timed(tool: Tool, model: ModelProto) -> tuple[Mapping[str, Shape], float]:
    """What a tool finds (nothing where it gives up), and the least time in seconds."""
    best, found = float("inf"), {}
    for _ in range(REPEATS):
        copy = ModelProto()
        copy.CopyFrom(model)
        start = perf_counter()
        try:
            found = dict(tool(copy))
        except Exception:  # noqa: BLE001 - a tool that gives up is a result
            return {}, perf_counter() - start
        best = min(best, perf_counter() - start)
    return found, best


def row(counts: Counter[str], seconds: float) -> str:
    """``right / wrong / anonymous / unknown, ms``, the first four in per cent of the values."""
    total = max(sum(counts.values()), 1)
    shares = " / ".join(f"{100 * counts[kind] / total:.0f}" for kind in KINDS)
    return f"{shares}, {seconds * 1e3:.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("places", nargs="*", type=Path)
    places = parser.parse_args().places
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    print(f"| model | values | sizes | {' | '.join(TOOLS)} |")
    print(f"| --- | --: | --: | {' | '.join('---' for _ in TOOLS)} |")
    totals: dict[str, Counter[str]] = {tool: Counter() for tool in TOOLS}
    times = dict.fromkeys(TOOLS, 0.0)
    for path in model_files(places):
        try:
            loaded = load(path, {})
            model, shapes = named(path)
            runs = runs_of(loaded, shapes)
        except Exception as error:  # noqa: BLE001 - said, and the next model is taken
            print(
                f"{path.name} does not run: {type(error).__name__} {error}"[:200], file=sys.stderr
            )
            continue
        values = [name for name in runs[0].shapes if all(name in run.shapes for run in runs)]
        cells = []
        for label, tool in TOOLS.items():
            found, seconds = timed(tool, model)
            counts = Counter(judge(found.get(name), name, runs) for name in values)
            totals[label] += counts
            times[label] += seconds
            cells.append(row(counts, seconds))
        print(f"| {loaded.label} | {len(values)} | {len(runs)} | {' | '.join(cells)} |", flush=True)
    together = " | ".join(row(totals[label], times[label]) for label in TOOLS)
    values_total = sum(totals["ours"].values())
    print(f"| all | {values_total} | | {together} |")


if __name__ == "__main__":
    main()
