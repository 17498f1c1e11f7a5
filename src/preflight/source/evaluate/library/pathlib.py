"""Paths, as far as their text is known."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Obj, Value, plain, settle

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from preflight.source.evaluate.machine import Machine

MODEL = Model()


def _text(value: Value | None) -> str | None:
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and isinstance(base.data, str):
        return base.data
    found = plain(base)
    return found if isinstance(found, str) else None


def posixpath_of(text: str) -> PurePosixPath:
    """The path of a text, which is only looked at."""
    from pathlib import PurePosixPath

    return PurePosixPath(text)


def _made(m: Machine, text: str | None, node: ast.AST) -> Value:
    made = m.made("call", "pathlib.Path", node)
    made.data = text
    return made


@MODEL.call("pathlib.Path", "pathlib.PurePath")
def _path(m: Machine, c: Call) -> Value | None:
    parts = [_text(a) for a in c.args]
    return _made(m, posixpath.join(*[p for p in parts if p]) if parts and all(parts) else None, c.node)


@MODEL.call("pathlib.Path.resolve", "pathlib.Path.absolute", "pathlib.Path.expanduser")
def _same(m: Machine, c: Call) -> Value | None:
    return c.receiver


@MODEL.call("pathlib.Path.joinpath")
def _join(m: Machine, c: Call) -> Value | None:
    parts = [_text(c.receiver), *(_text(a) for a in c.args)]
    return _made(m, posixpath.join(*[p for p in parts if p]) if all(parts) else None, c.node)


@MODEL.attribute("pathlib.Path.parent")
def _parent(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    text = _text(base)
    return _made(m, posixpath.dirname(text) if text else None, node)


@MODEL.attribute("pathlib.Path.name", "pathlib.Path.stem", "pathlib.Path.suffix")
def _part(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    text = _text(base)
    return m.known(getattr(posixpath_of(text), name.rpartition(".")[2]), node) if text is not None else None


@MODEL.call("pathlib.Path.open", "pathlib.Path.read_text")
def _open(m: Machine, c: Call) -> Value | None:
    text = _text(c.receiver)
    if c.name.endswith("read_text"):
        found = m.project.read_data(text, m.frame.module.script) if text else None
        if found is not None:
            return m.known(found[0].decode("utf-8", "replace"), c.node, f"file {found[1]}")
        return m.unknown("a file that is not part of the repository", c.node)
    made = m.made("call", "builtins.open", c.node, c.args, c.kwargs)
    made.data = text
    return made
