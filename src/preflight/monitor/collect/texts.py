"""The program's own text, parsed at its end: its files as trees, who calls which function, and what stands where.

Nothing of the program is run for it, and nothing is kept of it.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from .places import asked, is_users

LONGEST = 1 << 18
"""Characters of text that are parsed, which takes about a third of a second."""
EARLY = 1 << 15
"""The same while the program runs: some hundredths of a second."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HIDING = frozenset(
    {"exec", "eval", "globals", "locals", "import_module", "__dict__", "__getattr__", "__getattribute__"}
)
"""Names behind which a call may be hidden that stands nowhere."""
_PLAIN = frozenset({"no_grad", "inference_mode", "staticmethod", "classmethod", "property", "enable_grad"})
"""Decorators by which a function is called no otherwise than by its name."""
_BUILDING = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DEEP = 8  # functions that call each other, one in the other
_SETTINGS = ("arg", "opt", "conf", "cfg", "flag", "param", "hparam", "setting")
"""What is in the names of objects whose fields are looked at together, and that hold settings."""


_MEASURING = frozenset(
    {
        *("grad", "perf_counter", "perf_counter_ns", "monotonic", "process_time", "time_ns", "Timer", "timeit"),
        *("elapsed_time", "profile", "memory_allocated", "max_memory_allocated", "synchronize"),
    }
)
"""Names by which a program reads gradients, clocks or the memory that is used."""


class Texts:
    """The files of a program.

    Attributes:
        trees: By path, what the file says.
        parents: By node, the node that it is a part of.
        hides: Whether calls may be made of which no line tells.
    """

    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.trees = trees
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        for tree in trees.values():
            for node in ast.walk(tree):
                self.nodes.append(node)
                for child in ast.iter_child_nodes(node):
                    self.parents[child] = node
        self.functions: dict[str, list[Any]] = {}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        for node in self.nodes:
            if isinstance(node, FUNCTIONS):
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, []).append(node)
        self.hides = any(map(_hides, self.nodes))
        self.loads: dict[str, list[ast.AST]] = {}  # by word, where it is read
        for node in self.nodes:
            if isinstance(getattr(node, "ctx", None), ast.Load) and word(node):
                self.loads.setdefault(word(node), []).append(node)
        self._dead = frozenset() if self.hides else self._uncalled()

    @classmethod
    def of(cls, paths: list[str], longest: int = LONGEST) -> Texts | None:
        """Parse some files; None where they have too much text, or one is none that can be read."""
        left, trees = longest, dict[str, ast.Module]()
        for path in paths:
            try:
                with open(path, encoding="utf-8") as stream:
                    text = stream.read(left + 1)
                left -= len(text)
                if left < 0:
                    return None
                trees[path] = ast.parse(text)
            except (OSError, SyntaxError, ValueError, RecursionError):
                return None
        return cls(trees)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that one is a part of, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function(self, node: ast.AST) -> ast.AST | None:
        """The function that a node stands in, or None."""
        return next((one for one in self.above(node) if isinstance(one, (*FUNCTIONS, ast.Lambda))), None)

    def is_dead(self, node: ast.AST) -> bool:
        """Whether a node stands in a function that nobody calls."""
        return bool(self._dead) and any(one in self._dead for one in (node, *self.above(node)))

    def runs_once(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a program comes to a part of it once at most: nothing that is repeated, or called twice, is around it."""
        for one in self.above(node):
            if isinstance(one, (ast.For, ast.AsyncFor, ast.While, ast.Lambda, ast.comprehension, *_BUILDING)):
                return False
            if isinstance(one, FUNCTIONS):
                uses = [load for load in self._of(one) if not self.is_dead(load)]
                plain = not one.decorator_list and not isinstance(self.parents[one], ast.ClassDef) and len(uses) == 1
                called = plain and isinstance(call := self.parents[uses[0]], ast.Call) and call.func is uses[0]
                return called and depth < _DEEP and self.runs_once(uses[0], depth + 1)
        return True

    def dead_lines(self) -> set[tuple[str, int]]:
        """The lines of functions that nobody calls, each with its file."""
        dead = [(path, one) for path, tree in self.trees.items() for one in ast.walk(tree) if one in self._dead]
        return {(path, line) for path, one in dead for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}  # type: ignore[attr-defined]

    def sets(self, key: str) -> bool:
        """Whether something is stored under a key in quotes, changed in its place, or brought in by ``update``."""
        return any(map(partial(self._sets, key), self.nodes))

    def _sets(self, key: str, node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript) and _is(key, node.slice):
            above = self.parents[node]
            return isinstance(node.ctx, ast.Store) or (isinstance(above, ast.Attribute) and above.attr.endswith("_"))
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
            return _has(key, node.value)
        if not isinstance(node, ast.Call) or word(node.func) != "update":
            return False
        return any(one.arg in (key, None) for one in node.keywords) or any(_has(key, one) for one in node.args)

    def measures(self) -> bool:
        """Whether gradients are read, hooks set, or times or memory measured: passes may be made for these alone."""
        timed = any(
            isinstance(call := self.parents[one], ast.Call) and call.func is one for one in self.loads.get("time", [])
        )
        return timed or any(name in _MEASURING or "hook" in name or name.startswith("grad_") for name in self.loads)

    def has_more(self) -> bool:
        """Whether a file names a module beside it that is none of these: it may be taken in later on."""
        known = {os.path.abspath(path) for path in self.trees}
        for path, tree in self.trees.items():
            folder = os.path.dirname(os.path.abspath(path))
            for name, level in _modules(tree):
                start = folder
                for _ in range(level - 1):
                    start = os.path.dirname(start)
                whole = os.path.join(start, *name.split("."))
                if any(one not in known and os.path.isfile(one) for one in (f"{whole}.py", f"{whole}/__init__.py")):
                    return True
        return False

    def renamed(self, name: str) -> list[str]:
        """Other names under which a file takes in what has a name elsewhere."""
        return [
            node.asname
            for node in self.nodes
            if isinstance(node, ast.alias) and node.name.rpartition(".")[2] == name and node.asname
        ]

    def is_asked(self, name: str) -> bool:
        """Whether something is asked for by a name that stands in quotes."""
        asking = ("getattr", "setattr", "attrgetter", "methodcaller")
        return any(
            isinstance(node, ast.Call)
            and word(node.func) in asking
            and any(isinstance(one, ast.Constant) and one.value == name for one in node.args)
            for node in self.nodes
        )

    def _uncalled(self) -> frozenset[ast.AST]:
        """The functions of which nobody speaks but such that nobody calls either."""
        waiting = [one for ones in self.functions.values() for one in ones if self._by_name_alone(one)]
        said = {
            node.value
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
        }
        dead = {one for one in waiting if one.name not in said}
        while True:
            called = {one for one in dead if any(not self._within(load, dead) for load in self._of(one))}
            if not called:
                return frozenset(dead)
            dead -= called

    def _of(self, function: Any) -> list[ast.AST]:
        """Where a function is spoken of; one that another file takes in under another name, in that file, too."""
        names = [function.name, *self.renamed(function.name)]
        return [load for name in names for load in self.loads.get(name, [])]

    def _within(self, node: ast.AST, functions: set[Any]) -> bool:
        return any(one in functions for one in self.above(node))

    def _by_name_alone(self, function: Any) -> bool:
        """Whether a function can be called by its name alone: no library calls it, and no decorator took it."""
        if function.name.startswith("__") or any(_called(one) not in _PLAIN for one in function.decorator_list):
            return False
        above = self.parents[function]
        if isinstance(above, ast.ClassDef):
            return not above.decorator_list and self.is_own(above)
        return True

    def is_own(self, kind: ast.ClassDef, but: Collection[str] = ("object",), most: int = _DEEP) -> bool:
        """Whether a class is the program's own as far as it goes.

        Args:
            kind: The class.
            but: Names of bases that may be others'.
            most: How many classes may be made from one another above it.
        """
        bases = [base for base in map(word, kind.bases) if base not in but]
        if kind.keywords or (bases and not most):
            return False
        made = [self.classes.get(base, []) for base in bases]
        return all(made) and all(self.is_own(one, but, most - 1) for ones in made for one in ones)


def _modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The modules that a file names, each with how many folders up it lies, counted from one; 0 where that is not told."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name, 0) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.module, node.level
            yield from ((f"{node.module}.{one.name}" if node.module else one.name, node.level) for one in node.names)


def files() -> list[str]:
    """The person's own files that are loaded, or that something was called from."""
    # Some of torch's modules say that they lie in a file that is none.
    loaded = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] != "torch"]
    named = (getattr(module, "__dict__", {}).get("__file__") for module in loaded)
    paths = {path for path in named if isinstance(path, str) and path.endswith(".py")}
    return sorted(path for path in {*paths, *asked()} if is_users(path))


def short(path: str, line: int) -> str:
    """A place by the name of its file."""
    return f"{os.path.basename(path)}:{line}"


def word(node: Any) -> str:
    """The last word of a name or of an attribute; nothing of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is(key: str, node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _has(key: str, node: ast.expr) -> bool:
    """Whether a mapping that is written out has a key."""
    return isinstance(node, ast.Dict) and any(_is(key, one) for one in node.keys)


def _called(node: ast.expr) -> str:
    return word(node.func if isinstance(node, ast.Call) else node)


def _hides(node: ast.AST) -> bool:
    """Whether a node may call what no line names."""
    if word(node) in _HIDING:
        return not (word(node) == "__dict__" and _is_settings(node.value))  # type: ignore[attr-defined]
    if not isinstance(node, ast.Call):
        return False
    name = word(node.func)
    if name in ("getattr", "setattr", "methodcaller"):
        given = node.args[1:2] if name != "methodcaller" else node.args[:1]
        return not (given and isinstance(given[0], ast.Constant))
    return name == "vars" and not (node.args and _is_settings(node.args[0]))


def _is_settings(node: ast.expr) -> bool:
    return any(hint in word(node).lower() for hint in _SETTINGS)
