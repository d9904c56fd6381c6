"""Shape rules of our own, one file for each family; they go before those of the engine."""

from onnx_notebook_profiler.symbolic.rules.registry import Rule, find_rule

__all__ = ["Rule", "find_rule"]
