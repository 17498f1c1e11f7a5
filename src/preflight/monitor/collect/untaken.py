"""Where the program's own text has a way to bring a copy of a network on: where it has none, a copy that rests is forgotten.

Nothing of the program is run for it: at its end its files are parsed, where it has called more than one network.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .places import asked, is_users
from .recorder import Recorder

NAME = "ways"
_LONGEST = 1 << 18
"""Characters of text that are parsed, which takes about a third of a second."""
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


class Untaken:
    """Tells at the end of a program where its text could write to weights."""

    def __init__(self, recorder: Recorder, roots: Mapping[str, Any]) -> None:
        """Take the recorder, and the networks that were called by their names."""
        self.recorder = recorder
        self.roots = roots

    def end(self) -> None:
        """Tell it, unless the program has too much text, or none that can be read."""
        if len(self.roots) < 2 or not self.recorder.wants(NAME):
            return
        left, found, files = _LONGEST, list[str](), _files()
        for path in files:
            try:
                with open(path, encoding="utf-8") as stream:
                    text = stream.read(left + 1)
                left -= len(text)
                if left < 0:
                    return
                found += [f"{os.path.basename(path)}:{line}" for line in ways(text)]
            except (OSError, SyntaxError, ValueError, RecursionError):
                return
        seen = {"files": [os.path.basename(path) for path in files], "places": found}
        self.recorder.leave(self.recorder.enter(NAME, "", seen, placed=False))


def ways(text: str) -> list[int]:
    """The lines of a text at which weights may be written to, or a copy be made that takes the place of another one.

    Raises:
        SyntaxError: The text is no Python.
    """
    return sorted(set(_ways(ast.parse(text), "", False, frozenset())))


def _ways(node: ast.AST, function: str, again: bool, weights: frozenset[str]) -> Iterator[int]:
    """Go through a part of a text.

    Args:
        node: The part.
        function: The name of the function that it stands in.
        again: Whether it stands in a loop.
        weights: Names that loops over weights give to them.
    """
    if isinstance(node, (ast.For, ast.AsyncFor)) and any(_word(one) in _PARAMETERS for one in ast.walk(node.iter)):
        weights |= {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    if _writes(node, weights) or (_copies(node) and (again or not _once(node, function))):
        yield node.lineno  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _ways(child, child.name, False, weights)
        else:
            yield from _ways(child, function, again or isinstance(node, (ast.For, ast.AsyncFor, ast.While)), weights)


def _writes(node: ast.AST, weights: frozenset[str]) -> bool:
    """Whether a name or a statement may write to weights."""
    if isinstance(node, ast.AugAssign):  # ``weight *= 0.99``
        return _word(node.target) in weights
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in ("weight", "bias"):
        return True
    called = isinstance(node, ast.Call) and any(hint in _word(node.func).lower() for hint in _HINTS)
    return called or _word(node) in _WRITES or _word(node).startswith("_foreach_")


def _copies(node: ast.AST) -> bool:
    return isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and any(
        isinstance(one, ast.Call) and _word(one.func) in _COPIES for one in ast.walk(node)
    )


def _once(node: ast.AST, function: str) -> bool:
    """Whether a copy is made where networks are made, or for a variable of a function that is not made anew in a loop."""
    if function.startswith(_MADE):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return all(isinstance(one, ast.Name) for one in targets)


def _word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _files() -> list[str]:
    """The person's own files that are loaded, or that something was called from."""
    # Some of torch's modules say that they lie in a file that is none.
    loaded = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] != "torch"]
    named = (getattr(module, "__dict__", {}).get("__file__") for module in loaded)
    paths = {path for path in named if isinstance(path, str) and path.endswith(".py")}
    return sorted(path for path in {*paths, *asked()} if is_users(path))
