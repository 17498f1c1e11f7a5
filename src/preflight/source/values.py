"""What an expression of a script is worth, as far as it can be known without running it.

Values form a graph: a tensor remembers the call that made it and the values that went in,
so that a rule can ask where a value comes from. Identity matters: two names for one optimizer are one value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from preflight.source.script import Script
    from preflight.source.trace import Context


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
    """A list, tuple or set. ``open`` says that further items may be there which are not known."""

    __slots__ = ("items", "kind", "open")

    def __init__(self, items: list[Value], kind: str = "list", site: Site | None = None, open_: bool = False) -> None:
        self.items = items
        self.kind = kind
        self.site = site
        self.open = open_

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


class Func(Value):
    """A function of the project, with the scope it closes over."""

    __slots__ = ("attrs", "closure", "decorators", "module", "node", "owner", "qualname", "_generator", "defaults")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        module: Module,
        closure: Any,
        qualname: str,
        site: Site | None,
    ) -> None:
        self.node = node
        self.module = module
        self.closure = closure
        self.qualname = qualname
        self.site = site
        self.owner: Class | None = None
        self.decorators: list[Value] = []
        self._generator: bool | None = None
        self.attrs: dict[str, Value] = {}
        self.defaults: dict[str, Value] = {}

    @property
    def generator(self) -> bool:
        """Whether calling it makes a generator. Looked up when asked: most functions of a project are never called."""
        if self._generator is None:
            self._generator = "yield" in self.module.script.text and _yields(self.node)
        return self._generator

    def __repr__(self) -> str:
        return f"Func({self.qualname})"


def _yields(node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return False
    stack = list(ast.iter_child_nodes(node))
    while stack:
        current = stack.pop()
        if isinstance(current, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(current))
    return False


class Class(Value):
    """A class of the project."""

    __slots__ = ("bases", "decorators", "module", "namespace", "node", "qualname", "closure", "lineage", "keywords")

    def __init__(self, node: ast.ClassDef, module: Module, qualname: str, bases: list[Value], site: Site) -> None:
        self.node = node
        self.module = module
        self.qualname = qualname
        self.bases = bases
        self.site = site
        self.namespace: dict[str, Value] = {}
        self.decorators: list[Value] = []
        self.keywords: dict[str, Value] = {}
        self.closure: Any = None
        self.lineage: list[Class] = [self, *_linear([base for base in bases if isinstance(base, Class)])]

    def lookup(self, name: str) -> Value | None:
        """Find an attribute along the lineage, in Python's order."""
        for cls in self.lineage:
            found = cls.namespace.get(name)
            if found is not None:
                return found
        return None

    def external_bases(self) -> list[str]:
        """Full names of the bases outside the project, of the whole lineage."""
        bases = (base for cls in self.lineage for base in cls.bases)
        return [base.name for base in bases if isinstance(base, (Ext, Obj)) and base.name]

    def __repr__(self) -> str:
        return f"Class({self.qualname})"


def _linear(bases: list[Class]) -> list[Class]:
    """The order in which Python asks the ancestors (C3): a class before its bases, bases in the order written."""
    if len(bases) == 1:
        return bases[0].lineage
    queues = [list(base.lineage) for base in bases] + [list(bases)]
    order: list[Class] = []
    while queues := [queue for queue in queues if queue]:
        later = {id(cls) for queue in queues for cls in queue[1:]}
        # Without a head that is free, Python refuses the class; its first base then comes first.
        head = next((queue[0] for queue in queues if id(queue[0]) not in later), queues[0][0])
        order.append(head)
        queues = [[cls for cls in queue if cls is not head] for queue in queues]
    return order


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


class Obj(Value):
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
    """

    __slots__ = ("args", "attrs", "cls", "context", "kind", "kwargs", "name", "number", "receiver", "open_args", "data")

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

    def argument(self, position: int, keyword: str) -> Value | None:
        """Return the argument given by position or keyword, or None when it was not given."""
        if keyword in self.kwargs:
            return self.kwargs[keyword]
        if 0 <= position < len(self.args):
            return self.args[position]
        return None

    def __repr__(self) -> str:
        what = self.cls.qualname if self.cls is not None else self.name
        return f"Obj({self.kind} {what})"


class Bound(Value):
    """A method of the project bound to an object."""

    __slots__ = ("func", "receiver")

    def __init__(self, func: Func, receiver: Value, site: Site | None = None) -> None:
        self.func = func
        self.receiver = receiver
        self.site = site

    def __repr__(self) -> str:
        return f"Bound({self.func.qualname})"


class Method(Value):
    """A method of something external, or of a plain container, before it is called."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Value, name: str, site: Site | None = None) -> None:
        self.receiver = receiver
        self.name = name
        self.site = site

    def __repr__(self) -> str:
        return f"Method({self.receiver!r}.{self.name})"


class Partial(Value):
    """A callable with some of its arguments given (``functools.partial``)."""

    __slots__ = ("args", "func", "kwargs")

    def __init__(self, func: Value, args: list[Value], kwargs: dict[str, Value], site: Site | None = None) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.site = site


class Choice(Value):
    """One of several values, depending on a branch that could not be decided or that an option decides.

    Attributes:
        options: The possible values.
        preferred: Index of the value that the defaults lead to, or None when the branch is not known.
        test: The value that decided, where known.
    """

    __slots__ = ("options", "preferred", "test")

    def __init__(self, options: tuple[Value, ...], preferred: int | None = None, test: Value | None = None) -> None:
        self.options = options
        self.preferred = preferred
        self.test = test
        self.site = options[0].site if options else None

    def __repr__(self) -> str:
        return f"Choice({list(self.options)!r}, preferred={self.preferred})"


class Phi(Value):
    """A variable that a loop carries: its value before the loop, and its value at the end of the body."""

    __slots__ = ("final", "initial", "name")

    def __init__(self, name: str, initial: Value, site: Site | None = None) -> None:
        self.name = name
        self.initial = initial
        self.final: Value | None = None
        self.site = site

    def __repr__(self) -> str:
        return f"Phi({self.name}, {self.initial!r})"


MAX_OPTIONS = 6


def join(first: Value, second: Value, preferred: int | None = None, test: Value | None = None) -> Value:
    """Return the value that is either of two; ``preferred`` says which one the defaults lead to (0 or 1)."""
    if first is second:
        return first
    if (
        isinstance(first, Known)
        and isinstance(second, Known)
        and type(first.value) is type(second.value)
        and first.value == second.value
    ):
        return first
    if isinstance(first, Ext) and isinstance(second, Ext) and first.name == second.name:
        return first
    options: list[Value] = []
    wanted = (first, second)[preferred] if preferred is not None else None
    if isinstance(wanted, Choice):
        wanted = wanted.options[wanted.preferred] if wanted.preferred is not None else None
    for value in (first, second):
        for option in value.options if isinstance(value, Choice) else (value,):
            if not any(option is other for other in options):
                options.append(option)
    if len(options) > MAX_OPTIONS:
        options = [o for o in options if o is wanted] + [o for o in options if o is not wanted]
        options = options[:MAX_OPTIONS]
    index = next((i for i, o in enumerate(options) if o is wanted), None) if wanted is not None else None
    return options[0] if len(options) == 1 else Choice(tuple(options), index, test)


def settle(value: Value) -> Value:
    """Return the value that the defaults lead to: see through choices with a preference and loop-carried names."""
    if not isinstance(value, (Choice, Phi)):
        return value
    for _ in range(20):
        if isinstance(value, Choice) and value.preferred is not None:
            value = value.options[value.preferred]
        elif isinstance(value, Phi):
            value = value.initial
        else:
            break
    return value


def options_of(value: Value | None, limit: int = 12) -> Iterator[Value]:
    """Yield all values that this one can be, the preferred one first."""
    if value is None or not limit:
        return
    if not isinstance(value, (Choice, Phi)):
        yield value
        return
    stack: list[Value] = [value]
    seen: set[int] = set()
    while stack and limit:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Choice):
            order = list(value.options)
            if value.preferred is not None:
                order.insert(0, order.pop(value.preferred))
            stack.extend(reversed(order))
        elif isinstance(value, Phi):
            if value.final is not None and value.final is not value:
                stack.append(value.final)
            stack.append(value.initial)
        else:
            limit -= 1
            yield value


def plain(value: Value | None, default: Any = None) -> Any:
    """Return the Python value of a settled value (containers included), or ``default`` where any part is unknown."""
    return weighed(value, default)[0]


def weighed(value: Value | None, default: Any = None) -> tuple[Any, int]:
    """Return what ``plain`` returns, and how many parts were looked at."""
    left = [MAX_PARTS]
    result = _plain(value, 0, left)
    return (default if result is _MISSING else result), MAX_PARTS - left[0]


_MISSING = object()
MAX_PARTS = 50_000
"""Parts of a container that are turned into plain values (64 characters of text are one more part): one list that is
held many times counts each time."""


def _plain(value: Value | None, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if value is None or depth > 12 or left[0] < 0:
        return _MISSING
    value = settle(value)
    if isinstance(value, Known):
        if isinstance(value.value, (str, bytes)):
            left[0] -= len(value.value) // 64
            return value.value if left[0] >= 0 else _MISSING
        return value.value
    if isinstance(value, Seq) and not value.open:
        items = []
        for item in value.items:
            found = _plain(item, depth + 1, left)
            if found is _MISSING:
                return _MISSING
            items.append(found)
        if value.kind == "tuple":
            return tuple(items)
        return items
    if isinstance(value, Dict) and not value.open:
        entries = {}
        for key, item in value.entries.items():
            found = _plain(item, depth + 1, left)
            if found is _MISSING:
                return _MISSING
            entries[key] = found
        return entries
    return _MISSING


def why_unknown(value: Value | None) -> str:
    """Say why a value is not known, in one phrase."""
    if value is None:
        return "not given"
    value = settle(value)
    if isinstance(value, Unknown):
        return value.reason
    if isinstance(value, Choice):
        return "depends on a branch that cannot be decided without running the script"
    if isinstance(value, Obj):
        return _why_made(value)
    return "not a plain value"


# What a number in a script usually waits for, by the call it comes from.
_CAUSES = {
    "torch.distributed.get_world_size": "depends on the world size: give --gpus or --launch",
    "torch.cuda.device_count": "depends on the number of GPUs: give --gpus or --launch",
    "builtins.open": "comes from a file that is read at run time",
    "pickle.load": "comes from a file that is read at run time",
    "torch.load": "comes from a file that is read at run time",
}


def _why_made(value: Obj) -> str:
    stack: list[Value] = [value]
    for _ in range(40):
        if not stack:
            break
        part = settle(stack.pop(0))
        if isinstance(part, Obj):
            if part.name in _CAUSES:
                return _CAUSES[part.name]
            stack += [v for v in (part.receiver, *part.args, *part.kwargs.values()) if v is not None]
        elif isinstance(part, Unknown):
            return part.reason
    what = (value.cls.qualname if value.cls is not None else value.name).lstrip(".")
    if not what:
        return "an item of something that is known only at run time"
    return f"result of {what}()" if value.kind == "call" else f"computed by {what}"
