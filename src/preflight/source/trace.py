"""The trace: what a script would do, in order, and in which loops, blocks and branches."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from preflight.source.values import Choice, Dict, Ext, Func, Known, Obj, Phi, Seq, Unknown, Value, options_of
from preflight.source.values.arguments import Arguments

if TYPE_CHECKING:
    from preflight.source.script import Script


class Context:
    """One frame of structure around a place: a linked list from the inside out.

    Attributes:
        kind: ``loop``, ``with``, ``if``, ``call``, ``try``, ``except``, ``finally``, ``root``.
        node: The statement, or the call.
        value: What is iterated, entered, tested or called.
        polarity: For ``if``: which side. For a loop: None.
        taken: For ``if``: False on the side that the defaults do not lead to; None where nothing is known.
        passes: For a loop over things that are all alike, which is followed once: how often it runs.
        depth: Number of frames.
    """

    __slots__ = ("depth", "kind", "node", "parent", "passes", "polarity", "script", "taken", "unrolled", "value")

    def __init__(
        self,
        parent: Context | None,
        kind: str,
        node: ast.AST | None,
        script: Script | None,
        value: Value | None = None,
        polarity: bool | None = None,
        taken: bool | None = None,
    ) -> None:
        self.parent = parent
        self.kind = kind
        self.node = node
        self.script = script
        self.value = value
        self.polarity = polarity
        self.taken: bool | None = taken if parent is None or parent.taken is not False else False
        self.depth: int = 1 if parent is None else parent.depth + 1
        self.unrolled = False
        self.passes = 1

    def frames(self) -> Iterator[Context]:
        """Yield the frames from the inside out."""
        frame: Context | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def loops(self) -> list[Context]:
        """The loops around, innermost first (loops that were unrolled are not loops of the program's structure)."""
        return [f for f in self.frames() if f.kind == "loop" and not f.unrolled]

    def withs(self) -> list[Value]:
        """What was entered with ``with`` (or a decorator), innermost first."""
        return [f.value for f in self.frames() if f.kind == "with" and f.value is not None]

    def within(self, other: Context) -> bool:
        """Whether this place lies inside the frame ``other``."""
        frame: Context | None = self
        while frame is not None and frame.depth > other.depth:
            frame = frame.parent
        return frame is other

    @property
    def in_forward(self) -> bool:
        """Whether this place is reached through a ``forward``: what a layer is given is no sample of the data."""
        return any(
            f.kind == "call" and str(getattr(f.value, "qualname", "")).endswith(".forward") for f in self.frames()
        )

    @property
    def shadow(self) -> bool:
        """Whether the defaults do not lead here."""
        return self.taken is False


Place = tuple[str, int, int]
"""A file, a line and a column: where a statement stands, the same each time its file is parsed."""


def place_of(script: Script | None, node: ast.AST | None) -> Place:
    """Where a statement stands, the same each time its file is parsed."""
    path = str(script.path) if script is not None else ""
    return path, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


_INPUTS = (
    "input_ids",
    "inputs_embeds",
    "pixel_values",
    "input_values",
    "input_features",
    "x",
    "input",
    "inputs",
    "sample",
)
"""Names that networks give to what they are called with, those of transformers and diffusers first."""


_BESIDE = re.compile(r"label|target|mask|^y$|(position|token_type)_ids$")
"""Names of what networks are given beside their input."""


class Event(Arguments):
    """A call that the script would make.

    Attributes:
        number: Order in the trace.
        name: Full name of the callee: ``torch.optim.Adam``; of a method on an object: ``.backward``;
            of a function of the project: its qualified name.
        receiver: The object whose method is called.
        func: The callee.
        result: What the call returned.
        inlined: Whether the callee is code of the project that was followed.
    """

    __slots__ = (
        "args",
        "context",
        "func",
        "inlined",
        "kwargs",
        "name",
        "node",
        "number",
        "receiver",
        "result",
        "script",
    )

    def __init__(
        self,
        number: int,
        name: str,
        node: ast.AST,
        script: Script,
        context: Context,
        func: Value | None,
        receiver: Value | None,
        args: list[Value],
        kwargs: dict[str, Value],
    ) -> None:
        self.number = number
        self.name = name
        self.node = node
        self.script = script
        self.context = context
        self.func = func
        self.receiver = receiver
        self.args = args
        self.kwargs = kwargs
        self.result: Value | None = None
        self.inlined = False

    @property
    def input(self) -> Value | None:
        """What a network is given by this call: the first argument, or the one that bears the name of an input."""
        if self.args:
            return self.args[0]
        named = (self.kwargs[name] for name in _INPUTS if name in self.kwargs)
        other = (value for name, value in self.kwargs.items() if not _BESIDE.search(name))
        return next(named, None) or next(other, None) or next(iter(self.kwargs.values()), None)

    def __repr__(self) -> str:
        return f"<{self.number} {self.name} line {getattr(self.node, 'lineno', '?')}>"


class Trace:
    """All events of a script, with the indexes that rules ask for.

    Attributes:
        events: What the script calls, in order.
        drawn: What the networks of libraries call in themselves, where a drawing tells; no rule sees it.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.drawn: list[Event] = []
        self.by_name: dict[str, list[Event]] = {}
        self.results: dict[int, Event] = {}
        self.stores: list[Store] = []
        self.carried: list[Carry] = []
        self.notes: list[str] = []
        self.exhausted: str | None = None

    def add(self, event: Event) -> None:
        """Append an event."""
        self.events.append(event)
        self.by_name.setdefault(event.name, []).append(event)

    def calls(self, *names: str) -> list[Event]:
        """Events by full name, in order. A name that starts with a dot is a method on any object."""
        found = [event for name in names for event in self.by_name.get(name, ())]
        if len(names) > 1:
            found.sort(key=lambda event: event.number)
        return found

    def calls_under(self, *prefixes: str) -> list[Event]:
        """Events whose full name starts with one of the prefixes, in order."""
        found = [e for name, events in self.by_name.items() if name.startswith(prefixes) for e in events]
        found.sort(key=lambda event: event.number)
        return found

    def on(self, receiver: Value, *methods: str) -> list[Event]:
        """Method calls on an object (through aliases, choices and loop-carried names), in order."""
        wanted = {id(option) for option in options_of(receiver)}
        return [
            event
            for event in self.calls(*("." + name for name in methods))
            if event.receiver is not None and any(id(o) in wanted for o in options_of(event.receiver))
        ]


_ALIASES = {"_grad": "grad"}
"""Names under which a tensor keeps the same thing: ``p._grad = g`` sets ``p.grad`` past the checks of its setter."""


class Store:
    """An assignment to an attribute or item: ``target.name = value``."""

    __slots__ = ("context", "name", "node", "number", "script", "target", "value")

    def __init__(
        self, number: int, target: Value, name: str, value: Value, node: ast.AST, script: Script, context: Context
    ) -> None:
        self.number = number
        self.target = target
        self.name = _ALIASES.get(name, name)
        self.value = value
        self.node = node
        self.script = script
        self.context = context


class Carry:
    """A variable that a loop changes: what one pass leaves for the next.

    Attributes:
        name: The variable, for messages only.
        frame: The loop.
        mark: What stands for the variable at the start of a pass: a ``Phi``, or an ``Unknown`` where it was plain before.
        before: Its value before the loop.
        final: Its value at the end of a pass.
    """

    __slots__ = ("before", "final", "frame", "mark", "name")

    def __init__(self, name: str, frame: Context, mark: Value, before: Value) -> None:
        self.name = name
        self.frame = frame
        self.mark = mark
        self.before = before
        self.final: Value = mark


ITEMS = "<items>"
"""The attribute of a tensor that holds what was written into it item by item."""


def parents_of(value: Value) -> Iterable[Value]:
    """The values that a value was directly made from."""
    if isinstance(value, Obj):
        if value.receiver is None and not value.kwargs and ITEMS not in value.attrs:
            return value.args
        found = [*value.args, *value.kwargs.values()]
        if ITEMS in value.attrs:
            found.append(value.attrs[ITEMS])
        if value.receiver is not None:
            found.append(value.receiver)
        return found
    if isinstance(value, (Unknown, Known)):
        return value.parents
    if isinstance(value, Choice):
        return value.options
    if isinstance(value, Phi):
        return (value.initial, value.final) if value.final is not None else (value.initial,)
    if isinstance(value, Seq):
        return value.items
    if isinstance(value, Dict):
        return value.entries.values()
    return ()


def provenance(value: Value | None, limit: int = 4000, ends: Callable[[Value], bool] | None = None) -> Iterator[Value]:
    """Yield a value and everything it was made from, nearest first, each once; not what is behind one that ``ends`` takes."""
    if value is None:
        return
    queue: list[Value] = [value]
    seen = {id(value)}
    for current in queue:  # grows while it is gone through
        if limit <= 0:
            return
        limit -= 1
        yield current
        for parent in parents_of(current) if ends is None or not ends(current) else ():
            if id(parent) not in seen:
                seen.add(id(parent))
                queue.append(parent)


def name_of(value: Value | None) -> str | None:
    """The full name of an external thing, function or object, or None."""
    if isinstance(value, (Ext, Obj)):
        return value.name
    if isinstance(value, Func):
        return value.qualname
    return None


def literal(value: Value | None) -> object:
    """The plain scalar of a known value, or None."""
    return value.value if isinstance(value, Known) else None


def comes_from_any(value: Value | None, limit: int, names: tuple[str, ...]) -> Obj | None:
    """The nearest thing among a value's first ``limit`` makers that one of the named calls or operators made."""
    for part in provenance(value, limit):
        if isinstance(part, Obj) and part.name in names:
            return part
    return None
