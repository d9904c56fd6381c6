"""Runs the body of a cell magic the way IPython runs a cell."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError

__all__ = ["run_cell_body"]


def run_cell_body(shell: Any, cell: str, magic: str, line: str = "") -> Any:
    """Run *cell* in the user's namespace; *magic* and *line* are what stands above it.

    Returns:
        The value of its last expression, for IPython to show; None where there is none, or where it
        ends with a semicolon.

    Raises:
        UsageError: The cell awaits at its top level, which no cell magic can.
        BaseException: Whatever the cell raises. Its traceback counts the lines of the whole cell, the
            magic's line included.
    """
    __tracebackhide__ = True
    compiler = shell.compile
    first = f"%%{magic} {line}".rstrip()
    source = f"# {first}\n{shell.transform_cell(cell)}"
    # Under the name of the whole cell, so that a traceback shows it as it was written.
    name = compiler.cache(source, shell.execution_count, raw_code=f"{first}\n{cell}")
    module = shell.transform_ast(compiler.ast_parse(source, filename=name))
    value = None
    for code in [_compiled(shell, tree, name, magic) for tree in _parts(shell, module)]:
        value = eval(code, shell.user_global_ns, shell.user_ns)  # noqa: S307 - the user's own cell
    return None if DisplayHook.semicolon_at_end_of_expression(cell) else value


def _parts(shell: Any, module: ast.Module) -> Iterator[ast.mod]:
    """The statements in pieces that are compiled apart; one whose value is to be shown comes last."""
    mode, nodes, last = shell.ast_node_interactivity, list(module.body), None
    if nodes and mode != "none":
        final = nodes[-1]
        if isinstance(final, ast.Expr):
            nodes.pop()
            last = final.value
        elif mode == "last_expr_or_assign":
            last = _assigned(final)
    if mode == "all":
        for node in nodes:
            yield ast.Interactive([node]) if isinstance(node, ast.Expr) else ast.Module([node], [])
    else:
        yield ast.Module(nodes, module.type_ignores)
    if last is not None:
        yield ast.Expression(last)


def _assigned(node: ast.stmt) -> ast.expr | None:
    """The variable that a statement sets, to be read."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        target = node.target
    if not isinstance(target, ast.Name):
        return None
    return ast.copy_location(ast.Name(target.id, ast.Load()), target)


def _compiled(shell: Any, tree: ast.mod, name: str, magic: str) -> CodeType:
    mode = {"Module": "exec", "Interactive": "single", "Expression": "eval"}[type(tree).__name__]
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        code: CodeType = shell.compile(tree, name, mode)
    if code.co_flags & inspect.CO_COROUTINE:
        raise UsageError(
            f"%%{magic} cannot await at the top level of its cell: put the awaiting part in a cell of its own"
        )
    return code
