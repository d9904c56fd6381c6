"""What an ONNX model costs, node by node, at your sizes: time, live and peak memory, in a notebook.

``%load_ext onnx_notebook_profiler`` gives the magics; each magic has a function here. Names load
when they are first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_notebook_profiler.allocators import BFCArena, SimpleRawBufferAllocator
    from onnx_notebook_profiler.errors import (
        AllocationError,
        ArenaLimitError,
        ExpressionError,
        FeedError,
        InvalidFreeError,
        KernelError,
        MissingExtraError,
        ModelError,
        OnnxRuntimeError,
        OutputError,
        ProfilerError,
        SizeError,
        UnsupportedOperatorError,
    )
    from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
    from onnx_notebook_profiler.evaluator.supported import SupportedOperator, supported_operators
    from onnx_notebook_profiler.events import EventLog, RuntimeEvent, RuntimeEventAction
    from onnx_notebook_profiler.notebook.explorer import MemoryExplorer, explore
    from onnx_notebook_profiler.notebook.extension import (
        load_ipython_extension as load_ipython_extension,
    )
    from onnx_notebook_profiler.notebook.extension import (
        unload_ipython_extension as unload_ipython_extension,
    )
    from onnx_notebook_profiler.profile.arena import arena_report
    from onnx_notebook_profiler.profile.arena_report import ArenaReport
    from onnx_notebook_profiler.profile.profile import profile
    from onnx_notebook_profiler.profile.result import Profile
    from onnx_notebook_profiler.render.model_text import pretty_onnx
    from onnx_notebook_profiler.symbolic.context import ComputeContext
    from onnx_notebook_profiler.symbolic.expression_parser import (
        evaluate_expression,
        simplify_expression,
    )
    from onnx_notebook_profiler.symbolic.node_texts import (
        NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY,
        NODE_MEMORY_INITIALIZERS_KEY,
        NODE_MEMORY_INPUTS_KEY,
        NODE_MEMORY_INTERMEDIATES_KEY,
        NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY,
        NODE_MEMORY_OUTPUTS_KEY,
        NODE_MEMORY_TOTAL_BYTES_KEY,
        NODE_PEAK_MEMORY_KEY,
    )

__version__ = "0.1.0"

__all__ = [
    # running
    "BFCArena",
    "ReferenceEvaluator",
    "SimpleRawBufferAllocator",
    "SupportedOperator",
    "supported_operators",
    # events
    "EventLog",
    "RuntimeEvent",
    "RuntimeEventAction",
    # formulas
    "NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY",
    "NODE_MEMORY_INITIALIZERS_KEY",
    "NODE_MEMORY_INPUTS_KEY",
    "NODE_MEMORY_INTERMEDIATES_KEY",
    "NODE_MEMORY_OUTPUTS_KEY",
    "NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY",
    "NODE_MEMORY_TOTAL_BYTES_KEY",
    "NODE_PEAK_MEMORY_KEY",
    "ComputeContext",
    "evaluate_expression",
    "simplify_expression",
    # one call, one result
    "ArenaReport",
    "Profile",
    "arena_report",
    "pretty_onnx",
    "profile",
    # notebook
    "MemoryExplorer",
    "explore",
    # errors
    "AllocationError",
    "ArenaLimitError",
    "ExpressionError",
    "FeedError",
    "InvalidFreeError",
    "KernelError",
    "MissingExtraError",
    "ModelError",
    "OnnxRuntimeError",
    "OutputError",
    "ProfilerError",
    "SizeError",
    "UnsupportedOperatorError",
]

_HOMES = {
    "evaluator.reference": ("ReferenceEvaluator",),
    "evaluator.supported": ("SupportedOperator", "supported_operators"),
    "allocators": ("BFCArena", "SimpleRawBufferAllocator"),
    "events": ("EventLog", "RuntimeEvent", "RuntimeEventAction"),
    "symbolic.context": ("ComputeContext",),
    "symbolic.node_texts": tuple(name for name in __all__ if name.startswith("NODE_")),
    "symbolic.expression_parser": ("evaluate_expression", "simplify_expression"),
    "profile.profile": ("profile",),
    "profile.arena": ("arena_report",),
    "profile.arena_report": ("ArenaReport",),
    "profile.result": ("Profile",),
    "render.model_text": ("pretty_onnx",),
    "notebook.explorer": ("MemoryExplorer", "explore"),
    "notebook.extension": ("load_ipython_extension", "unload_ipython_extension"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME_OF)


class _Package(ModuleType):
    """Keeps ``profile`` the function: importing the room of that name would put the room in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "profile" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
