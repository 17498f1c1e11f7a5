"""Documents of names and lists (JSON) that are missing: their shape is read off the code that takes them apart."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from types import FrameType
from typing import Any

from preflight.dryrun.virtual.absent import formats, uses

MANY, FEW = 64, 4
"""Items of a list that lies in no other list, and of one that does."""
WORDS = 1_000
"""Names of a part that is asked for names which the code does not spell out."""
_THROUGH = frozenset("list tuple sorted reversed enumerate tqdm iter set deepcopy copy shuffle".split())
_ARRAYS = frozenset("array asarray tensor Tensor FloatTensor as_tensor from_numpy stack".split())


class Part:
    """What code does with one part of a document.

    Attributes:
        keys: The parts that it asks for by a name that is written there.
        items: What it takes from it in turn, or by number.
        any: What it takes from it by names that are not written there.
        kind: What it makes of it: ``float``, ``int``, ``array`` or ``path``.
        held: Whether the document itself lies in a table of several.
    """

    def __init__(self) -> None:
        self.keys: dict[str, Part] = {}
        self.items: Part | None = None
        self.any: Part | None = None
        self.kind = ""
        self.held = False

    def key(self, name: str) -> Part:
        """Return the part of a name."""
        return self.keys.setdefault(name, Part())

    def item(self) -> Part:
        """Return what stands for every item."""
        self.items = self.items or Part()
        return self.items

    def named(self) -> Part:
        """Return what stands under names that are not written in the code."""
        self.any = self.any or Part()
        return self.any

    @property
    def known(self) -> bool:
        """Whether anything was learned."""
        return bool(self.keys or self.items or self.any)


class Reader:
    """Follows a document through a piece of code.

    Args:
        scope: The code.
        root: The document.
        names: What holds it there, as text.
    """

    def __init__(self, scope: ast.AST, root: Part, names: set[str]) -> None:
        self.parts: dict[str, Part] = dict.fromkeys(names, root)
        steps = [node for node in ast.walk(scope) if hasattr(node, "lineno") or isinstance(node, ast.comprehension)]
        for _ in range(3):  # what a loop takes may be named before it is asked for more
            for step in steps:
                self._follow(step)

    def _follow(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            part = self.part(node.value)
            if part is not None and isinstance(node.targets[0], (ast.Name, ast.Attribute)):
                self.parts.setdefault(ast.unparse(node.targets[0]), part)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._loop(node.target, node.iter)
        elif isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                part = self.part(side)
                if part is not None and not part.kind and not part.known:
                    other = node.right if side is node.left else node.left
                    if isinstance(other, ast.Constant):
                        part.kind = "path" if isinstance(other.value, str) else "float"
        elif isinstance(node, (ast.Subscript, ast.Call)):
            self.part(node)

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        pairs = isinstance(over, ast.Call) and bool({"items", "enumerate"} & set(uses.called(over)[:1]))
        part = self.part(over)
        if part is None:
            return
        taken: ast.expr | None = target
        if isinstance(target, ast.Tuple):
            taken = target.elts[-1] if pairs else None
        if isinstance(over, ast.Call) and uses.called(over)[0] in ("items", "values", "keys"):
            held = part.named() if uses.called(over)[0] != "keys" else None
        else:
            held = part.item()
        if held is not None and isinstance(taken, (ast.Name, ast.Attribute)):
            self.parts.setdefault(ast.unparse(taken), held)

    def part(self, node: ast.expr) -> Part | None:
        """Return the part of the document that an expression gives, and learn from it."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.parts.get(ast.unparse(node))
        if isinstance(node, ast.Subscript):
            return self._taken(node)
        return self._call(node) if isinstance(node, ast.Call) else None

    def _taken(self, node: ast.Subscript) -> Part | None:
        base = self.part(node.value)
        if base is None:
            return None
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return base.key(index.value)
        if isinstance(index, ast.Slice):
            base.item()
            return base
        if isinstance(index, (ast.Constant, ast.UnaryOp)):
            return base.item()
        if base.held:
            return base
        return base.named() if base.keys or base.any else base.item()

    def _call(self, node: ast.Call) -> Part | None:
        name = uses.called(node)[0]
        if isinstance(node.func, ast.Attribute):
            owner = self.part(node.func.value)
            if owner is not None and name in ("items", "values", "keys"):
                owner.named()
                return owner
            if owner is not None and name == "get" and node.args:
                first = node.args[0]
                text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
                return owner.key(text) if text is not None else owner.named()
        for argument in node.args:
            part = self.part(argument)
            if part is None:
                continue
            if name in _THROUGH:
                return part
            if name in ("float", "int") or name in _ARRAYS or name == "join":
                part.kind = part.kind or ("array" if name in _ARRAYS else "path" if name == "join" else name)
        return None


def document(own: FrameType, owns: Callable[[str], bool]) -> bytes | None:
    """Return a document with the parts that the code asks for, or None where it asks for none.

    Args:
        own: The frame that reads.
        owns: Whether a file is the person's own code.
    """
    root = Part()
    frame: FrameType | None = own
    for _ in range(3):
        if frame is None:
            break
        names, returned = _holders(frame, root)
        if names:
            module = uses.tree(frame.f_code.co_filename)
            Reader(module if any("." in name for name in names) else uses.function(frame), root, names)
        if not returned:
            break
        frame = frame.f_back
        while frame is not None and not owns(frame.f_code.co_filename):
            frame = frame.f_back
    return json.dumps(_made(root, "", 0, True)).encode() if root.known else None


def _holders(frame: FrameType, root: Part) -> tuple[set[str], bool]:
    """Return what holds the document in the function that a frame runs, and whether the function returns it."""
    inside = uses.function(frame)
    held: set[str] = set()
    files: set[str] = set()
    for node in ast.walk(inside):
        if isinstance(node, ast.With) and node.lineno <= frame.f_lineno <= node.body[0].lineno:
            files |= {ast.unparse(item.optional_vars) for item in node.items if item.optional_vars is not None}
    returned = False
    for node in sorted(
        (n for n in ast.walk(inside) if isinstance(n, (ast.Assign, ast.Return))), key=lambda n: n.lineno
    ):
        value = node.value
        here = node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno)
        if value is None or not (here or (files | held) & uses.variables(value)):
            continue
        plain = here or files & uses.variables(value) or ast.unparse(value) in held
        if isinstance(node, ast.Return):
            returned = returned or bool(plain)
        elif plain:
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                root.held, target = True, target.value
            if "load" in uses.called(value) or "loads" in uses.called(value) or not files:
                held.add(ast.unparse(target))
            else:
                files.add(ast.unparse(target))
    return held, returned


def _made(part: Part, name: str, number: int, top: bool) -> Any:
    """Return a value of the shape of a part.

    Args:
        part: The part.
        name: The name that it stands under.
        number: Which of several it is.
        top: Whether it lies in no list.
    """
    if any(key.startswith("<") or key.startswith("[") for key in part.keys):
        # Marks among words: a vocabulary.
        return {f"word_{at}": at for at in range(WORDS)} | {key: WORDS + at for at, key in enumerate(part.keys)}
    if part.keys or part.any:
        made = {f"word_{at}": _of_many(part.any, at) for at in range(WORDS)} if part.any else {}
        return made | {key: _made(inner, key, number, top) for key, inner in part.keys.items()}
    if part.kind == "array" or _matrix(name):
        return value(name, number, "array")
    if part.items is not None:
        return [_made(part.items, name, number + at, False) for at in range(MANY if top else FEW)]
    return value(name, number, part.kind)


def _of_many(part: Part, number: int) -> Any:
    return _made(part, "", number, False) if part.known or part.kind not in ("", "int") else number


def _matrix(name: str) -> bool:
    return any(word in name.lower() for word in ("matrix", "pose", "extrinsic", "transform"))


def value(name: str, number: int, kind: str) -> Any:
    """Return a plausible value, by its name and by what is made of it."""
    low = name.lower()
    if _matrix(low):
        return [[float(row == column) + (number % 7) / 10 * (column == 3) for column in range(4)] for row in range(4)]
    if "bbox" in low or "box" in low:
        return [10.0 + number % 50, 10.0, 100.0, 100.0]
    if kind == "float" or any(word in low for word in ("angle", "focal", "fov", "score", "scale")):
        return 0.5 + (number % 10) / 20
    if low in _SIZES:
        return _SIZES[low]
    if kind == "int" or low in ("id", "idx", "index", "label", "class", "target") or low.endswith("_id"):
        return number
    if kind == "array":
        return [float(number % 10)] * FEW
    if kind == "path" or any(word in low for word in ("path", "file", "image", "img")):
        return os.path.join("train", f"train_{number:04d}")
    return formats.words(12, number).replace("\n", " ").strip()


_SIZES = {"w": formats.WIDTH, "width": formats.WIDTH, "h": formats.HEIGHT, "height": formats.HEIGHT, "iscrowd": 0}
