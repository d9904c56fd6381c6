"""Tries limits on the real runtime, in a process of its own."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.allocators.arena_settings import ArenaSettings
from onnx_notebook_profiler.errors import FeedError, MissingExtraError, OnnxRuntimeError
from onnx_notebook_profiler.model import LoadedModel, shorten
from onnx_notebook_profiler.ort.child import call_child

__all__ = ["Trial", "try_limits"]

_EXTERNAL: Final = "session.model_external_initializers_file_folder_path"
_REFUSED = re.compile(r"Available memory of \d+ is smaller than requested bytes of \d+")


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A limit and what the real runtime did under it."""

    max_mem: int
    error: str
    """What it said; empty where all runs went through."""

    @property
    def works(self) -> bool:
        """Whether all runs went through."""
        return not self.error

    @property
    def is_refusal(self) -> bool:
        """Whether it was the arena that refused."""
        return _REFUSED.search(self.error) is not None


def try_limits(
    model: LoadedModel,
    feeds: Sequence[Mapping[str, Any]],
    limits: Sequence[int],
    settings: ArenaSettings,
    *,
    pattern: bool,
    optimized: bool,
    timeout: float | None = None,
) -> tuple[str, tuple[Trial, ...]]:
    """Run *model* once for each of *feeds* under each of *limits*; onnxruntime's version and the answers.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        FeedError: A feed is no tensor.
        OnnxRuntimeError: The process died, or the version cannot replace an arena (before 1.23).
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtraError(
            "trying limits needs onnxruntime, which is not installed: pip install onnx-notebook-profiler[onnxruntime]"
        )
    with tempfile.TemporaryDirectory(prefix="onp-limits-") as name:
        folder = Path(name)
        path = folder / "model.onnx"
        path.write_bytes(model.proto.SerializeToString())
        known: dict[int, int] = {}
        kinds: list[list[dict[str, Any]]] = []
        for one in feeds:
            if id(one) not in known:
                known[id(one)] = len(kinds)
                kinds.append(_written(folder, len(kinds), one))
        job = {
            "model": str(path),
            "feeds": kinds,
            "runs": [known[id(one)] for one in feeds],
            "limits": list(limits),
            "settings": dict(settings.as_config()),
            "pattern": pattern,
            "optimized": optimized,
            "config": {} if model.folder is None else {_EXTERNAL: str(model.folder)},
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        call_child("onnx_notebook_profiler.ort.limit_trial", folder, timeout)
        answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    version = str(answer["version"])
    if tuple(map(int, version.split(".")[:2])) < (1, 23):
        raise OnnxRuntimeError(
            f"onnxruntime {version} registers one arena for a process: limits can be tried from 1.23 on"
        )
    trials = zip(limits, answer["answers"], strict=True)
    return version, tuple(Trial(limit, error) for limit, error in trials)


def _written(folder: Path, number: int, feeds: Mapping[str, Any]) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = []
    for at, (name, value) in enumerate(feeds.items()):
        if not isinstance(value, np.ndarray):
            raise FeedError(
                f"limits are tried on tensors; input {shorten(name)} is fed {type(value).__name__}"
            )
        if value.dtype.kind in "OUS":
            texts = [str(one) for one in value.flat]
            kinds.append({"name": name, "shape": list(value.shape), "strings": texts})
        else:
            file = f"{number}.{at}.npy"
            np.save(folder / file, value)
            kinds.append({"name": name, "file": file})
    return kinds
