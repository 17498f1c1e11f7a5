"""What a script reads from a file at run time and sets by the names in it: what stood there before is not what will be used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.values import Known, Obj, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_FILES = frozenset("open read read_text load safe_load full_load loads".split())
"""Last words of the calls that read: ``open``, ``io.open``, ``path.read_text``, ``yaml.safe_load``."""
_DEEP = 40


def read_from_file(*values: Value | None) -> bool:
    """Whether one of these values comes out of a file that is read at run time."""
    stack = [value for value in values if value is not None]
    for _ in range(_DEEP):
        if not stack:
            return False
        value = settle(stack.pop())
        if isinstance(value, Obj):
            if value.kind == "call" and value.name.rpartition(".")[2] in _FILES:
                return True
            stack += [part for part in (value.receiver, *value.args) if part is not None]
        elif isinstance(value, Unknown):
            stack += [part for part in value.parents if isinstance(part, Value)]
    return False


def overwrite(m: Machine, table: dict[Any, Value], node: ast.AST) -> None:
    """Forget the plain values of a table: the file may name any of them."""
    for name, held in list(table.items()):
        if isinstance(held, Known) and isinstance(held.value, (bool, int, float, str)):
            m.write(table, name, m.unknown("is set from a file that is read at run time", node, held))
