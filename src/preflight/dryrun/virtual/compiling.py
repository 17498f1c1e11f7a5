"""The person's own modules, compiled with every loop asking for its next round and every block saying that it was reached.

Lines stay the same. Numbers can be replaced on the way, as if they had been edited in the file.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

HOOK = "__preflight_rounds__"
REACHED = "__preflight_reached__"
EDITS: dict[tuple[str, int, int], tuple[int, int, Callable[[], None]]] = {}
"""Numbers that a change replaces: file, line and column (from 1) to what stands there, what shall, and who is told."""
FILES: list[str] = []
SAMPLERS = ("transformers.generation.", "diffusers.pipelines.")
"""Modules of libraries that sample token by token or step by step, as a script's own loops may do."""
UNMARKED: set[str] = set()
"""Those of the files whose blocks do not say that they were reached."""
LINES = 1_000_000
"""A block is known by one number: its file's place in ``FILES`` times this, and its first line."""


class _Watched(ast.NodeTransformer):
    """Wraps what a loop goes over, and lets every block say that it was reached.

    ``for x in xs`` becomes ``for x in HOOK(xs, line)``; a block of statements begins with ``REACHED(number)``.
    """

    def __init__(self, file: int, marks: bool = True) -> None:
        self.file, self.marks = file, marks
        self.path = os.path.realpath(FILES[file])

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
        if not self.marks or isinstance(node, (ast.Module, ast.ClassDef, ast.Interactive)):
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
        number = ast.Constant(self.file * LINES + first.lineno)
        mark = ast.Expr(ast.Call(ast.Name(REACHED, ast.Load()), [number], []))
        block.insert(1 if documented else 0, ast.fix_missing_locations(ast.copy_location(mark, first)))


_UNSIZED = ("enumerate", "zip")


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


def compiled(source: bytes, filename: str, marks: bool = True) -> CodeType:
    """Compile a module with its loops watched, and its blocks where they are to say that they were reached."""
    FILES.append(filename)
    if not marks:
        UNMARKED.add(filename)
    tree = _Watched(len(FILES) - 1, marks).visit(ast.parse(source, filename))
    return compile(tree, filename, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the person's own modules, and libraries' samplers, as usual, and has them compiled here."""

    def __init__(self, owns: Any) -> None:
        self.owns = owns

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module of the person's own, or None."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        samples = fullname.startswith(SAMPLERS)
        if spec.origin is None or not (samples or self.owns(spec.origin)):
            return None
        spec.loader = _Loader(fullname, spec.origin)
        spec.loader.marks = not samples
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    marks = True

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code; it is never read from or written to a cache."""
        return compiled(self.get_data(self.path), self.path, self.marks)
