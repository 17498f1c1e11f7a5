"""Loops of the script, cut short once another round would show nothing new.

The person's own modules are compiled with every ``for`` loop asking here for its next item; their lines stay the same.
A training loop ends after enough optimizer steps; a loop that only evaluates, after two rounds that did the same on the
GPU. Loops that build a graph, loops inside a module, and loops that call none are run to their end.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from preflight.dryrun.virtual.gpu import VirtualGpu

HOOK = "__preflight_rounds__"
LOADER = "DataLoader"
"""The name of a loop that PyTorch's loader makes for somebody else's."""
REACHED = "__preflight_reached__"
EDITS: dict[tuple[str, int, int], tuple[int, int, Callable[[], None]]] = {}
"""Numbers that a change replaces: file, line and column (from 1) to what stands there, what shall, and who is told."""
_FILES: list[str] = []
_LINES = 1_000_000
"""A block is known by one number: its file's place in ``_FILES`` times this, and its first line."""


class _Watched(ast.NodeTransformer):
    """Wraps what a loop goes over, and lets every block say that it was reached.

    ``for x in xs`` becomes ``for x in HOOK(xs, line)``; a block of statements begins with ``REACHED(number)``.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.path = os.path.realpath(_FILES[file])

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        edit = EDITS.get((self.path, node.lineno, node.col_offset + 1))
        if edit is None or node.value != edit[0] or isinstance(node.value, bool):
            return node
        edit[2]()
        return ast.copy_location(ast.Constant(edit[1]), node)

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        inner = node.iter
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in _UNSIZED:
            # enumerate() and zip() have no length; what they go over may have one.
            inner.args = [
                a if isinstance(a, ast.Starred) else _told(a, node.lineno) for a in inner.args[:8]
            ] + inner.args[8:]
        call = ast.Call(ast.Name(HOOK, ast.Load()), [node.iter, ast.Constant(node.lineno)], [])
        node.iter = ast.fix_missing_locations(ast.copy_location(call, node.iter))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.Interactive)):
            return node
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            # elif is an if alone in an else: it says so itself.
            if isinstance(block, list) and block and not (name == "orelse" and isinstance(block[0], ast.If)):
                self._mark(block)
        return node

    def _mark(self, block: list[ast.stmt]) -> None:
        first = block[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        number = ast.Constant(self.file * _LINES + first.lineno)
        mark = ast.Expr(ast.Call(ast.Name(REACHED, ast.Load()), [number], []))
        block.insert(1 if documented else 0, ast.fix_missing_locations(ast.copy_location(mark, first)))


_UNSIZED = ("enumerate", "zip")


def _told(argument: ast.expr, line: int) -> ast.expr:
    """Return the expression that tells the length of an argument, and is the argument."""
    sized = ast.Attribute(ast.Name(HOOK, ast.Load()), "sized", ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(sized, [argument, ast.Constant(line)], []), argument))


def compiled(source: bytes, filename: str) -> CodeType:
    """Compile a module with its loops and blocks watched."""
    _FILES.append(filename)
    tree = _Watched(len(_FILES) - 1).visit(ast.parse(source, filename))
    return compile(tree, filename, "exec", dont_inherit=True)


@dataclass(eq=False, slots=True)
class Loop:
    """A loop that runs: its name, its length, the rounds begun, and the optimizer steps done before it."""

    name: str
    size: int | None
    steps: int
    rounds: int = 0


def _length(items: Sized) -> int | None:
    try:
        return len(items)
    except TypeError:  # a loader over a stream of data has none
        return None


class Rounds:
    """Gives loops their items.

    Attributes:
        cut: The loops that were ended early: (file:line) to (rounds run, length or None).
        given: The batches that the person described, for a loop over something that is missing.
        growth: Is told of loops that are cut although they keep more and more.
    """

    def __init__(self, gpu: VirtualGpu) -> None:
        self.gpu = gpu
        self.cut: dict[str, tuple[int, int | None]] = {}
        self.blocks: set[int] = set()
        self.given: Any = None
        self.growth: Any = None
        self._running: list[Loop] = []
        self._told: dict[int, int] = {}

    def around(self) -> list[Loop]:
        """Return the loops that run now, the outermost first; loaders' own only where the script has none around them."""
        own = [loop for loop in self._running if loop.name != LOADER]
        return own or self._running[-1:]

    def reached(self) -> dict[str, list[int]]:
        """Return the first lines of the blocks that ran, by file; a block is what is indented alike below a statement."""
        found: dict[str, list[int]] = {name: [] for name in _FILES}
        for number in sorted(self.blocks):
            found[_FILES[number // _LINES]].append(number % _LINES)
        return found

    def __call__(self, items: Iterable[Any], line: int) -> Iterable[Any]:
        """Return the items of a loop of the script."""
        if self.gpu.progress.modules:
            return items
        if self.given is not None:
            items = self.given.instead_of(items)
        told = self._told.pop(line, None)
        size = _length(items) if isinstance(items, Sized) else told
        return self.follow(items, f"{sys._getframe(1).f_code.co_filename}:{line}", size)

    def sized(self, items: Any, line: int) -> Any:
        """Remember the length of what the loop at a line goes over, the shortest of several; give it back as it is."""
        size = _length(items) if isinstance(items, Sized) else None
        if size is not None:
            self._told[line] = min(size, self._told.get(line, size))
        return items

    def follow(self, items: Iterable[Any], name: str, size: int | None) -> Iterator[Any]:
        """Yield items until the loop may end.

        Args:
            items: What the loop goes over.
            name: How the loop is called when it is cut.
            size: Its length, where that is known.
        """
        loop = Loop(name, size, self.gpu.progress.step)
        self._running.append(loop)
        try:
            yield from self._until_enough(items, loop)
        finally:
            self._running.remove(loop)

    def _until_enough(self, items: Iterable[Any], loop: Loop) -> Iterator[Any]:
        progress, gpu = self.gpu.progress, self.gpu
        backwards, graphs = progress.backwards, progress.graph_calls
        last: tuple[int, int] | None = None
        made = [0, 0]
        for item in items:
            loop.rounds += 1
            operators, allocated, calls = gpu.operators, gpu.ledger.allocated, progress.calls
            made = [made[1], gpu.ledger.made]
            yield item
            done = (gpu.operators - operators, gpu.ledger.allocated - allocated)
            evaluates = progress.backwards == backwards
            if evaluates:
                enough = progress.calls > calls and progress.graph_calls == graphs and done == last
            else:
                enough = progress.step - loop.steps >= progress.limit
            if enough:
                if loop.size is None or loop.size > loop.rounds:
                    self.cut[loop.name] = (loop.rounds, loop.size)
                    if evaluates and done[1] > 0 and self.growth is not None:
                        self.growth.end_loop(loop, done[1], made[0])
                return
            last = done


class Finder(importlib.abc.MetaPathFinder):
    """Finds the person's own modules as usual, and has them compiled here."""

    def __init__(self, owns: Any) -> None:
        self.owns = owns

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module of the person's own, or None."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if spec.origin is None or not self.owns(spec.origin):
            return None
        spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code; it is never read from or written to a cache."""
        return compiled(self.get_data(self.path), self.path)
