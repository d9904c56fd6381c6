"""Random graphs whose kernels ask for nothing but their outputs, with feeds, made from a seed."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

_WEIGHTS: dict[str, Array] = {
    "flat": np.array([-1], np.int64),
    "axis_1": np.array([1], np.int64),
    "w": np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8),
    "half": np.array(0.5, np.float32),
    "first": np.array([0, 0, 1], np.int64),
}
_UNARY = (
    "Exp",
    "Sin",
    "Neg",
    "Abs",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Elu",
    "Softplus",
    "Clip",
    "Identity",
)


@dataclasses.dataclass(frozen=True)
class RandomModel:
    """A model, feeds for it, and what every value then is."""

    model: ModelProto
    feeds: dict[str, Array]
    values: dict[str, Array]


def random_model(seed: int) -> RandomModel:
    """4 to 16 nodes over x float[N, 8] and z float[4, 8]; some values are read twice, some by nobody."""
    pick = random.Random(seed)  # noqa: S311 - graphs, not secrets
    numbers = np.random.default_rng(seed)
    rows = pick.choice([1, 3, 4, 17, 64])
    feeds: dict[str, Array] = {
        name: numbers.standard_normal((count, 8)).astype(np.float32)
        for name, count in (("x", rows), ("z", 4))
    }
    values = {**_WEIGHTS, **feeds}
    made: list[str] = []
    nodes: list[NodeProto] = []
    for index in range(pick.randint(4, 16)):
        node = _node(pick, index, ["x", "z", *made], values)
        nodes.append(node)
        results = ReferenceEvaluator(node).run(None, {name: values[name] for name in node.input})
        for name, result in zip(node.output, results, strict=True):
            values[name] = np.asarray(result)
            made.append(name)
    read = {name for node in nodes for name in node.input}
    outputs = [name for name in made if pick.random() < (0.15 if name in read else 0.8)]
    graph = helper.make_graph(
        nodes,
        "random",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 8]),
        ],
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(values[name].dtype), None
            )
            for name in outputs or made[-1:]
        ],
        [numpy_helper.from_array(data, name) for name, data in _WEIGHTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return RandomModel(model, feeds, values)


def at_shape(seed: int, shape: tuple[int, int]) -> RandomModel:
    """The graph of a seed over x float[N, M], whose nodes fit any shape, at one *shape*."""
    pick = random.Random(seed)  # noqa: S311 - graphs, not secrets
    values: dict[str, Array] = {
        "x": np.linspace(-1, 1, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    }
    kinds = {"x": "NM"}
    nodes: list[NodeProto] = []
    for index in range(pick.randint(4, 12)):
        source = pick.choice(list(kinds))
        peer = pick.choice([name for name, kind in kinds.items() if kind == kinds[source]])
        choices: list[tuple[str, list[str], str, dict[str, Any]]] = [
            *((op, [source], kinds[source], {}) for op in pick.sample(_UNARY, 5)),
            ("Add", [source, peer], kinds[source], {}),
            ("Transpose", [source], kinds[source][::-1], {"perm": [1, 0]}),
            ("Concat", [source, peer], "", {"axis": 0}),
            ("Softmax", [source], kinds[source], {"axis": -1}),
            ("Cast", [source], "", {"to": TensorProto.DOUBLE}),
            ("Shape", [source], "", {}),
        ]
        op, inputs, kind, attributes = pick.choice(choices)
        name = f"v{index}"
        node = helper.make_node(op, inputs, [name], name=f"n{index}", **attributes)
        nodes.append(node)
        (result,) = ReferenceEvaluator(node).run(None, {one: values[one] for one in inputs})
        values[name] = np.asarray(result)
        if kind:
            kinds[name] = kind
    read = {name for node in nodes for name in node.input}
    outputs = [
        name for name in values if name != "x" and pick.random() < (0.1 if name in read else 0.8)
    ]
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])],
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(values[name].dtype), None
            )
            for name in outputs or list(values)[-1:]
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return RandomModel(model, {"x": values["x"]}, values)


def _node(pick: random.Random, index: int, names: list[str], values: dict[str, Array]) -> NodeProto:
    """One node that fits what there is."""
    floats = [name for name in names if values[name].dtype == np.float32]
    source = pick.choice(floats)
    shape = values[source].shape
    tables = [name for name in floats if values[name].ndim == 2]
    table = pick.choice(tables)
    peers = [name for name in floats if values[name].shape == shape]
    second = pick.choice([name for name in tables if len(values[name]) == len(values[table])])
    out = f"v{index}"
    choices: list[tuple[str, list[str], dict[str, Any]]] = [
        *((op, [source], {}) for op in pick.sample(_UNARY, 5)),
        ("Add", [source, pick.choice(peers)], {}),
        ("Mul", [source, "half"], {}),
        ("Concat", [table, second], {"axis": 1}),
        ("Transpose", [table], {"perm": [1, 0]}),
        ("Reshape", [source, "flat"], {}),
        ("Unsqueeze", [table, "axis_1"], {}),
        ("Softmax", [table], {"axis": -1}),
        ("Cast", [source], {"to": pick.choice([TensorProto.INT32, TensorProto.DOUBLE])}),
        ("Shape", [source], {}),
        ("Flatten", [table], {"axis": pick.choice([0, 1, 2])}),
    ]
    if values[table].shape[1] == 8:
        choices += [("MatMul", [table, "w"], {})] * 2
        choices.append(("Gather", [table, "first"], {"axis": 1}))
    if values[table].shape[1] % 2 == 0 and values[table].shape[1]:
        choices += [("Split", [table], {"axis": 1, "num_outputs": 2})] * 2
    if shape and values[source].size < 2000:
        choices.append(("ReduceSum", [source], {"keepdims": 0}))
    op, inputs, attributes = pick.choice(choices)
    outputs = [out, f"{out}b"] if op == "Split" else [out]
    return helper.make_node(op, inputs, outputs, name=f"n{index}", **attributes)
