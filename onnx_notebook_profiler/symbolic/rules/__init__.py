"""Rules for the shape engine: those that it lacks or has wrong, and a watch over all of them."""

from __future__ import annotations

import functools
import importlib

from onnx_shape_inference import registry

from onnx_notebook_profiler.symbolic.rules.watch import Watch, all_rules, watch_all

__all__ = ["Watch", "install_rules"]

_FILES = (
    *("aliases", "blocked", "control_flow", "fills", "numbers", "probing", "products", "regions"),
    *("resizing", "slices", "splits", "states", "texts", "windows"),
)
"""Their rules register themselves."""


@functools.cache
def install_rules() -> None:
    """Put our rules before those of the engine; once in a process."""
    registry.collect()
    before = all_rules(registry)
    for name in _FILES:
        importlib.import_module(f"{__name__}.{name}")
    watch_all(registry, before)
