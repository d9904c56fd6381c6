"""What is decided before a run, once, for evaluator and formulas alike: lifetimes, views, accounts, reuse."""

from onnx_notebook_profiler.plan.build import build_plan
from onnx_notebook_profiler.plan.graph_plan import Body, BufferPlan, GraphPlan, Release, Step

__all__ = ["Body", "BufferPlan", "GraphPlan", "Release", "Step", "build_plan"]
