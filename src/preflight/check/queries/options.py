"""Options of a command line as a script declares them with argparse: what several rules about them ask for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.trace import parents_of
from preflight.source.values import Ext, Known, Obj, Value, options_of, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.source.trace import Event


class Declared:
    """One ``add_argument`` call.

    Attributes:
        event: The call.
        flags: ``--lr``, ``-l``; empty for a positional argument.
        action: The name of the action; None where it is not known.
        dest: The name in the namespace; None where it is not known.
    """

    def __init__(self, event: Event, names: list[str]) -> None:
        """Read what the call says."""
        self.event = event
        self.flags = [n for n in names if n.startswith("-")]
        given = plain(event.kwargs.get("dest"))
        long = next((n for n in names if n.startswith("--")), names[0])
        self.renamed = isinstance(given, str)
        self.dest: str = given if isinstance(given, str) else long.lstrip("-").replace("-", "_")
        self.label = long
        action = settle(event.kwargs["action"]) if "action" in event.kwargs else Known("store")
        self.action: str | None = str(action.value) if isinstance(action, Known) else None

    @property
    def type_name(self) -> str | None:
        """Full name of the conversion: ``builtins.int``; None where there is none or it is not a library name."""
        value = self.event.kwargs.get("type")
        kind = settle(value) if value is not None else None
        return kind.name if isinstance(kind, Ext) else None

    @property
    def default(self) -> Value | None:
        """The declared default."""
        return self.event.kwargs.get("default")

    def keyword(self, name: str) -> ast.keyword | None:
        """The keyword as written, or None where it comes through ``**``."""
        node = self.event.node
        return next((k for k in node.keywords if k.arg == name), None) if isinstance(node, ast.Call) else None


def declared(context: Context) -> Iterator[Declared]:
    """All options that argparse itself will parse, as declared on a parser that the script makes."""
    for event in context.trace.calls(".add_argument"):
        parser = next((o for o in options_of(event.receiver, limit=3) if isinstance(o, Obj)), None)
        if parser is None or not _is_argparse(context, parser):
            continue
        names = [v.value for v in map(settle, event.args) if isinstance(v, Known) and isinstance(v.value, str)]
        if names and len(names) == len(event.args):
            yield Declared(event, names)


def _is_argparse(context: Context, parser: Obj) -> bool:
    """Jsonargparse parses by its own rules (``bool`` works there), though its parser looks the same."""
    made = context.reading.event_of(parser)
    if parser.cls is not None:
        bases = parser.cls.external_bases()
        return any(n.startswith(("argparse.", "configargparse.")) for n in bases)
    if made is not None and made.name.startswith("jsonargparse."):
        return False
    return parser.name.startswith(("argparse.", "configargparse."))


def from_option(value: Value | None, limit: int = 40) -> set[str]:
    """Names of the options that a plain value was computed from, through arithmetic and conversions only."""
    found: set[str] = set()
    queue: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while queue and len(seen) < limit:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Obj):
            if current.kind == "item" and current.name == "argparse.option":
                found.add(str(plain(current.args[0])))
            elif current.kind != "op":
                continue
        queue.extend(parents_of(current))
    return found


def imported_as(context: Context, module: str) -> str | None:
    """The name by which the script imports a module (``import argparse as ap`` gives ``ap``)."""
    for node in context.reading.script.tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == module:
                    return alias.asname or alias.name
    return None
