"""Built-in functions that run text, and read files."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.builtin.model import MODEL
from preflight.source.evaluate.library import Call
from preflight.source.values import (
    Known,
    Obj,
    Value,
    plain,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


@MODEL.call("builtins.exec")
def _exec(m: Machine, c: Call) -> Value | None:
    """``exec(open(path).read())``: a configurator of the project is followed in the scope that calls it."""
    text = settle(c.args[0]) if c.args else None
    if not isinstance(text, Known) or not isinstance(text.value, str) or len(text.value) > 200_000:
        m.trace.notes.append("exec of text that is not known: what it sets is not known")
        return m.known(None)
    from preflight.source.evaluate.statements import run_block
    from preflight.source.script import Script

    try:
        tree = ast.parse(text.value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return m.known(None)
    module = m.frame.module
    before, limit = module.script, m.call_stack.count("exec")
    if limit >= 3:
        return m.known(None)
    shown = text.how if text.how and text.how.startswith("file ") else "text that is executed"
    module.script = Script(shown.removeprefix("file "), text.value, tree, before.file)
    m.call_stack.append("exec")
    try:
        run_block(m, tree.body)
    finally:
        m.call_stack.pop()
        module.script = before
    if any(isinstance(n, ast.Assign) and any(_is_global(t) for t in n.targets) for n in ast.walk(tree)):
        from preflight.source.evaluate.assign import soften

        soften(m, module.namespace)
    return m.known(None)


def _is_global(target: ast.expr) -> bool:
    """Whether an assignment goes to ``globals()[key]``."""
    base = target.value if isinstance(target, ast.Subscript) else None
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "globals"


@MODEL.call("builtins.eval")
def _eval(m: Machine, c: Call) -> Value | None:
    """``eval(text)`` of known text is followed like any expression; it is not run."""
    text = settle(c.args[0]) if c.args else None
    if isinstance(text, Known) and isinstance(text.value, str) and len(text.value) < 2000:
        from preflight.source.evaluate.expressions import evaluate

        try:
            return evaluate(m, ast.parse(text.value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return m.unknown("eval of text that is not an expression", c.node)
    return m.unknown("eval of text that is not known", c.node, *c.args)


@MODEL.call("builtins.open")
def _open(m: Machine, c: Call) -> Value | None:
    made = m.made("call", "builtins.open", c.node, c.args, c.kwargs)
    path = plain(c.argument(0, "file"))
    target = settle(c.args[0]) if c.args else None
    if path is None and isinstance(target, Obj) and isinstance(target.data, str):
        path = target.data
    mode = plain(c.argument(1, "mode"), "r")
    if isinstance(path, str) and isinstance(mode, str) and not set(mode) & set("wax+"):
        made.data = path
    return made


@MODEL.call("builtins.open.read")
def _read(m: Machine, c: Call) -> Value | None:
    base = settle(c.receiver) if c.receiver is not None else None
    if isinstance(base, Obj) and isinstance(base.data, str):
        found = m.project.read_data(base.data, m.frame.module.script)
        if found is not None:
            data, shown = found
            try:
                return m.known(data.decode("utf-8"), c.node, f"file {shown}")
            except UnicodeDecodeError:
                return None
    return m.unknown("a file that is not part of the repository", c.node, *([c.receiver] if c.receiver else []))


@MODEL.call("builtins.print")
def _print(m: Machine, c: Call) -> Value | None:
    return m.known(None)
