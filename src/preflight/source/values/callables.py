"""Values that can be called: functions, classes, methods, and functions with arguments given ahead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.values.kinds import Ext, Module, Obj, Site, Value

if TYPE_CHECKING:
    pass


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
