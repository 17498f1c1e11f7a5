"""What the code and the command line say of missing folders: which are data, what lies in them, who cannot do without."""

from __future__ import annotations

import ast
import os
import re
from functools import lru_cache
from types import FrameType

from preflight.dryrun.virtual.absent import formats, uses

KNOWN = formats.PICTURES + formats.SOUNDS + formats.TEXTS + formats.TABLES + formats.ARRAYS
_HINTS = (
    (re.compile(r"im(a)?g|photo|pic|frame|mask|cifar|mnist|coco|voc|face|celeb|flower|segm", re.IGNORECASE), ".jpg"),
    (re.compile(r"wav|audio|speech|voice|sound|vctk|ljspeech|libri", re.IGNORECASE), ".wav"),
    (re.compile(r"text|corpus|wiki", re.IGNORECASE), ".txt"),
)
_DATA = re.compile(r"data|root|train|val|test|im(a)?g|input|corpus|file|path|src|source|dir$", re.IGNORECASE)
RESULTS = re.compile(
    r"out|save|log|ckpt|check|result|exp|work|run|resume|weight|model|cache|config|cfg|store", re.IGNORECASE
)
_GIVES_UP = re.compile(
    r"exit|quit|error|fail|download|fetch|retrieve|wget|prepare|extract|unzip|urlopen", re.IGNORECASE
)
_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+$")


def endings(frame: FrameType | None, path: str) -> tuple[str, ...]:
    """Return the endings of the files that a folder would hold, the likeliest first."""
    if frame is None:
        return ()
    found = _named_endings(uses.function(frame))
    if found:
        return found
    for pattern, ending in _HINTS:
        if pattern.search(path):
            return (ending,)
    module = uses.tree(frame.f_code.co_filename)
    found = _named_endings(module)
    return found or ((".npy",) if _loads_arrays(module) else ())


def _named_endings(node: ast.AST) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in uses.constants(node):
        low = text.lower().lstrip("*")
        if low in KNOWN:
            found[low] = None
        elif f".{low}" in formats.PICTURES:
            found[f".{low}"] = None
    return tuple(found)


def _loads_arrays(module: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("np", "numpy")
        for node in ast.walk(module)
    )


@lru_cache(maxsize=512)
def needing(filename: str) -> dict[int, bool]:
    """Return the lines that look before something is made or given up, and whether it is given up."""
    lines: dict[int, bool] = {}
    held = uses.held_back(uses.tree(filename))
    for node in ast.walk(uses.tree(filename)):
        if not isinstance(node, (ast.Assert, ast.If)) or (isinstance(node, ast.Assert) and node in held):
            continue
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        if isinstance(node, ast.If) and negated:
            given_up = any(isinstance(n, ast.Raise) for part in node.body for n in ast.walk(part))
            calls = [name for part in node.body for name in uses.called(part)]
            needed = given_up or any(map(_GIVES_UP.search, calls))
        elif isinstance(node, ast.Assert) and not negated:
            needed = True
        else:
            continue
        for line in range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1):
            lines[line] = needed
    return lines


def data_arguments(arguments: list[str]) -> list[str]:
    """Return the values of a command line that name data: positional paths, and options whose names say so."""
    found, option = [], ""
    for word in arguments:
        if word.startswith("-"):
            option, given, value = word.partition("=")
            if not given:
                continue
        else:
            value = word
        said = not option or (_DATA.search(option) and not RESULTS.search(option.replace("-dir", "")))
        # A name of two parts may be one of the hub; it is a path only where its folder is there.
        hub = _HUB.match(value) and not os.path.isdir(value.partition("/")[0])
        if said and not hub and (option or os.sep in value):
            found.append(value)
        option = ""
    return found
