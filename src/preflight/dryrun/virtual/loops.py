"""Loops of the script, cut short once another round would show nothing new.

The person's own modules are compiled with every loop asking here for its next round; their lines stay the same.
A training loop ends after enough optimizer steps; a loop that only evaluates, after two rounds that did the same on the
GPU; a loop that only accumulates gradients, and has done so before, goes on with its last round after three that did the
same. Loops that build a graph, loops inside a module, loops that call none, and those of generators run to their end; so
do loops that play in an environment, with a model in training mode, as they may begin to train later.
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

import torch

from preflight.dryrun.virtual.engine.gpu import VirtualGpu

HOOK = "__preflight_rounds__"
LOADER = "DataLoader"
"""The name of a loop that PyTorch's loader makes for somebody else's."""
REACHED = "__preflight_reached__"
EDITS: dict[tuple[str, int, int], tuple[int, int, Callable[[], None]]] = {}
"""Numbers that a change replaces: file, line and column (from 1) to what stands there, what shall, and who is told."""
_PHASES = 4
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
        if _leaves(node.body, ast.Yield, ast.YieldFrom):
            return node  # whoever takes the items has a loop of its own
        inner = node.iter
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in _UNSIZED:
            # enumerate() and zip() have no length; what they go over may have one.
            inner.args = [
                a if isinstance(a, ast.Starred) else _told(a, node.lineno) for a in inner.args[:8]
            ] + inner.args[8:]
        call = ast.Call(ast.Name(HOOK, ast.Load()), [node.iter, ast.Constant(node.lineno)], [])
        node.iter = ast.fix_missing_locations(ast.copy_location(call, node.iter))
        return node

    def visit_While(self, node: ast.While) -> Any:
        """Make ``loop = HOOK.begin(line)``, ``while test and loop.more()``, and a ``finally`` with ``loop.end()``."""
        self.generic_visit(node)
        endless = isinstance(node.test, ast.Constant) and not _leaves(node.body, ast.Break)
        if endless or _leaves(node.body, ast.Yield, ast.YieldFrom):
            return node
        name = f"__preflight_loop_{node.lineno}"

        def call(owner: str, method: str, *args: ast.expr) -> ast.Call:
            return ast.Call(ast.Attribute(ast.Name(owner, ast.Load()), method, ast.Load()), list(args), [])

        begin = ast.Assign([ast.Name(name, ast.Store())], call(HOOK, "begin", ast.Constant(node.lineno)))
        node.test = ast.BoolOp(ast.And(), [node.test, call(name, "more")])
        guarded = ast.Try([node], [], [], [ast.Expr(call(name, "end"))])
        return [ast.fix_missing_locations(ast.copy_location(new, node)) for new in (begin, guarded)]

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
_OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def _leaves(body: list[ast.stmt], *kinds: type[ast.AST]) -> bool:
    """Whether a loop's body, without functions and loops inside it, has one of some statements or expressions."""
    found: list[ast.AST] = list(body)
    while found:
        node = found.pop()
        if isinstance(node, kinds):
            return True
        inner = isinstance(node, (ast.For, ast.While, ast.AsyncFor)) and ast.Break in kinds
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            found += node.orelse if inner else ast.iter_child_nodes(node)  # type: ignore[attr-defined]
    return False


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
    """A loop that runs: its name, its length, the rounds begun, and the steps and observations made before it.

    A loop over a few words is one over phases, ``("train", "val")``: each of them is another program.
    """

    name: str
    size: int | None
    steps: int
    rounds: int = 0
    begun: int = 0
    words: bool = False


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
        modes: Is told of training loops that are cut.
    """

    def __init__(self, gpu: VirtualGpu) -> None:
        self.gpu = gpu
        self.cut: dict[str, tuple[int, int | None]] = {}
        self.blocks: set[int] = set()
        self.given: Any = None
        self.growth: Any = None
        self.modes: Any = None
        self.accumulating: set[str] = set()  # loops that ran to their end with gradients and without a step
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
        self.enter(loop)
        try:
            yield from self._until_enough(items, loop)
        finally:
            self.leave(loop)

    def enter(self, loop: Loop) -> None:
        """A loop begins."""
        loop.begun = self.modes.seen.serial if self.modes is not None else 0
        self._running.append(loop)

    def leave(self, loop: Loop) -> None:
        """A loop has ended."""
        self._running.remove(loop)

    def _until_enough(self, items: Iterable[Any], loop: Loop) -> Iterator[Any]:
        judge = Judge(self, loop)
        for item in items:
            judge.begin_round()
            loop.words = isinstance(item, str) and loop.size is not None and loop.size <= _PHASES
            yield item
            if judge.enough():
                if loop.name == LOADER and self._taken_by_the_script():
                    continue
                return
            if isinstance(items, range) and judge.accumulates() and len(items) > loop.rounds + 1:
                judge.skip(len(items) - loop.rounds - 1)
                yield items[-1]
                return
        judge.end()

    def _taken_by_the_script(self) -> bool:
        """Whether a loader's items are taken by ``next()`` in the script, where it must not end; or by a loop of ours."""
        frame = sys._getframe(2).f_back
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            if frame.f_code is Rounds._until_enough.__code__:
                return True
            frame = frame.f_back
        return frame is not None and self.gpu.progress.owns(frame.f_code.co_filename)

    def begin(self, line: int) -> While:
        """Begin a ``while`` loop of the script."""
        name = f"{sys._getframe(1).f_code.co_filename}:{line}"
        return While(self, None if self.gpu.progress.modules else Loop(name, None, self.gpu.progress.step))


class Judge:
    """Says of a loop when another round would show nothing new.

    Args:
        rounds: Where loops are noted.
        loop: The loop.
    """

    def __init__(self, rounds: Rounds, loop: Loop) -> None:
        self.rounds, self.loop, self.gpu = rounds, loop, rounds.gpu
        progress = self.gpu.progress
        self.backwards, self.graphs, self.training = progress.backwards, progress.graph_calls, progress.training_calls
        self.recorded = torch.is_grad_enabled()
        self.last: tuple[int, int] | None = None
        self.alike = 0
        self.made = [0, 0]

    def begin_round(self) -> None:
        """A round begins."""
        gpu, progress = self.gpu, self.gpu.progress
        self.loop.rounds += 1
        self.before = (gpu.operators, gpu.ledger.allocated, progress.calls, progress.backwards, len(gpu.work.order))
        self.made = [self.made[1], gpu.ledger.made]

    def enough(self) -> bool:
        """Whether the loop may end after the round that has just been; it is then noted as cut."""
        gpu, progress, loop = self.gpu, self.gpu.progress, self.loop
        operators, allocated, calls, self.passes, _ = self.before
        done = (gpu.operators - operators, gpu.ledger.allocated - allocated)
        evaluates = progress.backwards == self.backwards
        if evaluates:
            quiet = not self.recorded or progress.training_calls == self.training
            called = progress.calls > calls and progress.graph_calls == self.graphs
            enough = quiet and called and done == self.last
        else:
            enough = progress.step - loop.steps >= progress.limit and not loop.words
        self.alike = self.alike + 1 if done == self.last else 0
        self.last = done
        if enough and (loop.size is None or loop.size > loop.rounds):
            self.rounds.cut[loop.name] = (loop.rounds, loop.size)
            if not evaluates and self.rounds.modes is not None:
                self.rounds.modes.loop_ended(loop.begun)
            if evaluates and done[1] > 0 and self.rounds.growth is not None:
                self.rounds.growth.end_loop(loop, done[1], self.made[0])
        return enough

    def accumulates(self) -> bool:
        """Whether the rounds only add to the gradients, all alike, as in a whole run of this loop before."""
        progress = self.gpu.progress
        plain = progress.step == self.loop.steps and progress.backwards > self.passes
        level = self.alike >= 2 and self.last is not None and self.last[1] == 0
        return plain and level and self.loop.name in self.rounds.accumulating

    def skip(self, count: int) -> None:
        """Leave rounds out; their work is that of the last one."""
        self.rounds.cut[self.loop.name] = (self.loop.rounds + 1, self.loop.size)
        self.gpu.work.again(self.before[4], count)

    def end(self) -> None:
        """The loop has come to its end by itself."""
        progress = self.gpu.progress
        if progress.backwards > self.backwards and progress.step == self.loop.steps:
            self.rounds.accumulating.add(self.loop.name)
        else:
            self.rounds.accumulating.discard(self.loop.name)


class While:
    """A ``while`` loop that runs.

    Args:
        rounds: Where loops are noted.
        loop: The loop; None inside a module, where loops run to their end.
    """

    def __init__(self, rounds: Rounds, loop: Loop | None) -> None:
        self.rounds, self.loop = rounds, loop
        self.judge = None if loop is None else Judge(rounds, loop)
        if loop is not None:
            rounds.enter(loop)

    def more(self) -> bool:
        """Whether there is to be another round."""
        if self.judge is None or self.loop is None:
            return True
        if self.loop.rounds and self.judge.enough():
            return False
        self.judge.begin_round()
        return True

    def end(self) -> None:
        """The loop has ended, in whatever way."""
        if self.loop is not None:
            self.rounds.leave(self.loop)


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
