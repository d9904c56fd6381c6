"""How a session of onnxruntime is made, for those who profile or trace one."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Final

__all__ = ["DEFAULT_SETTINGS", "EXTERNAL_FOLDER", "SessionSettings", "weights_apart"]

EXTERNAL_FOLDER: Final = "session.model_external_initializers_file_folder_path"
"""The entry that says where the external data of a model in memory lies."""

_LEVELS: Final = {"none": 0, "basic": 1, "extended": 2, "all": 99}


@dataclasses.dataclass(frozen=True, slots=True)
class SessionSettings:
    """Options of a session, each as onnxruntime has it where nothing is said."""

    optimize: str = "all"
    """``none``, ``basic``, ``extended`` or ``all``."""
    threads: int = 0
    """Threads within an operator; 0: as many as onnxruntime takes."""
    pattern: bool = True
    """``enable_mem_pattern``."""
    parallel: bool = False
    """Whether nodes may run at the same time."""
    config: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({})
    )
    """Entries such as ``session.disable_prepacking``."""

    def __post_init__(self) -> None:
        if self.optimize not in _LEVELS:
            raise ValueError(f"optimize is one of {', '.join(_LEVELS)}, not {self.optimize!r}")
        if type(self.threads) is not int or self.threads < 0:
            raise ValueError(f"threads is an integer of 0 or more, not {self.threads!r}")

    @property
    def level(self) -> int:
        """The graph optimization level in onnxruntime's numbers."""
        return _LEVELS[self.optimize]


DEFAULT_SETTINGS: Final = SessionSettings()


def weights_apart(name: str) -> dict[str, str]:
    """Entries by which a session saves the weights of its model in a file of their own, as large ones need it."""
    return {
        "session.optimized_model_external_initializers_file_name": name,
        "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
    }
