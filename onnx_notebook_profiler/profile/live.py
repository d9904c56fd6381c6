"""Which buffers are alive at an event: the plan says which, the log how large they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_notebook_profiler.evaluator.observe import RunRecord
from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction
from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.graph_plan import EXECUTION
from onnx_notebook_profiler.profile.result import LiveBuffer

__all__ = ["live_buffers", "place_of"]

Path = tuple[tuple[int, str], ...]


def place_of(plan: GraphPlan, path: Path) -> GraphPlan:
    """The plan of the body that *path* leads to."""
    for index, name in path:
        plan = next(body.plan for body in plan.steps[index].bodies if body.name == name)
    return plan


def live_buffers(record: RunRecord, at: RuntimeEvent | None) -> tuple[LiveBuffer, ...]:
    """The buffers alive at the run_node event *at*, largest first; their bytes add up to ``at.live_bytes``.

    What a loop keeps between iterations, and what other runs left in a shared allocator, is one entry in brackets.
    """
    if at is None:
        return ()
    sizes: dict[tuple[Path, str], tuple[int, str, int]] = {}
    for event in record.events:
        if event.action in (RuntimeEventAction.ADD, RuntimeEventAction.REPLACE):
            sizes[event.subgraph_path, event.name] = (event.nbytes, event.kind, event.node_index)
        elif event is at:
            break
    found = list(_standing(sizes, at.subgraph_path))
    held = record.evaluator.release_intermediates
    for depth in range(len(at.subgraph_path) + 1):
        path = at.subgraph_path[:depth]
        inner = depth < len(at.subgraph_path)
        index = at.subgraph_path[depth][0] if inner else at.node_index
        plan = place_of(record.evaluator.plan, path)
        found += _planned(plan, path, index, sizes, born_here=not inner, released=held)
    rest = at.live_bytes - sum(buffer.nbytes for buffer in found)
    if rest > 0:
        found.append(LiveBuffer("(kept between iterations or runs)", rest, "execution", -1, ""))
    found = [buffer for buffer in found if buffer.nbytes]
    return tuple(sorted(found, key=lambda buffer: (-buffer.nbytes, buffer.node_index, buffer.name)))


def _standing(
    sizes: Mapping[tuple[Path, str], tuple[int, str, int]], path: Path
) -> Iterator[LiveBuffer]:
    """Initializers and copied inputs, of the graph and of those around it."""
    for (place, name), (nbytes, kind, _) in sizes.items():
        if kind in ("initializer", "input") and place == path[: len(place)]:
            yield LiveBuffer(name, nbytes, kind, -1, "")


def _planned(
    plan: GraphPlan,
    path: Path,
    index: int,
    sizes: Mapping[tuple[Path, str], tuple[int, str, int]],
    *,
    born_here: bool,
    released: bool,
) -> Iterator[LiveBuffer]:
    for buffer in plan.buffers:
        last = buffer.last if released else len(plan.steps)
        if buffer.born <= index <= last and (born_here or buffer.born < index):
            owner = buffer.names[0]
            nbytes = sizes.get((path, owner), (0, "", -1))[0]
            account = "execution" if buffer.account == EXECUTION or path else "io"
            op = plan.steps[buffer.born].node.op_type
            yield LiveBuffer(owner, nbytes, account, buffer.born, op)
