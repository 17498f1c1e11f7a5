"""The environment and paths."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Known, Obj, Unknown, Value, join, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


def environment(m: Machine, name: str, node: ast.AST, default: Value | None) -> Value:
    """The value of a variable of the environment: set by the launcher, else the script's default."""
    variable = m.made("item", "os.environ", node, [Known(name)])
    if name in m.environment:
        value = m.environment[name]
        if value is None:
            return Unknown(f"{name} differs between ranks", m.site(node), (variable,), name=name)
        return Known(value, m.site(node), f"environment {name}")
    if default is not None:
        settled = settle(default)
        if isinstance(settled, Known):
            how = f"default of the environment variable {name}"
            return Known(settled.value, m.site(node), how, True, (variable,))
        return join(
            Unknown(f"the environment variable {name} is not given", m.site(node), (variable,), name=name), default, 1
        )
    return Unknown(f"the environment variable {name} is not given", m.site(node), (variable,), name=name)


@MODEL.call("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop")
def _get(m: Machine, c: Call) -> Value | None:
    name = plain(c.argument(0, "key"))
    if not isinstance(name, str):
        return None
    default = c.argument(1, "default")
    return environment(m, name, c.node, default if default is not None else m.known(None))


def environ_item(m: Machine, key: Value, node: ast.AST) -> Value | None:
    """``os.environ[name]``."""
    name = plain(key)
    return environment(m, name, node, None) if isinstance(name, str) else None


_PATHS = ("join", "basename", "dirname", "abspath", "realpath", "normpath", "splitext", "expanduser")


@MODEL.call(*("os.path." + name for name in _PATHS))
def _path(m: Machine, c: Call) -> Value | None:
    values = [plain(a) for a in c.args]
    if not values or not all(isinstance(v, str) for v in values):
        target = settle(c.args[0]) if c.args else None
        if not (isinstance(target, Obj) and isinstance(target.data, str)):
            return m.unknown("a path with a part that is not known", c.node, *c.args)
        values[0] = target.data
        if not all(isinstance(v, str) for v in values):
            return m.unknown("a path with a part that is not known", c.node, *c.args)
    name = c.name.rpartition(".")[2]
    if name in ("abspath", "realpath", "expanduser"):
        return m.known(values[0], c.node, "computed")
    function = {
        "join": posixpath.join,
        "basename": posixpath.basename,
        "dirname": posixpath.dirname,
        "normpath": posixpath.normpath,
        "splitext": posixpath.splitext,
    }[name]
    return m.lift(function(*values), c.node)  # type: ignore[operator]


_KINDS = {"exists": ("file", "folder"), "isfile": ("file",), "isdir": ("folder",)}


@MODEL.call(*("os.path." + name for name in _KINDS))
def _exists(m: Machine, c: Call) -> Value | None:
    path = plain(c.argument(0, "s" if c.name.endswith("isdir") else "path"))
    held = m.project.holds(path, m.frame.module.script) if isinstance(path, str) else ""
    if held:
        return m.known(held in _KINDS[c.name.rpartition(".")[2]], c.node)
    if isinstance(path, str) and not posixpath.isabs(path) and ".." not in path:
        # It is not there now: what the script would do today. It may be there when the script runs.
        return Known(False, m.site(c.node), f"{path} is not there", True)
    return m.unknown("whether a file exists where the script will run", c.node, *c.args)


@MODEL.call("os.cpu_count")
def _cpus(m: Machine, c: Call) -> Value | None:
    return m.unknown("the number of cores of the machine that will run it", c.node)
