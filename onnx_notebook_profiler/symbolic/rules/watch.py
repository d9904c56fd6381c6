"""A watch over every rule of the engine: one that fails loses its own node alone, and small constants are computed.

The engine gives up a whole model where one rule raises, and follows numbers through some operators only. While a
:class:`Watch` is on, each rule runs under it; other users of the engine in the process notice nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

from onnx_notebook_profiler.symbolic.rules.folding import fold

__all__ = ["Watch", "watch_all"]

Rule = Callable[[ShapeInferenceContext, ir.Node], None]

_current: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch", default=None)


class Watch:
    """What went wrong during one inference."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        """Why the rule of a value's node failed, by the value's name."""

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Watch the rules that run meanwhile."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def run(self, rule: Rule, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Run *rule*, then whatever follows from constants."""
        try:
            rule(ctx, node)
        except Exception as error:  # noqa: BLE001 - whatever a model makes a rule raise, the other nodes have theirs
            reason = f"the shape rule of {node.op_type} failed: {_innermost(error)}"
            self.failures.update((value.name, reason) for value in node.outputs if value.name)
        fold(ctx, node)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__} {error}"[:200]


def watch_all(registry: OpShapeInferenceRegistry) -> None:
    """Put every rule of *registry* under the watch that is on when it runs."""
    for domain, op_type, versions in list(registry.iter_supported()):
        for version in versions:
            rule: Any = registry.get(domain, op_type, version)
            registry.register(domain, op_type, version)(_watched(rule))


def _watched(rule: Rule) -> Rule:
    @functools.wraps(rule)
    def watched(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        watch = _current.get()
        if watch is None:
            rule(ctx, node)
        else:
            watch.run(rule, ctx, node)

    return watched
