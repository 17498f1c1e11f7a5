"""Branches of the script that were decided in a dry run by a number that does not exist.

A fake tensor has no numbers; what a script reads from one is a plausible value. Where a condition hangs on it, a real run
may go the other way.
"""

from __future__ import annotations

import ast

from preflight.check.observed.run import Run
from preflight.source.script import Script

_READS = frozenset(("item", "copy to the host"))


def branches(run: Run) -> list[str]:
    """Return ``file:line`` of the conditions that hang on a value read from the GPU, in order."""
    found: dict[str, None] = {}
    for line in dict.fromkeys(item.line for item in run.seen("wait") if item.data["kind"] in _READS):
        place = run.place(line)
        script = next((s for s in run.context.reading.scripts if s.path == place.path), None)
        if script is not None and place.line is not None:
            for number in _conditions(script, place.line):
                found[f"{place.path}:{number}"] = None
    return sorted(found, key=lambda place: (place.rpartition(":")[0], int(place.rpartition(":")[2])))


def _conditions(script: Script, line: int) -> list[int]:
    """The lines of the conditions that a value read at a line decides: its own, or those that use the name it gets."""
    own = [node.lineno for node in _tests(script.tree) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if own:
        return own
    scope, statement = _statement(script.tree, line)
    names = {
        name.id
        for target in _targets(statement)
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    if not names:
        return []
    # The condition of a loop that holds the line is asked again after it.
    around = [
        node.test
        for node in ast.walk(scope)
        if isinstance(node, ast.While) and node.lineno < line <= (node.end_lineno or node.lineno)
    ]
    return [
        test.lineno
        for test in [*around, *(test for test in _tests(scope) if test.lineno > line)]
        if any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(test))
    ]


def _tests(tree: ast.AST) -> list[ast.expr]:
    return [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert))]


def _statement(tree: ast.Module, line: int) -> tuple[ast.AST, ast.stmt | None]:
    """The innermost simple statement at a line, and the function that holds it."""
    scope: ast.AST = tree
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = node  # the walk goes from outside in
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            found = node
    return scope, found


def _targets(statement: ast.stmt | None) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []
