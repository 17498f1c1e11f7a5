"""Loops of a probe: as in a dry run, and stretches of many backward passes before one step are short."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from preflight.dryrun.virtual import loops

ENOUGH = 2
"""Backward passes before one step that show what more would."""


class Rounds(loops.Rounds):
    """Gives loops their items.

    Attributes:
        told: What was made shorter, for the report.
    """

    def __init__(self, gpu: Any) -> None:
        super().__init__(gpu)
        self.told: dict[str, None] = {}
        self._steps: dict[str, set[int]] = {}

    def __call__(self, items: Iterable[Any], line: int) -> Iterable[Any]:
        """Return the items of a loop of the script."""
        file = sys._getframe(1).f_code.co_filename
        if not isinstance(items, range) or len(items) <= ENOUGH or self.gpu.progress.modules:
            return super().__call__(items, line)
        if line in self._with_steps(file):
            return super().__call__(items, line)
        return self._few(items, len(items))

    def _few(self, items: Iterable[Any], size: int) -> Iterator[Any]:
        """Yield items until there were backward passes enough, with no step among them."""
        progress = self.gpu.progress
        before = progress.backwards
        for item in items:
            yield item
            if progress.backwards - before >= ENOUGH:
                self.told.setdefault(f"{size} backward passes before a step cut to {ENOUGH}")
                return

    def _with_steps(self, file: str) -> set[int]:
        """Return the lines of a file's loops that take an optimizer step, or call what may take one."""
        if file not in self._steps:
            try:
                with open(file, "rb") as source:
                    tree = ast.parse(source.read())
            except (OSError, SyntaxError, ValueError):
                return set(range(1 << 16))
            self._steps[file] = {
                node.lineno for node in ast.walk(tree) if isinstance(node, ast.For) and not _only_accumulates(node)
            }
        return self._steps[file]


def _only_accumulates(loop: ast.For) -> bool:
    """Whether a loop calls backward() itself, and nothing with ``step`` in its name."""
    names = [n.func.attr for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return "backward" in names and not any("step" in name for name in names)
