"""The kinds of values: known, unknown, collections, objects, and what was made outside the script."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.values.arguments import Arguments

if TYPE_CHECKING:
    from preflight.source.script import Script
    from preflight.source.trace import Context
    from preflight.source.values.callables import Class


class Site:
    """A place in a script: the node and the file it is in."""

    __slots__ = ("node", "script")

    def __init__(self, script: Script, node: ast.AST) -> None:
        self.script = script
        self.node = node


class Value:
    """The worth of an expression."""

    __slots__ = ("site",)

    def __init__(self, site: Site | None = None) -> None:
        self.site = site


RANKS_TOLD = frozenset({"launcher", "GPUs per node", "environment WORLD_SIZE", "environment LOCAL_WORLD_SIZE"})
"""How a number of ranks came about, where the launcher told it."""


class Known(Value):
    """A plain Python value: number, string, bytes, bool, None, Ellipsis.

    Attributes:
        value: The value itself.
        how: How it came about: ``literal``, ``default of --lr``, ``config.yaml`` ...
        soft: Whether a person can change it without editing the code (an option, a variable of the environment).
            A branch on a soft value is followed on both sides; the side of the value is preferred.
        parents: Of a soft value: what it was computed from, down to the option or the variable of the environment.
            Kept as well where the number of ranks decides, which the launcher told.
    """

    __slots__ = ("how", "parents", "soft", "value")

    def __init__(
        self,
        value: Any,
        site: Site | None = None,
        how: str | None = None,
        soft: bool = False,
        parents: tuple[Value, ...] = (),
    ) -> None:
        self.value = value
        self.site = site
        self.how = how
        self.soft = soft
        self.parents = parents if soft or (parents and _ranks_told(parents)) else ()

    def __repr__(self) -> str:
        return f"Known({self.value!r})"


def _ranks_told(parents: tuple[Value, ...]) -> bool:
    return any(isinstance(p, Known) and (p.how in RANKS_TOLD or p.parents) for p in parents)


class Unknown(Value):
    """A value that cannot be known, and why. It keeps its identity and what was hung on it.

    Attributes:
        reason: Why it cannot be known.
        initial: The value before the loop that changes it, or None.
        parents: The values it was computed from.
        name: The parameter or variable it stands for, for messages only.
    """

    __slots__ = ("attrs", "initial", "name", "parents", "reason")

    def __init__(
        self,
        reason: str,
        site: Site | None = None,
        parents: tuple[Value, ...] = (),
        initial: Value | None = None,
        name: str | None = None,
    ) -> None:
        self.reason = reason
        self.site = site
        self.parents = parents
        self.initial = initial
        self.name = name
        self.attrs: dict[str, Value] = {}

    def __repr__(self) -> str:
        return f"Unknown({self.reason})"


class Seq(Value):
    """A list, tuple or set.

    Attributes:
        open: Whether further items may be there which are not known.
        born: Of a list that the program makes: where in its structure.
    """

    __slots__ = ("born", "items", "kind", "open")

    def __init__(self, items: list[Value], kind: str = "list", site: Site | None = None, open_: bool = False) -> None:
        self.items = items
        self.kind = kind
        self.site = site
        self.open = open_
        self.born: Context | None = None

    def __repr__(self) -> str:
        return f"Seq({self.kind}, {self.items!r}{', ...' if self.open else ''})"


class Dict(Value):
    """A dictionary with plain keys. ``open`` says that further entries may be there which are not known."""

    __slots__ = ("entries", "open", "name")

    def __init__(
        self, entries: dict[Any, Value], site: Site | None = None, open_: bool = False, name: str | None = None
    ) -> None:
        self.entries = entries
        self.site = site
        self.open = open_
        self.name = name

    def __repr__(self) -> str:
        return f"Dict({self.entries!r}{', ...' if self.open else ''})"


class Ext(Value):
    """Something that lives outside the project, by its full dotted name: ``torch.optim.AdamW``."""

    __slots__ = ("name",)

    def __init__(self, name: str, site: Site | None = None) -> None:
        self.name = name
        self.site = site

    def __repr__(self) -> str:
        return f"Ext({self.name})"


class Module(Value):
    """A module of the project that was read."""

    __slots__ = ("name", "namespace", "script", "done")

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self.script = script
        self.site = None
        self.namespace: dict[str, Value] = {}
        self.done = False

    def __repr__(self) -> str:
        return f"Module({self.name})"


class Obj(Arguments, Value):
    """A thing that a call, an operation, an attribute or an iteration made.

    Attributes:
        kind: ``call`` (of something external), ``instance`` (of a class of the project), ``op``, ``attr``, ``item``,
            ``param`` (a parameter whose annotation names its type), ``copy``, ``generator``.
        name: Full name of what was called, or of the type where it is known: ``torch.optim.AdamW``;
            for a method of another object: ``.step``; for an operation: ``+``.
        cls: The class of the project, for instances.
        receiver: The object whose method, attribute or item this is.
        args: Positional arguments or operands.
        kwargs: Keyword arguments.
        attrs: Attributes that are known.
        context: Where in the structure of the program it was made (loops, with blocks, branches).
        drawn_for: Of a part of a drawing: the network of a library that it draws, which is as old as all its parts.
    """

    __slots__ = (
        "args", "attrs", "cls", "context", "data", "drawn_for", "kind", "kwargs", "name", "number", "open_args", "receiver",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        name: str,
        site: Site | None,
        context: Context | None,
        args: list[Value] | None = None,
        kwargs: dict[str, Value] | None = None,
        receiver: Value | None = None,
        cls: Class | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.site = site
        self.context = context
        self.args = args if args is not None else []
        self.kwargs = kwargs if kwargs is not None else {}
        self.receiver = receiver
        self.cls = cls
        self.attrs: dict[str, Value] = {}
        self.open_args = False
        self.number = 0
        self.data: Any = None
        self.drawn_for: Obj | None = None

    def __repr__(self) -> str:
        what = self.cls.qualname if self.cls is not None else self.name
        return f"Obj({self.kind} {what})"
