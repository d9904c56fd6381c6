"""The settings of onnxruntime's arena (`OrtArenaCfg`), under their own names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from onnx_notebook_profiler.errors import SizeError

__all__ = ["STRATEGIES", "ArenaSettings", "ExtendStrategy"]

ExtendStrategy = Literal["kNextPowerOfTwo", "kSameAsRequested", 0, 1, -1]
STRATEGIES = ("kNextPowerOfTwo", "kSameAsRequested")
_DEFAULT = -1
_LARGEST = 2**63 - 1
_DEFAULTS = {
    "initial_chunk_size_bytes": 2**20,
    "max_dead_bytes_per_chunk": 128 * 2**20,
    "initial_growth_chunk_size_bytes": 2 * 2**20,
    "max_power_of_two_extend_bytes": 2**30,
}


@dataclasses.dataclass(frozen=True, slots=True)
class ArenaSettings:
    """Checked settings, every default filled in. Bytes."""

    max_mem: int = 0
    """0: no limit."""
    arena_extend_strategy: int = 0
    """0 kNextPowerOfTwo, 1 kSameAsRequested."""
    initial_chunk_size_bytes: int = _DEFAULTS["initial_chunk_size_bytes"]
    max_dead_bytes_per_chunk: int = _DEFAULTS["max_dead_bytes_per_chunk"]
    initial_growth_chunk_size_bytes: int = _DEFAULTS["initial_growth_chunk_size_bytes"]
    max_power_of_two_extend_bytes: int = _DEFAULTS["max_power_of_two_extend_bytes"]

    @classmethod
    def checked(cls, **given: Any) -> ArenaSettings:
        """Settings as a user writes them; -1 is the default of all but `max_mem`.

        Raises:
            SizeError: A name is no setting, or a value is none for it.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        values: dict[str, int] = {}
        for name, value in given.items():
            if name not in names:
                raise SizeError(
                    f"an arena has no setting {name!r}: its settings are {', '.join(names)}"
                )
            if name == "arena_extend_strategy":
                values[name] = _strategy(value)
            elif name == "max_mem":
                values[name] = _bytes(name, value, 0)
            else:
                size = _bytes(name, value, _DEFAULT)
                if size == 0 and name != "max_dead_bytes_per_chunk":
                    raise SizeError(
                        f"{name} is a number of bytes, 1 or more (-1: the default), not 0"
                    )
                values[name] = _DEFAULTS[name] if size == _DEFAULT else size
        return cls(**values)

    @property
    def is_same_as_requested(self) -> bool:
        """Whether a region is as large as the request that needs it."""
        return self.arena_extend_strategy == 1

    @property
    def strategy_name(self) -> str:
        """``kNextPowerOfTwo`` or ``kSameAsRequested``."""
        return STRATEGIES[self.arena_extend_strategy]

    def as_config(self) -> Mapping[str, int]:
        """What ``onnxruntime.OrtArenaCfg`` takes."""
        return dataclasses.asdict(self)


def _strategy(value: object) -> int:
    if isinstance(value, str) and value in STRATEGIES:
        return STRATEGIES.index(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in (-1, 0, 1):
        return max(value, 0)
    raise SizeError(
        f"arena_extend_strategy is 'kNextPowerOfTwo' (0, -1) or 'kSameAsRequested' (1), not {value!r}"
    )


def _bytes(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        words = "0 or more (0: no limit)" if least == 0 else "0 or more (-1: the default)"
        raise SizeError(f"{name} is a number of bytes, {words}, not {value!r}")
    return value
