"""Whether the program's own text may still make an optimizer, or add to one, after the place that it has come to.

What no optimizer holds is forgotten only where nothing that is still to come takes it: a head may be trained in a second
stage, a critic once its generator is warm. What comes is read from where the program stands: the rest of each function
that is being called, the loops around that place once more, and the functions that are spoken of there.
Nothing of the program is run for it, and nothing is kept of it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .naming import user_frames
from .recorder import Recorder
from .texts import FUNCTIONS, LONGEST, Texts, files, word
from .variables import Variables

NAME = "optimizers.ahead"
_MOST = 6
"""How often the text is read in a run, once for each time that more optimizers are there than before."""
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_REPEATING = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_ADDING = frozenset({"add_param_group", "setup_optimizers", "configure_optimizers"})


class Place(NamedTuple):
    """Where one of the functions that are being called has come to."""

    path: str
    function: str
    first: int
    line: int


class Ahead:
    """Tells what may come, where parameters with gradients were seen that no optimizer holds."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self._read = 0
        self._optimizers = -1  # how many there were when the text was read last

    def look(self) -> None:
        """Read the text, unless it was read since the last optimizer was made."""
        made = len(self.variables.optimizers())
        if self._read >= _MOST or made == self._optimizers or not self.recorder.wants(NAME):
            return
        if not any(tensor.requires_grad and tensor.grad is not None for _, tensor in self.variables.living(-1)):
            return
        self._read, self._optimizers = self._read + 1, made
        self.recorder.event(NAME, "", {"come": self.comes()})

    def comes(self) -> bool | None:
        """Read the text: whether an optimizer may still be made, from where the program stands; None where nobody knows."""
        kinds = _kinds(self.recorder.torch.optim.Optimizer)
        places = [
            Place(one.f_code.co_filename, one.f_code.co_name, one.f_code.co_firstlineno, one.f_lineno)
            for one in user_frames(sys._getframe(1))
        ]
        texts = Texts.of(files(), LONGEST) if places else None
        return None if texts is None else optimizers_come(texts, places, kinds)


def _kinds(base: type) -> frozenset[str]:
    """The names of all classes of optimizers that are known by now."""
    found = set[type]()
    waiting = list[type](base.__subclasses__())
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += kind.__subclasses__()
    return frozenset(kind.__name__ for kind in found)


def optimizers_come(texts: Texts, places: Iterable[Place], kinds: frozenset[str]) -> bool | None:
    """Whether an optimizer may still be made, or added to, for networks that are there already.

    Args:
        texts: The program's files.
        places: Where each function that is being called has come to, the innermost first.
        kinds: The names of classes of optimizers.

    Returns:
        None where a function is none of the text.
    """
    coming = _Coming(texts, kinds | {other for kind in kinds for other in texts.renamed(kind)})
    for place in places:
        if place.function.startswith("<") and place.function != "<module>":
            continue  # the statement that it is a part of is told with the function around it
        body = _body(texts, place)
        if body is None:
            return None
        coming.take(_after(body, place.line))
    return coming.makes()


def _body(texts: Texts, place: Place) -> list[ast.stmt] | None:
    """The statements of a function, or of a file."""
    tree = texts.trees.get(place.path)
    if tree is None or place.function == "<module>":
        return None if tree is None else tree.body
    for one in texts.functions.get(place.function, []):
        first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
        if first <= place.first <= one.lineno and next(iter([*texts.above(one)][-1:]), None) is tree:
            body: list[ast.stmt] = one.body
            return body
    return None


def _after(statements: list[ast.stmt], line: int) -> Iterator[ast.AST]:
    """What comes after a line of a list of statements that is being carried out; loops around it come again as a whole."""
    for number, one in enumerate(statements):
        if not one.lineno <= line <= (one.end_lineno or one.lineno):
            continue
        yield from statements[number + 1 :]
        blocks = [block for block in _blocks(one) if block[0].lineno <= line <= (block[-1].end_lineno or line)]
        if isinstance(one, _LOOPS) or (not blocks and any(isinstance(part, _REPEATING) for part in ast.walk(one))):
            yield one
        elif blocks:
            yield from _after(blocks[0], line)
            if isinstance(one, ast.Try):
                yield from (*(one.orelse if blocks[0] is one.body else ()), *one.finalbody)
        else:
            yield from (part for block in _blocks(one) for part in block)  # of a condition that is being asked


def _blocks(statement: Any) -> list[list[ast.stmt]]:
    """The lists of statements that are parts of one."""
    found = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    found += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, [])]
    return [block for block in found if block and isinstance(block, list)]


class _Coming:
    """The parts of a text that are still to come."""

    def __init__(self, texts: Texts, kinds: frozenset[str]) -> None:
        self.texts = texts
        self.kinds = kinds
        self.nodes: set[ast.AST] = set()
        self._modules = {  # names of modules of the program, by which their functions are called
            one.asname or one.name.rpartition(".")[2]
            for node in texts.nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for one in node.names
        }

    def take(self, parts: Iterable[ast.AST]) -> None:
        """Take parts, and the functions that are spoken of in them."""
        waiting = list(parts)
        while waiting:
            node = waiting.pop()
            if node in self.nodes:
                continue
            self.nodes.add(node)
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                continue  # it is only defined
            if isinstance(getattr(node, "ctx", None), ast.Load):
                waiting += self._spoken_of(node)
            waiting += ast.iter_child_nodes(node)

    def makes(self) -> bool:
        """Whether an optimizer is made or added to among them, for something that is not made for it alone."""
        return any(self._makes(node) for node in self.nodes)

    def _spoken_of(self, node: Any) -> Iterator[ast.AST]:
        """The statements of the functions that a name may stand for."""
        for function in self.texts.functions.get(word(node), []):
            if self._may_be(node, function):
                yield from function.body
        for name in {word(node), *self._originals(word(node))}:
            for kind in self.texts.classes.get(name, []):
                own = (one for one in kind.body if isinstance(one, FUNCTIONS))
                yield from (
                    part for one in own if one.name in ("__init__", "__post_init__", "__call__") for part in one.body
                )
            if isinstance(node, ast.Name) and name != word(node):
                yield from (part for one in self.texts.functions.get(name, []) for part in one.body)

    def _originals(self, name: str) -> Iterator[str]:
        """What a name was taken in from another file as."""
        for node in self.texts.nodes:
            if isinstance(node, ast.alias) and node.asname == name:
                yield node.name.rpartition(".")[2]

    def _may_be(self, node: Any, function: Any) -> bool:
        """Whether a name may stand for a function of its name: one of a class stands after a point, and no other does."""
        owner = self.texts.parents.get(function)
        if isinstance(node, ast.Name):
            return not isinstance(owner, ast.ClassDef)
        holder = word(node.value)
        if not isinstance(owner, ast.ClassDef):
            return holder in self._modules
        if node.attr not in _OF_MODULES:
            return True
        # A network has such a function, too: it is the program's own where the text says that its class is.
        if holder in ("self", "super"):
            return owner in self.texts.above(node)
        return any(
            isinstance(made := getattr(self.texts.parents[one], "value", None), ast.Call)
            and word(made.func) == owner.name
            for one in self.texts.nodes
            if word(one) == holder and isinstance(getattr(one, "ctx", None), ast.Store)
        )

    def _makes(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Name, ast.Attribute)) and word(node) in self.kinds:
            call = self.texts.parents.get(node)
            return not (isinstance(call, ast.Call) and call.func is node and self._is_of_new(call))
        if not isinstance(node, ast.Call):
            return False
        name = word(node.func)
        if name in _ADDING:
            return True
        if not name:  # ``getattr(torch.optim, name)(...)``, ``KINDS[name](...)``
            chosen = any("optim" in word(part).lower() for part in ast.walk(node.func))
            return chosen or any("param" in word(part) for given in node.args for part in ast.walk(given))
        if name in self.texts.functions or name in self.texts.classes:
            return False
        lower = name.lower()
        return ("optimizer" in lower and lower != "optimizers") or name.endswith("Trainer") or name.startswith("fit")

    def _is_of_new(self, call: ast.Call) -> bool:
        """Whether the networks that an optimizer is made for are made anew before it, after the place come to."""
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "params")]
        names = {
            part.id
            for one in given
            for part in ast.walk(one)
            if isinstance(part, ast.Name) and part.id not in self.texts.functions
        }
        return bool(names) and all(self._is_new(name, call) for name in names)

    def _is_new(self, name: str, call: ast.Call) -> bool:
        """Whether a name is given a network, by its class, in the same function as a call and above it."""
        scope = self.texts.function(call)
        return any(
            isinstance(one, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in one.targets)
            and isinstance(one.value, ast.Call)
            and (word(one.value.func) in self.texts.classes or word(one.value.func)[:1].isupper())
            and one.lineno < call.lineno
            and self.texts.function(one) is scope
            for one in self.nodes
        )


_OF_MODULES = frozenset(
    {"train", "eval", "forward", "parameters", "apply", "to", "cuda", "cpu", "float", "half", "compile"}
)
"""What each network can do, and a program's own classes may be able to, too."""
