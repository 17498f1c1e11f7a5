"""What the program's own text has no way to do: to bring a copy on, to step what was made, to pass a loss back.

Nothing of the program is run for it: its files are parsed, where something was seen that asks for it, once after some
iterations, where there is little text, and at the end.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from .carrying import unused
from .discarded import goes_nowhere_else
from .places import from_program
from .recorder import Recorder
from .texts import EARLY, FUNCTIONS, LONGEST, Texts, files, short, word

NAME = "ways"
NEVER = "never"
Made = Callable[[], Mapping[str, list[tuple[str, str]]]]
"""Gives the classes of objects that were made and their places, by a name."""
_WRITES = frozenset(
    {
        *("load_state_dict", "copy_", "lerp", "lerp_", "mul_", "add_", "sub_", "div_", "addcmul_", "addcdiv_", "set_"),
        *("data", "swap_tensors", "vector_to_parameters", "update_parameters", "AveragedModel", "_parameters"),
        *("setattr", "__dict__", "exec", "import_module"),
    }
)
"""Names by which weights are written to, and such that may hide code that does."""
_HINTS = ("ema", "polyak", "average", "momentum", "soft", "hard", "sync", "update", "swap", "follow")
"""What is in the names of functions that bring a copy on, of the program or of a library."""
_COPIES = frozenset({"deepcopy", "copy", "clone"})
_PARAMETERS = frozenset({"parameters", "named_parameters", "state_dict", "buffers", "named_buffers"})
_MADE = ("__init__", "setup", "build", "make", "create")
"""How functions are called that make a network once."""


_EARLY = 64
"""Iterations after which what has not happened is looked for in the text."""


class Untaken:
    """Tells at the end of a program what no line of its text could do."""

    def __init__(
        self, recorder: Recorder, roots: Mapping[str, Any], made: Made, lost: Callable[[], Collection[str]]
    ) -> None:
        """Take what may be asked of the text.

        Args:
            recorder: The recorder.
            roots: The networks that were called, by their names.
            made: Gives the schedules and optimizers that were made and never stepped.
            lost: Gives the places of losses that no backward pass came to.
        """
        self.recorder = recorder
        self.roots = roots
        self.made = made
        self.lost = lost
        self._early = False

    def boundary(self) -> None:
        """An iteration ends: of a run that goes on what no line can do is told now."""
        if not self._early and self.recorder.iteration >= _EARLY:
            self._early = True
            self._read(False, EARLY)

    def end(self) -> None:
        """Tell it, unless the program has too much text, or none that can be read."""
        self._read(len(self.roots) > 1 and self.recorder.wants(NAME), LONGEST)

    def _read(self, copies: bool, longest: int) -> None:
        made, lost = (self.made(), self.lost()) if self.recorder.wants(NEVER) else ({}, ())
        if not (copies or made or lost):
            return
        paths = files()
        texts = Texts.of(paths, longest)
        if texts is None:
            return
        if copies:
            self._tell(NAME, {"files": list(map(os.path.basename, paths)), "places": _ways_of(texts)})
        if (made or lost) and not texts.has_more():
            if texts.sets("lr"):  # the program brings the rate on by itself
                made = {name: held for name, held in made.items() if not name.startswith("scheduler ")}
            stepless = [
                name for name, held in made.items() if all(unused(texts, *_split(place), kind) for kind, place in held)
            ]
            backless = [place for place in lost if goes_nowhere_else(texts, *_split(place))]
            if stepless or backless:
                backward = sorted(map(from_program, backless))
                self._tell(NEVER, {"step": sorted(stepless), "backward": backward, "measures": texts.measures()})

    def _tell(self, name: str, seen: dict[str, Any]) -> None:
        self.recorder.leave(self.recorder.enter(name, "", seen, placed=False))


def _split(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line or 0)


def _ways_of(texts: Texts) -> list[str]:
    """The places of a program at which weights may be written to, but for functions that nobody calls."""
    dead = texts.dead_lines()
    return [
        short(path, line)
        for path, tree in texts.trees.items()
        for line in sorted(set(_ways(tree, "", False, frozenset(), texts)))
        if (path, line) not in dead
    ]


def ways(text: str) -> list[int]:
    """The lines of a text at which weights may be written to, or a copy be made that takes the place of another one.

    Raises:
        SyntaxError: The text is no Python.
    """
    tree = ast.parse(text)
    return sorted(set(_ways(tree, "", False, frozenset(), Texts({"": tree}))))


def _ways(node: ast.AST, function: str, again: bool, weights: frozenset[str], texts: Texts) -> Iterator[int]:
    """Go through a part of a text.

    Args:
        node: The part.
        function: The name of the function that it stands in.
        again: Whether it stands in a loop.
        weights: Names that loops over weights give to them.
        texts: The whole.
    """
    if isinstance(node, (ast.For, ast.AsyncFor)) and any(word(one) in _PARAMETERS for one in ast.walk(node.iter)):
        weights |= {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    if _writes(node, weights, texts) or (_copies(node) and (again or not _once(node, function))):
        yield node.lineno  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            yield from _ways(child, child.name, False, weights, texts)
        else:
            loops = again or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
            yield from _ways(child, function, loops, weights, texts)


def _writes(node: ast.AST, weights: frozenset[str], texts: Texts) -> bool:
    """Whether a name or a statement may write to weights."""
    if isinstance(node, ast.AugAssign):  # ``weight *= 0.99``
        return word(node.target) in weights
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in ("weight", "bias"):
        return True
    hinted = isinstance(node, ast.Call) and any(hint in word(node.func).lower() for hint in _HINTS)
    return (hinted and not _is_seen(node, texts)) or word(node) in _WRITES or word(node).startswith("_foreach_")


def _is_seen(call: Any, texts: Texts) -> bool:
    """Whether what a call does is shown by the text itself, and done once."""
    own = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return own and (word(call.func) in texts.functions or word(call.func) in texts.classes) and texts.runs_once(call)


def _copies(node: ast.AST) -> bool:
    return isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and any(
        isinstance(one, ast.Call) and word(one.func) in _COPIES for one in ast.walk(node)
    )


def _once(node: ast.AST, function: str) -> bool:
    """Whether a copy is made where networks are made, or for a variable of a function that is not made anew in a loop."""
    if function.startswith(_MADE):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return all(isinstance(one, ast.Name) for one in targets)
