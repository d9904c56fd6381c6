"""Writes what was found into the model: shapes, and annotations in the metadata of its nodes.

| where | what |
| graph outputs, value_info | inferred type and shape; missing value_info is appended, sorted by name |
| ``onnx_light.inplace_reuse`` | ``output:input:kind`` items, joined by ``;`` |
| ``onnx_light.release_after`` | values that are released after the node |
| ``onnx_light.release_after_shape_tag`` | those of them that are shapes |
| ``onnx_light.not_used_after`` | inputs and initializers that no later node reads |
| ``onnx_light.peak_memory`` | scratch bytes, where there are any |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto

from onnx_notebook_profiler.plan import GraphPlan, Step
from onnx_notebook_profiler.plan.inplace import InPlaceReuse
from onnx_notebook_profiler.symbolic.shapes import UnknownSize, ValueType
from onnx_notebook_profiler.symbolic.tags import Tag

__all__ = ["annotate"]

_PREFIX = "onnx_light."


def annotate(
    model: ModelProto,
    plan: GraphPlan,
    types: Mapping[str, ValueType | UnknownSize],
    tags: Mapping[str, Tag],
    reuse: Sequence[Sequence[InPlaceReuse]],
    scratch: Sequence[int],
) -> None:
    """Annotate *model* in place; inputs and initializers stay as they are, empty lists write nothing."""
    _write_shapes(model, types)
    unused = _not_used_after(plan)
    for step, node in zip(plan.steps, model.graph.node, strict=True):
        released = [going.name for going in step.releases if going.slot not in step.outputs]
        _set(
            node,
            "inplace_reuse",
            [f"{one.output_index}:{one.input_index}:{one.kind}" for one in reuse[step.index]],
        )
        _set(node, "release_after", released)
        _set(
            node,
            "release_after_shape_tag",
            [name for name in released if tags.get(name) == "shape"],
        )
        _set(node, "not_used_after", unused.get(step.index, []))
        _set(node, "peak_memory", [str(scratch[step.index])] if scratch[step.index] > 0 else [])


def _write_shapes(model: ModelProto, types: Mapping[str, ValueType | UnknownSize]) -> None:
    graph = model.graph
    outputs = {value.name for value in graph.output}
    for value in (*graph.output, *graph.value_info):
        kind = types.get(value.name)
        if isinstance(kind, ValueType):
            _write_type(value, kind)
    recorded = {value.name for value in graph.value_info}
    made = {name for node in graph.node for name in node.output if name} - recorded - outputs
    for name in sorted(made):
        kind = types.get(name)
        if isinstance(kind, ValueType):
            _write_type(graph.value_info.add(name=name), kind)


def _write_type(value: ValueInfoProto, kind: ValueType) -> None:
    tensor = value.type.tensor_type
    tensor.elem_type = kind.data_type
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for size in kind.shape:
        if size.is_constant:
            tensor.shape.dim.add(dim_value=size.value)
        else:
            tensor.shape.dim.add(dim_param=str(size))


def _not_used_after(plan: GraphPlan) -> dict[int, list[str]]:
    """For each node the inputs and initializers that it is the last to read, in the order of its inputs."""
    names = list(plan.slots)
    kept = set(plan.inputs) | set(plan.initializers)
    last: dict[str, int] = {}
    for step in plan.steps:
        last.update((name, step.index) for name in _reads(step, names) if name in kept)
    found: dict[int, list[str]] = {}
    for step in plan.steps:
        reads = dict.fromkeys(_reads(step, names))
        found[step.index] = [name for name in reads if last.get(name) == step.index]
    return found


def _reads(step: Step, names: Sequence[str]) -> Iterator[str]:
    yield from (names[slot] for slot in step.inputs if slot >= 0)
    for body in step.bodies:
        yield from (names[outer] for outer, _ in body.captures)


def _set(node: NodeProto, key: str, values: Sequence[str]) -> None:
    name = _PREFIX + key
    kept = [entry for entry in node.metadata_props if entry.key != name]
    if len(kept) != len(node.metadata_props):
        entries = [(entry.key, entry.value) for entry in kept]
        del node.metadata_props[:]
        for old_key, old_value in entries:
            node.metadata_props.add(key=old_key, value=old_value)
    if values:
        node.metadata_props.add(key=name, value=";".join(values))
