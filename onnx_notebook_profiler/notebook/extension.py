"""Hooks of ``%load_ext`` and ``%unload_ext``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_notebook_profiler.notebook.magics import ProfilerMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Register the magics; doing so again replaces them."""
    ipython.register_magics(ProfilerMagics)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Remove the names of the magics, where they are still ours."""
    manager: Any = ipython.magics_manager
    manager.registry.pop(ProfilerMagics.__name__, None)
    for names in manager.magics.values():
        for name, function in list(names.items()):
            if isinstance(getattr(function, "__self__", None), ProfilerMagics):
                del names[name]
