"""The rooms of the package and the borders between them (docs/architecture.md)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "onnx_notebook_profiler"
SOURCE = Path(__file__).resolve().parents[1] / PACKAGE

# Each room imports only rooms before it.
ROOMS = (
    "errors",
    "events",
    "model",
    "allocators",
    "plan",
    "evaluator",
    "symbolic",
    "ort",
    "layout",
    "render",
    "profile",
    "notebook",
    "cli",
)
CORE = ROOMS[: ROOMS.index("notebook")]

# What the core must not load by merely being imported.
FRONT_ENDS = ("IPython", "ipywidgets", "matplotlib", "onnxruntime", "pandas")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, wherever in a file it stands, with the line for messages."""

    name: str
    line: int


def room_files(room: str) -> list[Path]:
    """The files of a room, which is a folder or a single module; none where it is not there."""
    single = SOURCE / f"{room}.py"
    return [single] if single.exists() else sorted((SOURCE / room).rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def existing_rooms() -> list[str]:
    return [room for room in ROOMS if room_files(room)]


def imports(file: Path) -> Iterator[Import]:
    """Every import of *file*: at its top, in functions, for typing alone, by `import_module`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"{file}:{node.lineno}: imports are absolute"
                # `from package import x` may mean the module package.x: yield the long form
                yield from (Import(f"{module}.{alias.name}", node.lineno) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(name, node.lineno)


def room_of(name: str) -> str | None:
    """The room that an imported name belongs to; None where it is not of this package."""
    top, _, rest = name.partition(".")
    return rest.partition(".")[0] if top == PACKAGE else None


def offenders(files: list[Path], is_wrong: Callable[[str], bool]) -> list[str]:
    return [
        f"{file.relative_to(SOURCE)}:{found.line} imports {found.name}"
        for file in files
        for found in imports(file)
        if is_wrong(found.name)
    ]


def test_rooms_are_those_of_the_house_plan() -> None:
    inside = {
        path.stem
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    }
    assert inside - {"__init__", "__main__"} <= set(ROOMS)


def test_core_loads_no_front_end(fresh_python: Callable[[str], str]) -> None:
    modules = [module_name(file) for room in CORE for file in room_files(room)]
    printed = fresh_python(
        "import importlib, sys\n"
        f"for module in {modules}:\n"
        "    importlib.import_module(module)\n"
        f"    loaded = [name for name in {FRONT_ENDS} if name in sys.modules]\n"
        "    if loaded:\n"
        "        sys.exit(f'{module} loads {loaded}')\n"
        "print(len(sys.modules))"
    )
    assert int(printed) > len(modules)


@pytest.mark.parametrize("room", existing_rooms())
def test_arrows_run_one_way(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], "__version__"}

    def is_wrong(name: str) -> bool:
        target = room_of(name)
        return target is not None and target not in allowed

    assert offenders(room_files(room), is_wrong) == []


def test_onnxruntime_is_imported_in_ort_and_one_file_of_the_evaluator() -> None:
    def is_onnxruntime(name: str) -> bool:
        return name.partition(".")[0] == "onnxruntime"

    users = {
        file.relative_to(SOURCE)
        for file in SOURCE.rglob("*.py")
        if any(is_onnxruntime(found.name) for found in imports(file))
    }
    outside_ort = {path for path in users if path.parts[0] != "ort"}
    assert all(path.parts[0] == "evaluator" for path in outside_ort), outside_ort
    assert len(outside_ort) <= 1, outside_ort


@pytest.mark.parametrize("room", [room for room in existing_rooms() if room != "notebook"])
def test_only_the_notebook_knows_ipython(room: str) -> None:
    def is_front_end(name: str) -> bool:
        return name.partition(".")[0] in {"IPython", "ipywidgets", "traitlets"}

    assert offenders(room_files(room), is_front_end) == []


def test_an_arrow_that_runs_the_wrong_way_is_found(tmp_path: Path) -> None:
    """The walker sees imports in functions, for typing, from the package itself, and by name."""
    file = tmp_path / "sample.py"
    file.write_text(
        f"from {PACKAGE} import notebook\n"
        "def f():\n"
        f"    import {PACKAGE}.cli\n"
        f"    importlib.import_module('{PACKAGE}.profile.result')\n"
        "if TYPE_CHECKING:\n"
        f"    from {PACKAGE}.render.text import to_text\n"
        "import os.path\n"
    )
    rooms = [room_of(found.name) for found in imports(file)]
    assert sorted(room for room in rooms if room) == ["cli", "notebook", "profile", "render"]
    assert rooms.count(None) == 1
