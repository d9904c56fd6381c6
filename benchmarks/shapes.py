"""Symbolic shape inference beside onnx, onnxruntime and onnx-shape-inference, value by value, against a real run.

    python benchmarks/shapes.py [MODEL or FOLDER ...]     a table in Markdown

Without arguments it takes the models that installed packages ship. Counted are the tensors that the nodes of the
main graph make, but for constants and the model's outputs; recorded shapes are stripped first, and every open dimension
of an input gets a name. *Right*: each dimension is a number or an expression of the inputs' dimensions that has the
true value in the run. *Anonymous*: the rank is known, some dimension has an invented name. *Unknown*: no rank. Times
are those of the second of two calls in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from models import load, model_files
from onnx import ModelProto

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.errors import ExpressionError, ProfilerError
from onnx_notebook_profiler.model import graph_inputs, load_model
from onnx_notebook_profiler.symbolic.dims import read_dims
from onnx_notebook_profiler.symbolic.expression_parser import parse_expression
from onnx_notebook_profiler.symbolic.shapes import ValueType, infer_types

Shape = list[Any] | None
"""Dimensions as numbers and texts; None where the rank is not known."""
Inferred = Mapping[str, Shape]


def prepared(path: Path) -> tuple[ModelProto, dict[tuple[str, int], str]]:
    """The model without recorded shapes, with a name for every open dimension: one for each name that it has."""
    model = onnx.load(path, load_external_data=False)
    del model.graph.value_info[:]
    names: dict[str, str] = {}
    places: dict[tuple[str, int], str] = {}
    for value in graph_inputs(model.graph):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            text = dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}:{axis}"
            places[value.name, axis] = dim.dim_param = names.setdefault(text, f"s{len(names)}")
    return model, places


def declared(values: Iterable[onnx.ValueInfoProto]) -> dict[str, Shape]:
    """Shapes as a model records them."""
    return {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in values
        if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape")
    }


def by_us(model: ModelProto) -> Inferred:
    """This package."""
    loaded = load_model(model)
    types: Any = infer_types(loaded, read_dims(loaded))
    return {
        name: list(map(str, kind.shape)) if isinstance(kind, ValueType) else None
        for name, kind in types.items()
    }


def by_onnx(model: ModelProto) -> Inferred:
    """onnx.shape_inference with data propagation."""
    return declared(onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info)


def by_onnxruntime(model: ModelProto) -> Inferred:
    """onnxruntime.tools.symbolic_shape_infer."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    with contextlib.redirect_stdout(io.StringIO()):
        found = SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    return declared(found.graph.value_info)


def by_engine(model: ModelProto) -> Inferred:
    """onnx-shape-inference alone."""
    import onnx_ir as ir
    from onnx_shape_inference import infer_symbolic_shapes

    found = ir.to_proto(infer_symbolic_shapes(ir.from_proto(model), warn_on_missing=False))
    return declared(found.graph.value_info)


TOOLS: Mapping[str, Callable[[ModelProto], Inferred]] = {
    "this package": by_us,
    "onnx": by_onnx,
    "onnxruntime": by_onnxruntime,
    "onnx-shape-inference": by_engine,
}


def judged(shape: Shape, truth: tuple[int, ...], sizes: Mapping[str, int]) -> str:
    """What *shape* is worth."""
    if shape is None:
        return "unknown"
    if len(shape) != len(truth):
        return "wrong"
    for dim, size in zip(shape, truth, strict=True):
        try:
            value = dim if isinstance(dim, int) else parse_expression(dim).evaluate(sizes)
        except ExpressionError:
            return "anonymous"
        if value != size:
            return "wrong"
    return "right"


def truths(path: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the nodes of the main graph make, by name."""
    session = onp.ReferenceEvaluator(str(path))
    graph = session.model.proto.graph
    outputs = {value.name for value in graph.output}
    names = [
        name
        for node in graph.node
        if node.op_type != "Constant"
        for name in node.output
        if name and name not in outputs
    ]
    values = zip(names, session.run(names, dict(feeds)), strict=True) if names else ()
    return {name: value for name, value in values if isinstance(value, np.ndarray)}


def rows(places: list[Path]) -> Iterator[str]:
    """A row for each model, then the sums."""
    total: dict[str, Counter[str]] = {name: Counter() for name in TOOLS}
    for path in model_files(places):
        model = load(path, {})
        try:
            true = truths(path, model.feeds)
        except ProfilerError as error:
            print(f"{model.label}: {str(error)[:150]}", file=sys.stderr)
            continue
        proto, open_dims = prepared(path)
        sizes = {
            name: int(np.shape(model.feeds[value])[axis])
            for (value, axis), name in open_dims.items()
        }
        cells = []
        for name, tool in TOOLS.items():
            counts: Counter[str] = Counter()
            try:
                tool(proto)
                started = perf_counter()
                found = tool(proto)
                took = (perf_counter() - started) * 1000
            except Exception as error:  # noqa: BLE001 - whatever stops one tool, the others go on
                print(f"{model.label}: {name} fails: {str(error)[:100]}", file=sys.stderr)
                counts["unknown"] = len(true)
                cells.append("fails")
            else:
                counts.update(
                    judged(found.get(one), value.shape, sizes) for one, value in true.items()
                )
                cells.append(f"{_shares(counts, len(true))}, {took:.0f} ms")
            total[name] += counts
        yield f"| {model.label} | {len(true)} | {' | '.join(cells)} |"
    count = max(sum(counts.values()) for counts in total.values())
    sums = [_shares(counts, count) for counts in total.values()]
    yield f"| **all** | {count} | {' | '.join(sums)} |"


def _shares(counts: Counter[str], total: int) -> str:
    if not total:
        return "–"
    kinds = ("right", "wrong", "anonymous", "unknown")
    return " / ".join(f"{100 * counts[kind] / total:.3g}" for kind in kinds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", type=Path)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("Right / wrong / anonymous / unknown in % of the values, and time.\n")
    print(f"| model | values | {' | '.join(TOOLS)} |")
    print(f"| --- | --: | {' | '.join('---' for _ in TOOLS)} |")
    for row in rows(parser.parse_args().places):
        print(row, flush=True)


if __name__ == "__main__":
    main()
