"""The names that notebooks people write depend on (docs/architecture.md)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

import onnx_notebook_profiler as onp

INIT = Path(onp.__file__)

EXTENSION = {"load_ipython_extension", "unload_ipython_extension"}

PROMISED = {
    "ComputeContext",
    "MemoryExplorer",
    "NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY",
    "NODE_MEMORY_INITIALIZERS_KEY",
    "NODE_MEMORY_INPUTS_KEY",
    "NODE_MEMORY_INTERMEDIATES_KEY",
    "NODE_MEMORY_OUTPUTS_KEY",
    "NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY",
    "NODE_MEMORY_TOTAL_BYTES_KEY",
    "Profile",
    "ProfilerError",
    "ReferenceEvaluator",
    "RuntimeEvent",
    "RuntimeEventAction",
    "SimpleRawBufferAllocator",
    "evaluate_expression",
    "explore",
    "pretty_onnx",
    "profile",
}

# What `import onnx_notebook_profiler` alone must not load: front ends, and whatever takes time.
HEAVY = ("IPython", "ipywidgets", "matplotlib", "numpy", "onnx", "onnx_ir", "onnxruntime", "sympy")


def grouped_names() -> list[list[str]]:
    """The entries of `__all__` as its source has them; a comment line begins a new group."""
    source = INIT.read_text(encoding="utf-8")
    lines = source.splitlines()
    entries = next(
        node.value.elts
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.List | ast.Tuple)
        and any(
            isinstance(target, ast.Name) and target.id == "__all__"
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        )
    )

    def comments_above(entry: ast.expr) -> int:
        return sum(line.lstrip().startswith("#") for line in lines[: entry.lineno - 1])

    return [
        [ast.literal_eval(entry) for entry in group]
        for _, group in groupby(entries, comments_above)
    ]


def test_promised_names_are_public() -> None:
    assert set(onp.__all__) >= PROMISED


@pytest.mark.parametrize("name", onp.__all__)
def test_public_name_exists_and_is_described(name: str) -> None:
    value = getattr(onp, name)
    if not isinstance(value, str):  # a constant is described where it is defined
        assert inspect.getdoc(value)


def test_dir_is_the_public_surface() -> None:
    assert set(dir(onp)) == set(onp.__all__) | EXTENSION
    assert len(set(onp.__all__)) == len(onp.__all__)


def test_all_is_sorted_by_group() -> None:
    """Within a group: constants, then classes, then functions, each by name."""

    def key(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    groups = grouped_names()
    assert [name for group in groups for name in group] == list(onp.__all__)
    assert len(groups) > 1
    for group in groups:
        assert group == sorted(group, key=key)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = onp.no_such_name


def test_importing_the_package_is_cheap(fresh_python: Callable[[str], str]) -> None:
    printed = fresh_python(
        "import sys, onnx_notebook_profiler\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
        "print([name for name in sys.modules if name.startswith('onnx_notebook_profiler.')])"
    )
    heavy, rooms = printed.splitlines()
    assert heavy == "[]"
    assert rooms == "[]"


@pytest.mark.parametrize(
    "first",
    ["import onnx_notebook_profiler.profile", "onp.Profile", "onp.profile", "from onp import *"],
)
def test_profile_is_a_function_and_a_room(first: str, fresh_python: Callable[[str], str]) -> None:
    """Importing the room of the same name must not put a module in the function's place."""
    printed = fresh_python(
        "import onnx_notebook_profiler as onp\n"
        f"{first.replace('from onp', 'from onnx_notebook_profiler')}\n"
        "print(callable(onp.profile))\n"
        "from onnx_notebook_profiler import profile\n"
        "print(callable(profile))\n"
        "from onnx_notebook_profiler.profile import result\n"
        "print(result.__name__)\n"
        "print(callable(onp.profile))"
    )
    assert printed.split() == ["True", "True", "onnx_notebook_profiler.profile.result", "True"]
