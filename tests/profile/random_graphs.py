"""Random small graphs, and what a run of them holds at each node, counted from the rules alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

VIEWS = {"Reshape", "Identity"}

CONSTANTS: dict[str, Array] = {
    "flat": np.array([-1], np.int64),
    "keep_first": np.array([0, -1], np.int64),
    "axis_0": np.array([0], np.int64),
    "two": np.array([2], np.int64),
    "pair": np.array([0, 0], np.int64),
    "w": np.arange(3, dtype=np.float32),
}
"""Initializers of every graph; the last one is data, the others are arguments."""

_MOST_ELEMENTS = 2000


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, feeds for it, and the value of each name at these feeds."""

    model: ModelProto
    feeds: dict[str, Array]
    values: dict[str, Array]


def _pairs(values: dict[str, Array]) -> list[tuple[str, str]]:
    """Pairs whose shapes broadcast to something small."""
    found = []
    for left, a in values.items():
        for right, b in values.items():
            try:
                shape = np.broadcast_shapes(a.shape, b.shape)
            except ValueError:
                continue
            if np.prod(shape, dtype=int) <= _MOST_ELEMENTS:
                found.append((left, right))
    return found


def _choices(values: dict[str, Array]) -> list[tuple[str, list[str], dict[str, int], int]]:
    """Every node that fits the values so far: operator, inputs, attributes, number of outputs."""
    found: list[tuple[str, list[str], dict[str, int], int]] = []
    for left, right in _pairs(values):
        found += [(op, [left, right], {}, 1) for op in ("Add", "Mul")]
    for left, a in values.items():
        for right, b in values.items():
            if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]:
                found.append(("MatMul", [left, right], {}, 1))
            if a.ndim and a.ndim == b.ndim and a.shape[1:] == b.shape[1:]:
                found.append(("Concat", [left, right], {"axis": 0}, 1))
    for name, value in values.items():
        found += [(op, [name], {}, 1) for op in ("Abs", "Identity", "Transpose")]
        found.append(("Reshape", [name, "flat"], {}, 1))
        if value.ndim >= 2:
            found.append(("Reshape", [name, "keep_first"], {}, 1))
        if value.ndim:
            found.append(("Slice", [name, "axis_0", "two", "axis_0"], {}, 1))
            found.append(("Gather", [name, "pair"], {"axis": 0}, 1))
            found += [("ReduceSum", [name, "axis_0"], {"keepdims": keep}, 1) for keep in (0, 1)]
        if value.ndim and value.shape[0] >= 2:
            found.append(("Split", [name], {"axis": 0, "num_outputs": 2}, 2))
    return found


def _run(node: NodeProto, values: dict[str, Array]) -> dict[str, Array]:
    """The outputs of one node, by the evaluator of the onnx package."""
    known = {**CONSTANTS, **values}
    outputs = ReferenceEvaluator(node).run(None, {name: known[name] for name in node.input})
    return {
        name: np.asarray(value) for name, value in zip(node.output, outputs, strict=True) if name
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A graph of up to nine nodes over x float[N, M], v float[M], s float and the initializers."""
    n, m = draw(st.integers(1, 4), label="N"), draw(st.integers(1, 4), label="M")
    feeds: dict[str, Array] = {
        "x": np.ones((n, m), np.float32),
        "v": np.ones(m, np.float32),
        "s": np.array(2, np.float32),
    }
    values = {**feeds, "w": CONSTANTS["w"]}
    nodes: list[NodeProto] = []
    for index in range(draw(st.integers(1, 9), label="nodes")):
        choices = _choices(values)
        ops = sorted({op for op, *_ in choices})
        op = draw(st.sampled_from(ops))
        fitting = [choice for choice in choices if choice[0] == op]
        _, inputs, attributes, count = draw(st.sampled_from(fitting))
        outputs = [f"t{index}_{number}" for number in range(count)]
        options: dict[str, Any] = dict(attributes)
        node = helper.make_node(op, inputs, outputs, **options)
        nodes.append(node)
        values.update(_run(node, values))
    made = [name for name in values if name.startswith("t")]
    chosen = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    value = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "random",
            [value("x", 1, ["N", "M"]), value("v", 1, ["M"]), value("s", 1, [])],
            [value(name, TensorProto.FLOAT, None) for name in chosen],
            initializer=[numpy_helper.from_array(data, name) for name, data in CONSTANTS.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    return Case(model, feeds, values)


def held_bytes(case: Case) -> list[tuple[int, int]]:
    """(execution, io) bytes at each node, from the rules: lifetimes, views, two accounts, copies of rank-0 inputs."""
    nodes = case.model.graph.node
    outputs = {value.name for value in case.model.graph.output}
    borrowed = {"x", "v", "s", *CONSTANTS}
    root = {name: name for name in borrowed}
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            source = root[node.input[0]] if node.op_type in VIEWS else name
            copied = source in borrowed and name in outputs
            root[name] = name if copied else source
            maker[name] = index
    last = dict(maker)
    for index, node in enumerate(nodes):
        last.update((name, index) for name in node.input if name in maker)
    standing = sum(data.nbytes for data in CONSTANTS.values()) + case.values["s"].nbytes
    held = [[standing, 0] for _ in nodes]
    for owner in {name for name in maker if root[name] == name}:
        members = [name for name in maker if root[name] == owner]
        is_io = bool(outputs & set(members))
        end = len(nodes) - 1 if is_io else max(last[name] for name in members)
        for index in range(maker[owner], end + 1):
            held[index][is_io] += case.values[owner].nbytes
    return [(execution, io) for execution, io in held]
