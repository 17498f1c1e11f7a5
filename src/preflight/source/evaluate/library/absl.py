"""Command lines by absl: flags with their defaults, and ``app.run``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.command_line.words import word_value, words_of
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Known, Module, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_KINDS = "integer float string bool boolean enum list multi_integer multi_string multi_float enum_class".split()


@MODEL.call(*("absl.flags.DEFINE_" + kind for kind in _KINDS))
def _define(m: Machine, c: Call) -> Value | None:
    name, default = plain(c.argument(0, "name")), c.argument(1, "default")
    if not isinstance(name, str):
        return None
    settled = settle(default) if default is not None else Known(None)
    value: Value = settled
    if isinstance(settled, Known):
        value = Known(settled.value, settled.site, f"default of --{name}", True)
    text = words_of(m)[0].get(name) or ("False" if f"no{name}" in words_of(m)[0] else None)
    if text is not None:
        value = word_value(name, text)
        if c.name.endswith(("DEFINE_string", "DEFINE_enum")):
            value = Known(text, None, f"command line --{name}")
    flags(m)[name] = value
    made = m.made("call", c.name, c.node, c.args, c.kwargs)
    made.attrs["value"] = value
    return made


def flags(m: Machine) -> dict[str, Value]:
    """The table of flags of this evaluation."""
    holder = m.modules.get("absl.flags.FLAGS")
    if holder is None:
        holder = m.modules["absl.flags.FLAGS"] = Module("FLAGS", m.project.script)
    return holder.namespace


@MODEL.attribute("absl.flags.FLAGS")
def _flags(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    made = m.made("call", "argparse.Namespace", node)
    made.attrs = flags(m)
    made.data = "namespace"
    return made


@MODEL.call("absl.app.run")
def _run(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    return call(m, c.args[0], [Seq([], "argv", m.site(c.node))], {}, c.node) if c.args else None
