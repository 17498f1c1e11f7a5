"""Where an object may be used that was made at a line of the program, as far as its text tells.

Followed are the names that may hold it: variables, attributes, parameters of the program's own functions, and what these
return. Names are taken for one and the same wherever they stand, so that too many are followed and none is lost.
Where it is handed to anything that the program's text does not show, nobody can say what happens to it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

from .texts import FUNCTIONS, Texts, word

_STILL = frozenset(
    {"print", "len", "isinstance", "type", "id", "repr", "str", "bool", "hasattr", "callable", "save", "dump"}
)
"""Functions that use nothing of what they are given."""
_THROUGH = frozenset(
    {"zip", "enumerate", "list", "tuple", "dict", "set", "reversed", "iter", "next", "sorted", "filter", "cycle"}
)
"""Functions that hand on what they are given."""
_KEEPING = frozenset({"append", "extend", "add", "insert", "update", "setdefault", "put", "appendleft"})
"""Methods by which something is put into what holds it from then on."""
_READ = frozenset(
    {
        *("state_dict", "load_state_dict", "get_last_lr", "last_epoch", "base_lrs", "optimizer", "param_groups"),
        *("zero_grad", "state", "defaults", "verbose", "__class__", "unscale_"),
    }
)
"""What is read or called of an optimizer or of a schedule without bringing it on."""
_PASSING = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.Await, ast.BoolOp, ast.BinOp, ast.IfExp)
_BUILDING = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_ENDING = (ast.Compare, ast.UnaryOp, ast.FormattedValue, ast.Expr, ast.If, ast.While, ast.Assert, ast.Raise)


_DEEP = 7  # classes that are made from one another, above one
_HOLDING = ("object", "Module")
"""Bases that do not look at what a class keeps."""


class _Doubt(Exception):
    """The text does not tell."""


class _Used(Exception):
    """A line may use it."""


def unused(texts: Texts, path: str, line: int, kind: str, method: str = "step") -> bool:
    """Whether no line of a program can call a method of an object that is made at a line, or hand that method on.

    Args:
        texts: The program's files.
        path: The file in which it is made.
        line: The line from which it is made.
        kind: The name of its class.
        method: The name of the method.

    Returns:
        True where that is sure; False where a line may, and where the text does not tell.
    """
    if texts.hides or path not in texts.trees:
        return False
    made = [one for one in ast.walk(texts.trees[path]) if _makes(one, line, kind)]
    if len(made) != 1:
        return False
    try:
        _Carrying(texts, method, _is_schedule(kind)).follow(made[0])
    except (_Doubt, _Used):
        return False
    return True


def _makes(node: ast.AST, line: int, kind: str) -> bool:
    if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or node.lineno):
        return False
    name = word(node.func)
    return name == kind or (_is_schedule(kind) and name.startswith("get_") and "schedule" in name)


class _Carrying:
    """Follows one object.

    A place in a tuple is kept while it goes on: ``model, optimizer = build()`` gives each name one of the two.
    """

    def __init__(self, texts: Texts, method: str, scheduling: bool) -> None:
        self.texts = texts
        self.method = method
        self.scheduling = scheduling
        self.words: dict[str, int | None] = {}  # and the place in a tuple, of what functions return
        self._waiting: list[str] = []
        self._seen: set[tuple[ast.AST, int | None]] = set()

    def follow(self, made: ast.AST) -> None:
        """Follow it from where it is made.

        Raises:
            _Doubt: It goes where the text does not tell what becomes of it.
            _Used: A line may call the method.
        """
        self._carry(made)
        if not self.words:
            raise _Doubt
        while self._waiting:
            name = self._waiting.pop()
            for load in self.texts.loads.get(name, []):
                self._carry(load, self.words[name])

    def _join(self, name: str, slot: int | None = None) -> None:
        if name in ("", "self", "cls"):
            raise _Doubt
        if name in self.words and self.words[name] in (slot, None):
            return
        self.words[name] = None if name in self.words else slot
        self._waiting.append(name)
        for other in self.texts.renamed(name):
            self._join(other, slot)
        if self.texts.is_asked(name):
            raise _Doubt

    def _carry(self, node: Any, slot: int | None = None) -> None:
        """An expression may be the object, or a tuple that has it at a place: find out where that goes."""
        if (node, slot) in self._seen or self.texts.is_dead(node):
            return
        self._seen.add((node, slot))
        above: Any = self.texts.parents[node]
        if isinstance(above, ast.Attribute):
            self._attribute(above)
        elif isinstance(above, ast.Subscript):
            self._carry(above) if node is above.value else None
        elif isinstance(above, ast.keyword):
            self._given(above, self.texts.parents[above])
        elif isinstance(above, ast.Call):
            self._carry(above, slot) if node is above.func else self._given(node, above)
        elif isinstance(above, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            for target in above.targets if isinstance(above, ast.Assign) else [above.target]:
                self._store(target, slot)
            if isinstance(above, ast.NamedExpr):
                self._carry(above, slot)
        elif isinstance(above, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._store(above.target) if node is above.iter else None
        elif isinstance(above, ast.withitem) and above.optional_vars is not None:
            self._store(above.optional_vars)
        elif isinstance(above, ast.Return):
            self._returned(above, slot)
        elif isinstance(above, ast.Tuple) and slot is None and not any(isinstance(o, ast.Starred) for o in above.elts):
            self._carry(above, above.elts.index(node))
        elif isinstance(above, (*_PASSING, *_BUILDING)):
            self._carry(above)
        elif not isinstance(above, _ENDING):
            raise _Doubt

    def _attribute(self, node: ast.Attribute) -> None:
        if node.attr == self.method:
            raise _Used
        if node.attr not in _READ:
            self._carry(node)

    def _store(self, target: Any, slot: int | None = None) -> None:
        """It is kept under a name."""
        if isinstance(target, (ast.Tuple, ast.List)):
            exact = slot is not None and not any(isinstance(one, ast.Starred) for one in target.elts)
            for one in target.elts[slot : slot + 1] if exact and slot is not None else target.elts:
                self._store(one)
        elif isinstance(target, ast.Starred):
            self._store(target.value)
        elif isinstance(target, ast.Subscript):
            self._join(_base(target.value))
        elif isinstance(target, ast.Attribute):
            if word(target.value) != "self" or not self._plain_class(target):
                raise _Doubt
            self._join(target.attr)
        else:
            self._join(word(target))

    def _plain_class(self, node: ast.AST) -> bool:
        """Whether what a class keeps is its own: no library's class that it is made from looks at it."""
        kind = next((one for one in self.texts.above(node) if isinstance(one, ast.ClassDef)), None)
        return kind is not None and self.texts.is_own(kind, _HOLDING, _DEEP)

    def _given(self, node: Any, call: Any) -> None:
        """It is given to a call."""
        if not isinstance(call, ast.Call):
            raise _Doubt  # an argument of a class
        name = word(call.func)
        if name == self.method:
            raise _Used
        if name in _STILL or name in _READ:
            return
        if name in _KEEPING and isinstance(call.func, ast.Attribute):
            self._join(_base(call.func.value))
        elif name in _THROUGH:
            self._carry(call)
        elif name in self.texts.functions or name in self.texts.classes:
            for own in self._called(name):
                for one in _parameters(own, node, call):
                    self._join(one)
        elif not _is_schedule(name):
            raise _Doubt
        elif self.scheduling:
            self._carry(call)  # one may be made of others, and bring them on

    def _called(self, name: str) -> list[Any]:
        """The program's own functions that a call of a name may run."""
        found = list(self.texts.functions.get(name, []))
        for kind in self.texts.classes.get(name, []):
            makers = [one for one in kind.body if isinstance(one, FUNCTIONS) and one.name == "__init__"]
            found += makers or _doubt()
        if any(word(mark) not in ("staticmethod", "classmethod") for one in found for mark in one.decorator_list):
            raise _Doubt
        return found

    def _returned(self, node: ast.Return, slot: int | None) -> None:
        """A function returns it: whoever calls that has it."""
        function: Any = self.texts.function(node)
        if function is None or function.decorator_list or not self.texts.loads.get(function.name):
            raise _Doubt  # a library called it
        if isinstance(self.texts.parents[function], ast.ClassDef) and not self._plain_class(function):
            raise _Doubt
        self._join(function.name, slot)


def _is_schedule(name: str) -> bool:
    """Whether a name is one of a class or a function that makes schedules."""
    return "LR" in name or "schedul" in name.lower()


def _base(node: Any) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return word(node)


def _parameters(function: Any, node: Any, call: ast.Call) -> Collection[str]:
    """The names under which a function has what stands at a place of a call."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    every = [*names, *(one.arg for one in given.kwonlyargs)]
    rest = [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    if isinstance(node, ast.keyword):
        return [node.arg] if node.arg is not None and node.arg in every else rest or _doubt()
    before = call.args[: call.args.index(node) + 1]
    if any(isinstance(one, ast.Starred) for one in before):
        return [*every, *rest] or _doubt()
    return names[len(before) - 1 : len(before)] or rest or _doubt()


def _doubt() -> list[Any]:
    raise _Doubt
