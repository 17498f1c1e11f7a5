"""For what a value of a package that is not installed is needed, and who asks for it."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable
from types import FrameType, GeneratorType
from typing import Any, NoReturn

from preflight.dryrun.virtual.absent import imports

_SHOWS = re.compile(
    r"^(?:c?print|p?pprint|log\w*|info|debug|warn\w*|error|critical|exception|write|writeln|echo|secho|set_description\w*|"
    r"set_postfix\w*|add_text|fail|usage|exit)$"
)
_MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")


class State:
    """What is known of the packages of a run: who owns the code, and what was said and handed over."""

    def __init__(self) -> None:
        self.owns: Callable[[str], bool] = lambda name: False
        self.assume: Callable[[str], None] = lambda line: None
        self.handed: dict[str, str] = {}
        self.needed: dict[str, str] = {}
        self.compiled: set[str] = set()


STATE = State()


def needed(path: str, born: str, use: str) -> NoReturn:
    """End the run for want of a package.

    Args:
        path: How the value was reached: package and names.
        born: The line that made it.
        use: What it is needed for.
    """
    top = path.partition(".")[0].partition("(")[0]
    frame = imports.owned(STATE.owns)
    at = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""
    made = f" of {born}" if born and born != at else ""
    if top in STATE.compiled:
        raise RuntimeError(
            f"{top} is C++ or CUDA code that the script compiles, which a dry run does not: {path} is needed"
            f"{f' at {at}' if at else ''} {use}"
        )
    message = f"No module named '{top}': {path}{made} is needed{f' at {at}' if at else ''} {use}"
    STATE.needed.setdefault(top, message)
    raise ModuleNotFoundError(message, name=top)


def heavy(value: Any, depth: int = 0) -> str | None:
    """Return what a value is that decides over memory; None where it does not."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(value, (str, int, float, type(None))):
        return None
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if isinstance(value, torch.nn.Module):
        return "a model"
    if isinstance(value, torch.optim.Optimizer):
        return "an optimizer"
    if isinstance(value, GeneratorType) and value.gi_code.co_filename.endswith(_MODULE_FILE):
        return "a model's parameters"
    if depth < 2 and isinstance(value, (list, tuple, set)):
        return next((kind for item in list(value)[:64] if (kind := heavy(item, depth + 1))), None)
    if depth < 2 and isinstance(value, dict):
        return next((kind for item in list(value.values())[:64] if (kind := heavy(item, depth + 1))), None)
    return None


def line() -> str:
    """Return the line of the person's code that runs."""
    frame = imports.owned(STATE.owns)
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def only_shown() -> bool:
    """Whether the statement that runs in the person's code only shows what it makes, or raises it."""
    frame = imports.owned(STATE.owns)
    if frame is None:
        return False
    inner = [*imports.statements(frame.f_code.co_filename, frame.f_lineno)][-1:]
    if not inner or isinstance(inner[0], ast.Raise):
        return bool(inner)
    statement = inner[0]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return bool(_SHOWS.match(name))


def asked_by_torch(frame: FrameType | None) -> bool | None:
    """Whether torch asks what a value is because a module is to keep it; None where it is not torch that asks."""
    asked = None
    while frame is not None and f"{os.sep}torch{os.sep}" in frame.f_code.co_filename:
        name = frame.f_code.co_filename
        if "_pytree" in name:
            return None
        if name.endswith(_MODULE_FILE) and frame.f_code.co_name in ("__setattr__", "__delattr__"):
            return True
        asked = False
        frame = frame.f_back
    return asked
