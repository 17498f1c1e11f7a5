"""The interpreter's own state: the command line."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Model
from preflight.source.values import Known, Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.attribute("sys.argv")
def _argv(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    """The words of the command line: those that were given, else none beside the script's name."""
    words: list[Value] = [m.known(m.project.script.path, node, "command line")]
    words += [m.known(word, node, "command line") for word in m.arguments or ()]
    return Seq(words, "argv" if m.arguments is None else "list", m.site(node))


@MODEL.attribute("sys.version_info")
def _version(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    return Seq([Known(3), Known(11), Known(0)], "tuple", m.site(node))
