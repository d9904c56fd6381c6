"""Rules for the shape engine: those that it lacks or has wrong, and a watch over all of them."""

from __future__ import annotations

import functools
import importlib

from onnx_shape_inference import registry

from onnx_notebook_profiler.symbolic.rules.watch import Watch, watch_all

__all__ = ["Watch", "install_rules"]

_FILES = ("aliases", "blocked", "control_flow", "fills", "probing", "slices", "texts")
"""Their rules register themselves."""


@functools.cache
def install_rules() -> None:
    """Put our rules before those of the engine; once in a process."""
    registry.collect()
    for name in _FILES:
        importlib.import_module(f"{__name__}.{name}")

    watch_all(registry)
