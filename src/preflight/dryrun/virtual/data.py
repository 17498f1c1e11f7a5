"""Data that is not there: read by the person's own code, a missing file is met with a plausible one.

Text is words, an array is zeros of the type that was asked for, a picture is black, a record has the keys that the
script asks its records for. Nothing stands in for what has a form that cannot be known: pickles, archives, other files.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import random
import string
import sys
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual import after
from preflight.dryrun.virtual.packages import Recorder

ROWS = 2_000
"""Records of a stand-in."""
ELEMENTS = 16 << 20
"""Elements of an array whose size is not known."""
_TEXTS = (
    ".txt",
    ".md",
    ".text",
    ".tokens",
    ".raw",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".small",
    ".src",
    ".trg",
    ".en",
    ".de",
)
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")
_WORDS = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not but".split()
)


def install(owns: Callable[[str], bool], assume: Callable[[str], None], given: Any = None) -> None:
    """Meet missing files of the person's own code, arrays of numpy and data sets of the hub.

    Args:
        owns: Whether a file is the person's own code.
        assume: Is given a line for each stand-in.
        given: The batches that the person described, if any; loaders of missing data sets give those.
    """
    stand = _Stand(owns, assume)
    stand.given = given
    stand.open_files()
    stand.looks()
    stand.terminal()
    after.imported("numpy", stand.arrays)
    after.imported("datasets", stand.hub)
    after.imported("PIL.Image", stand.pictures)
    after.imported("evaluate", stand.metrics)


def words(count: int, seed: int = 0) -> str:
    """Return a text of so many words, in lines of twelve."""
    draw = random.Random(seed)
    drawn = [draw.choice(_WORDS) for _ in range(count)]
    lines = [" ".join(drawn[at : at + 12]) for at in range(0, count, 12)]
    return "\n".join(lines) + "\n"


def _tree(filename: str) -> ast.Module:
    """Return the syntax of a file; an empty one where it cannot be read."""
    try:
        with open(filename, "rb") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


class _Stand:
    def __init__(self, owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
        self.owns, self.assume = owns, assume
        self.given: Any = None
        self._keys: list[str] | None = None
        self._needs: dict[str, set[int]] = {}

    def open_files(self) -> None:
        plain = builtins.open

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            try:
                return plain(file, mode, *args, **kwargs)
            except FileNotFoundError:
                if "r" not in mode or "+" in mode or not self.owns(sys._getframe(1).f_code.co_filename):
                    raise
                made = self.text(os.fspath(file))
                if made is None:
                    raise
                return io.BytesIO(made.encode()) if "b" in mode else io.StringIO(made)

        builtins.open = io.open = opened

    def terminal(self) -> None:
        """Answer what a terminal would, and no other command."""

        def opened(command: str, *args: Any, **kwargs: Any) -> Any:
            self.assume(f"command {command} was not run")
            return io.StringIO("24 80\n" if command.split() == ["stty", "size"] else "")

        os.popen = opened  # type: ignore[assignment]

    def looks(self) -> None:
        """Say of a text that it is there where the script asks in order to make it, or gives up without it."""
        import pathlib

        for owner, name in (
            (os.path, "exists"),
            (os.path, "isfile"),
            (pathlib.Path, "exists"),
            (pathlib.Path, "is_file"),
        ):
            setattr(owner, name, self._looked(getattr(owner, name)))

    def _looked(self, plain: Any) -> Any:
        def looked(path: Any, **kwargs: Any) -> bool:
            if plain(path, **kwargs):
                return True
            if os.path.splitext(str(path))[1].lower() not in _TEXTS:
                return False
            frame = sys._getframe(1)
            name = frame.f_code.co_filename
            return self.owns(name) and frame.f_lineno in self._needing(name)

        return looked

    def _needing(self, filename: str) -> set[int]:
        """Return the lines of ``assert exists(...)`` and ``if not exists(...)``."""
        if filename not in self._needs:
            lines: set[int] = set()
            for node in ast.walk(_tree(filename)):
                test = node.test if isinstance(node, (ast.Assert, ast.If)) else None
                negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
                if test is not None and (isinstance(node, ast.Assert) or negated):
                    lines.update(range(test.lineno, (test.end_lineno or test.lineno) + 1))
            self._needs[filename] = lines
        return self._needs[filename]

    def text(self, path: Any) -> str | None:
        """Return what a missing file of text may hold, or None where its form is not known."""
        ending = os.path.splitext(str(path))[1].lower()
        if ending not in _TEXTS:
            return None
        import json

        self.assume(f"{path} is missing: {ROWS} plausible lines took its place")
        rows = [self.record(number) for number in range(ROWS)]
        if ending == ".json":
            return json.dumps(rows)
        if ending == ".jsonl":
            return "\n".join(map(json.dumps, rows)) + "\n"
        # Every printable character once, so that a vocabulary of characters has them.
        return words(ROWS * 100) + string.printable

    def arrays(self, numpy: Any) -> None:
        plain_map, plain_file = numpy.memmap, numpy.fromfile

        class Memmap(plain_map):  # type: ignore[misc,valid-type]
            """A memory map; of a missing file, zeros."""

            def __new__(
                cls,
                filename: Any,
                dtype: Any = numpy.uint8,
                mode: str = "r+",
                offset: int = 0,
                shape: Any = None,
                order: str = "C",
            ) -> Any:
                try:
                    return plain_map(filename, dtype, mode, offset, shape, order)
                except FileNotFoundError:
                    return self_stand.zeros(numpy, filename, dtype, shape)

        self_stand = self

        def fromfile(file: Any, dtype: Any = float, count: int = -1, *args: Any, **kwargs: Any) -> Any:
            try:
                return plain_file(file, dtype, count, *args, **kwargs)
            except FileNotFoundError:
                return self.zeros(numpy, file, dtype, None if count < 0 else count)

        numpy.memmap, numpy.fromfile = Memmap, fromfile

    def zeros(self, numpy: Any, file: Any, dtype: Any, shape: Any) -> Any:
        self.assume(f"{file} is missing: zeros of type {numpy.dtype(dtype).name} took its place")
        return numpy.zeros(ELEMENTS if shape is None else shape, dtype)

    def pictures(self, image: Any) -> None:
        plain = image.open

        def opened(fp: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return plain(fp, *args, **kwargs)
            except FileNotFoundError:
                if not str(fp).lower().endswith(_PICTURES):
                    raise
                self.assume(f"pictures such as {fp} are missing: black ones of 500 x 375 took their place")
                return image.new("RGB", (500, 375))

        image.open = opened

    def metrics(self, evaluate: Any) -> None:
        if not hasattr(evaluate, "load"):
            return  # a module of the person's own of that name
        plain = evaluate.load

        def load(path: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return plain(path, *args, **kwargs)
            except Exception:
                self.assume(f"metric {path} is not here: it did nothing")
                return Recorder(f"metric {path}")

        evaluate.load = load

    def keys(self) -> list[str]:
        """Return the names by which the script asks for parts of its records."""
        if self._keys is None:
            found: dict[str, None] = {}
            name = getattr(sys.modules.get("__main__"), "__file__", None)
            for node in ast.walk(_tree(name or "")):
                key = None
                if isinstance(node, ast.Subscript):
                    key = node.slice
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                    key = node.args[0] if node.args else None
                elif isinstance(node, (ast.List, ast.Tuple)):
                    for item in node.elts:
                        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.isidentifier():
                            found[item.value] = None
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                    found[key.value] = None
            known = (
                "train validation test train_test input_ids attention_mask labels token_type_ids valid dev val"
            ).split()
            self._keys = [name for name in found if name not in known]
        return self._keys

    def record(self, number: int) -> dict[str, Any]:
        """Return a record with text, or a number where the name of the key says so."""
        made: dict[str, Any] = {}
        for key in self.keys():
            low = key.lower()
            if low in ("label", "idx", "id", "target", "class"):
                made[key] = number % 2
            elif low == "messages":
                made[key] = [{"role": role, "content": words(60, number)} for role in ("user", "assistant")]
            else:
                made[key] = words(40, number)
        return made or {"text": words(200, number)}

    def hub(self, datasets: Any) -> None:
        if not hasattr(datasets, "load_dataset"):
            return  # a module of the person's own of that name
        plain = datasets.load_dataset

        def load_dataset(path: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return plain(path, *args, **kwargs)
            except Exception as error:
                reason = type(error).__name__
            if self.given is not None:
                self.given.hub = True
            self.assume(f"data set {path} is not here ({reason}): {ROWS} records with the keys that the script reads")
            known = DATA_SETS.get((str(path), args[0] if args else kwargs.get("name")))
            rows = [_row(known, number) if known else self.record(number) for number in range(ROWS)]
            for row in rows:
                if not known:
                    row.setdefault("text", words(100, 1))
                    row.setdefault("messages", [{"role": r, "content": words(60, 2)} for r in ("user", "assistant")])
            whole = datasets.Dataset.from_list(rows)
            split = kwargs.get("split")
            if isinstance(split, str):
                return whole
            names = ("train", "validation", "test")
            return datasets.DatasetDict(dict.fromkeys(names, whole))

        datasets.load_dataset = load_dataset
        hasher = datasets.fingerprint.Hasher
        plain_hash = hasher.hash

        def hashed(cls: Any, value: Any) -> Any:
            try:
                return plain_hash(value)
            except (
                Exception
            ):  # what a dry run put in place need not be picklable; a name for a cache is all that is lost
                return f"{random.getrandbits(64):016x}"

        hasher.hash = classmethod(hashed)


DATA_SETS: dict[tuple[str, str | None], dict[str, str]] = {
    ("glue", "mrpc"): {"sentence1": "text", "sentence2": "text", "label": "2", "idx": "index"},
    ("nyu-mll/glue", "mrpc"): {"sentence1": "text", "sentence2": "text", "label": "2", "idx": "index"},
    ("sentence-transformers/stsb", None): {"sentence1": "text", "sentence2": "text", "score": "share"},
}
"""Published columns of data sets that scripts read as a whole, by path and name."""


def _row(columns: dict[str, str], number: int) -> dict[str, Any]:
    kinds: dict[str, Callable[[], Any]] = {
        "text": lambda: words(24, number).replace("\n", " "),
        "2": lambda: number % 2,
        "index": lambda: number,
        "share": lambda: (number % 10) / 10,
    }
    return {name: kinds[kind]() for name, kind in columns.items()}
