"""Which rule counts an operator, keyed by domain and operator."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode

__all__ = [
    "MS",
    "ZERO",
    "Work",
    "find_read_rule",
    "find_rule",
    "flops",
    "macs",
    "reads",
    "rule",
    "rules",
]

MS = "com.microsoft"
ZERO = Expr.constant(0)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What one node computes; None where only the data says it."""

    macs: Expr | None
    flops: Expr | None
    """Includes 2 for each MAC."""


Rule = Callable[[PricedNode], Work]
ReadRule = Callable[[PricedNode], Expr]

_rules: dict[tuple[str, str], Rule] = {}
_read_rules: dict[tuple[str, str], ReadRule] = {}


def macs(count: Expr, extra: Expr | int = 0) -> Work:
    """*count* MACs and *extra* FLOPs beside them."""
    return Work(count, count * 2 + extra)


def flops(count: Expr | int) -> Work:
    """*count* FLOPs and no MACs."""
    return Work(ZERO, ZERO + count)


def rule(*op_types: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Decorator: the function counts *op_types* of *domain*; its docstring says how. Decorators stack.

    The function may raise :class:`UnknownWork`.
    """

    def decorate(function: Rule) -> Rule:
        _rules.update(((domain, op_type), function) for op_type in op_types)
        return function

    return decorate


def reads(*op_types: str, domain: str = "") -> Callable[[ReadRule], ReadRule]:
    """Decorator: the function says how many bytes *op_types* read, which is less than all their inputs have."""

    def decorate(function: ReadRule) -> ReadRule:
        _read_rules.update(((domain, op_type), function) for op_type in op_types)
        return function

    return decorate


@functools.cache
def _collect() -> None:
    """Import every file of this folder once; each registers what it holds."""
    package = importlib.import_module("onnx_notebook_profiler.symbolic.work_rules")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find_rule(domain: str, op_type: str) -> Rule | None:
    """The rule for an operator, or None where there is none."""
    _collect()
    return _rules.get((domain, op_type))


def find_read_rule(domain: str, op_type: str) -> ReadRule | None:
    """What says how many bytes an operator reads; None where it reads all its inputs."""
    _collect()
    return _read_rules.get((domain, op_type))


def rules() -> Mapping[tuple[str, str], Rule]:
    """Every rule by domain and operator, sorted."""
    _collect()
    return dict(sorted(_rules.items()))
