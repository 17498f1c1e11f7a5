"""Whether a program's own text says that something begins later: a cut of the graph, or a step, under a condition on progress.

Programs warm a head up with their body under ``no_grad``, leave a term out for the first epochs, and let a critic wait for
its turn: what looks forgotten in the first steps is meant. Such a condition compares how far the training is
(``step < warm_up``, ``epoch >= args.start``); one that comes again and again, as before an evaluation, does not count.
The text is parsed once, and only where something was seen that asks for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from .recorder import Recorder
from .texts import EARLY, FUNCTIONS, Texts, files, word

NAME = "staged"
_CUTS = frozenset(
    {"no_grad", "inference_mode", "set_grad_enabled", "detach", "detach_", "requires_grad_", "requires_grad"}
)
_PROGRESS = re.compile(
    r"(^|_)(step|steps|epoch|epochs|iter|iters|iteration|iterations|update|updates|round|phase|stage)"
)
_MODES = re.compile(r"warm|freez|frozen|only_|_only|stage|phase|train_(body|backbone|encoder|all)")
_KINDS = frozenset("train training fit val valid validate validation dev test testing eval evaluate evaluation".split())
"""What a phase is called that comes again in each epoch."""
_OTHERS = re.compile(r"sched|plateau|lr|prof|env|swa|warm")
"""What is in the names of that which steps and is no optimizer."""
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LATE = 4
"""Iterations after which optimizers that have never stepped are a reason to look."""


class Staged:
    """Tells once what the text says of that."""

    def __init__(self, recorder: Recorder, missing: Callable[[], object], resting: Callable[[], object]) -> None:
        """Take what asks for the text.

        Args:
            recorder: The recorder.
            missing: Tells whether gradients were absent, or no backward pass came to a loss.
            resting: Tells whether an optimizer was made and never stepped.
        """
        self.recorder = recorder
        self._missing, self._resting = missing, resting
        self._read = False

    def boundary(self) -> None:
        """An iteration ends."""
        if self._read or not self.recorder.wants(NAME):
            return
        if self._missing() or (self.recorder.iteration == _LATE and self._resting()):
            self._read = True
            texts = Texts.of(files(), EARLY)
            found = staged(texts) if texts is not None else {}
            if any(found.values()):
                self.recorder.leave(self.recorder.enter(NAME, "", found, placed=False))


def staged(texts: Texts) -> dict[str, bool]:
    """Whether a cut of the graph, or a step of an optimizer, stands under a condition on how far the training is."""
    found = {"cuts": False, "steps": False}
    passed = _passed(texts)
    for node in texts.nodes:
        kind = "cuts" if word(node) in _CUTS else "steps" if _is_step(node, texts) else ""
        if kind and not found[kind]:
            found[kind] = any(_tells(test, texts, passed) for test in _conditions(node, texts))
    return found


def _is_step(node: ast.AST, texts: Texts) -> bool:
    call = texts.parents.get(node)
    if word(node) != "step" or not isinstance(node, ast.Attribute) or _OTHERS.search(word(node.value).lower()):
        return False
    return isinstance(call, ast.Call) and call.func is node


def _conditions(node: ast.AST, texts: Texts) -> Iterator[ast.expr]:
    """The conditions under which a node is come to, within its function; of a switch, what it is given."""
    below = node
    for one in texts.above(node):
        if isinstance(one, (*FUNCTIONS, ast.Lambda)):
            return
        if isinstance(one, (ast.If, ast.IfExp)) and below is not one.test:
            yield one.test
        if isinstance(one, ast.Call) and one.func is below and word(below) in ("set_grad_enabled", "requires_grad_"):
            yield from one.args
        if isinstance(one, ast.Assign) and word(node) == "requires_grad":
            yield one.value
        below = one


def _tells(test: ast.AST, texts: Texts, passed: set[str]) -> bool:
    """Whether a condition asks how far the training is, by itself or by a name that was given such an answer."""
    if _compares(test):
        return True
    names = {word(one) for one in ast.walk(test) if isinstance(one, (ast.Name, ast.Attribute))}
    comes_again = any(_said(one).lower() in _KINDS for one in ast.walk(test))
    return any(name in passed or (not comes_again and _MODES.search(name)) for name in names)


def _said(node: ast.AST) -> str:
    """A word of a text: a name, or what stands in quotes."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else word(node)


def _compares(test: ast.AST) -> bool:
    """Whether a number that tells of progress is compared by its size, and not by what is left of a division."""
    for one in ast.walk(test):
        if not isinstance(one, ast.Compare) or not any(isinstance(sign, _ORDER) for sign in one.ops):
            continue
        parts = [part for side in (one.left, *one.comparators) for part in ast.walk(side)]
        divided = any(isinstance(part, ast.Mod) for part in parts)
        if not divided and any(_PROGRESS.search(word(part)) for part in parts if word(part)):
            return True
    return False


def _passed(texts: Texts) -> set[str]:
    """The names of variables and parameters that are given the answer of such a comparison somewhere."""
    found = set[str]()
    for node in texts.nodes:
        if isinstance(node, ast.Assign) and _compares(node.value):
            found.update(word(target) for target in node.targets)
        elif isinstance(node, ast.keyword) and node.arg and _compares(node.value):
            found.add(node.arg)
        elif isinstance(node, ast.Call):
            found.update(_parameters(node, texts))
    return found - {""}


def _parameters(call: Any, texts: Texts) -> Iterator[str]:
    """The parameters of the program's functions that a call may give such an answer to, by their places."""
    for place, given in enumerate(call.args):
        if isinstance(given, ast.Starred) or not _compares(given):
            continue
        for function in (*texts.functions.get(word(call.func), []), *texts.functions.get("forward", [])):
            own = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
            yield from own[place : place + 1]
