"""Which rule gives the shapes of an operator's results."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

from onnx_notebook_profiler.symbolic.shape_call import Call

__all__ = ["CONTRIB", "ML", "Rule", "find_rule", "rule"]

Rule = Callable[[Call], None]
"""Gives the outputs of a call their shapes and types.

It raises Undecided where what it needs is not known; another exception costs the outputs of its node, no more.
"""

CONTRIB = "com.microsoft"
ML = "ai.onnx.ml"

_table: dict[tuple[str, str], Rule] = {}


def rule(*op_types: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Decorator: the function is the rule of these operators of *domain*, in every opset."""

    def decorate(function: Rule) -> Rule:
        for op_type in op_types:
            _table[domain, op_type] = function
        return function

    return decorate


@functools.cache
def _collect() -> None:
    package = importlib.import_module("onnx_notebook_profiler.symbolic.rules")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find_rule(domain: str, op_type: str) -> Rule | None:
    """Our rule for an operator, or None where the engine's own holds."""
    _collect()
    return _table.get((domain, op_type))
