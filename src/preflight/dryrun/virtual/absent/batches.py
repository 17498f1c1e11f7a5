"""Batches as the person described them, in the place of data that are missing.

A data set is missing when it cannot be opened or read, is a stand-in, or belongs to a package that is missing. Its loader
then gives what ``--batch`` says, whatever the script would have made of the data. Data that are there stay in use.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from preflight.dryrun.virtual.absent import after, uses
from preflight.dryrun.virtual.absent.recorders import Recorder
from preflight.dryrun.virtual.loops import LOADER

ROWS = 2_000
"""Batches of a missing loader whose length nobody knows."""
ELEMENTS = 16 << 20
"""Elements of an array that stands in for a missing file, at most."""
_WHY = "_preflight_missing"


class Named(list[Any]):
    """A batch whose tensors are found by place and by name."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)

    def keys(self) -> tuple[str, ...]:
        """Return the names."""
        return self.names


class Rows(Dataset[Any]):
    """Takes the place of a data set that is not even one."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.__dict__[_WHY] = "a data set"

    def __len__(self) -> int:
        return ROWS * self.given.size

    def __getitem__(self, index: int) -> Any:
        return self.given.sample()


class Given:
    """What the person said of a batch.

    Args:
        parts: ``name``, ``dtype`` and ``shape`` of each tensor.
        owns: Whether a file is the person's own code.
        assume: Is given a line for what was put in a place.
    """

    def __init__(self, parts: list[dict[str, Any]], owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
        self.parts, self.owns, self.assume = parts, owns, assume
        self.size = parts[0]["shape"][0] if parts and parts[0]["shape"] else 1
        self.names = tuple(part["name"] for part in parts)
        self.used = self.hub = False
        self.rounds: Any = None
        self._by_name: bool | None = None

    def say(self, what: str) -> None:
        """Tell that batches took the place of something."""
        self.used = True
        shown = ", ".join(
            (f"{p['name']} " if p["name"] else "") + f"{p['dtype']}{p['shape']}".replace(" ", "") for p in self.parts
        )
        self.assume(f"{what}: batches of --batch took its place: {shown}")

    def batch(self) -> Any:
        """Return a batch."""
        return self._formed([_tensor(part, part["shape"]) for part in self.parts])

    def sample(self) -> Any:
        """Return one sample."""
        return self._formed([_tensor(part, part["shape"][1:]) for part in self.parts])

    def batches(self, count: int | None) -> Iterator[Any]:
        """Yield batches."""
        for _ in range(count or ROWS):
            yield self.batch()

    def _formed(self, tensors: list[Any]) -> Any:
        named = all(self.names)
        if named and self._asked_by_name():
            return dict(zip(self.names, tensors, strict=True))
        if len(tensors) == 1:
            return tensors[0]
        made = Named(tensors)
        made.names = self.names
        return made

    def _asked_by_name(self) -> bool:
        """Whether the script, or who iterates for it, takes a batch apart by names."""
        if self._by_name is None:
            own = [m for m in list(sys.modules.values()) if self.owns(getattr(m, "__file__", None) or "")]
            trees = [uses.tree(module.__file__ or "") for module in own]
            self._by_name = any(_names_in(tree) & set(self.names) or _unpacks(tree) for tree in trees)
            if not self._by_name:  # transformers' Trainer gives a model what it names
                self._by_name = "transformers.trainer" in sys.modules
        return self._by_name

    def why_missing(self, data: Any) -> str | None:
        """Return what is missing of a data set, None where it is there."""
        if isinstance(data, Recorder):
            return f"{data} is not there"
        kind = sys.modules.get("datasets")
        if self.hub and kind is not None and isinstance(data, (kind.Dataset, kind.IterableDataset)):
            return "the data set of the hub is not there"
        found = getattr(data, "__dict__", {}).get(_WHY)
        if found is None and getattr(data, "stands_in", False) is True:
            found = "is not there"
        if found is not None:
            return f"data set {type(data).__name__} {found}" if not isinstance(data, Rows) else "a data set is missing"
        inner = getattr(data, "dataset", None)
        others = [inner] if inner is not None else list(getattr(data, "datasets", None) or [])[:1]
        return next((why for why in map(self.why_missing, others) if why), None) if isinstance(data, Dataset) else None

    def instead_of(self, items: Any) -> Any:
        """Return batches for what a missing package would have given to a loop, and anything else as it is."""
        if not isinstance(items, Recorder):
            return items
        self.say(f"{items} is not there")
        return [self.batch() for _ in range(16)]

    def array(self, path: str) -> Any:
        """Return what an array in a missing file may be: the tensor whose name the file's begins with, many times."""
        stem = os.path.splitext(os.path.basename(path))[0].lower()
        for part in self.parts:
            name = part["name"].lower()
            if name and (stem.startswith(name) or stem.endswith(f"_{name}")):
                each = max(1, _tensor(part, part["shape"][1:]).numel())
                rows = max(self.size, min(ROWS, ELEMENTS // each))
                self.used = True
                self.assume(f"{path} is missing: {rows} samples of --batch's {part['name']} took its place")
                return _tensor(part, [rows, *part["shape"][1:]])
        return None


def _tensor(part: dict[str, Any], shape: list[int]) -> Any:
    dtype = getattr(torch, part["dtype"])
    if dtype.is_floating_point:
        return torch.rand(shape, dtype=torch.float32).to(dtype)
    # Every word is one that is attended to; a class or a token of number 0 there is in every model.
    return (torch.ones if "mask" in part["name"] or dtype == torch.bool else torch.zeros)(shape, dtype=dtype)


def _names_in(tree: ast.Module) -> set[str]:
    """Return the keys by which a module asks for parts of things."""
    found: set[str] = set()
    for node in ast.walk(tree):
        key = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
    return found


def _unpacks(tree: ast.Module) -> bool:
    """Whether ``model(**batch)`` stands in a module, with ``batch`` what a loop goes over."""
    targets = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.For)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id in targets
        for call in calls
        for keyword in call.keywords
    )


def install(given: Given) -> None:
    """Watch data sets as they are made, and give loaders of missing ones the person's batches."""
    kind: Any = Dataset
    before = kind.__init_subclass__.__func__

    def subclassed(cls: Any, /, **kwargs: Any) -> None:
        before(cls, **kwargs)
        for name, guard in (("__init__", _guarded_init), ("__len__", _length), ("__getitem__", _item)):
            if name in cls.__dict__ and cls is not Rows:
                setattr(cls, name, guard(cls.__dict__[name], given))

    kind.__init_subclass__ = classmethod(subclassed)
    _watch_loaders(given)
    after.imported("numpy", lambda numpy: _watch_arrays(numpy, given))


def _guarded_init(make: Any, given: Given) -> Any:
    def made(data: Any, *args: Any, **kwargs: Any) -> None:
        try:
            make(data, *args, **kwargs)
        except Exception as error:
            # After the first file that is not there, more goes wrong in the constructors that go on behind it.
            if _WHY not in data.__dict__ and not _is_of_data(error):
                raise
            data.__dict__.setdefault(_WHY, f"could not be read ({type(error).__name__}: {str(error)[:120]})")

    return made


def _is_of_data(error: Exception) -> bool:
    return isinstance(error, OSError) or (isinstance(error, RuntimeError) and "not found" in str(error).lower())


def _length(plain: Any, given: Given) -> Any:
    return lambda data: ROWS * given.size if _WHY in data.__dict__ else plain(data)


def _item(plain: Any, given: Given) -> Any:
    return lambda data, index: given.sample() if _WHY in data.__dict__ else plain(data, index)


def _watch_loaders(given: Given) -> None:
    make, iterate = DataLoader.__init__, DataLoader.__iter__

    def made(loader: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> None:
        make(loader, Rows(given) if isinstance(dataset, Recorder) else dataset, *args, **kwargs)

    def batches(loader: Any) -> Any:
        why = given.why_missing(loader.dataset)
        if why is None:
            iterator = iterate(loader)
            try:
                first = next(iterator)
            except StopIteration:
                return
            except OSError as error:
                why = f"data set {type(loader.dataset).__name__} could not be read ({error})"
            else:
                yield first
                yield from iterator
                return
        asked = loader.batch_size
        given.say(why if asked in (None, given.size) else f"{why} (the loader asks for batches of {asked})")
        count = _batches_of(loader)
        yield from given.rounds.follow(given.batches(count), LOADER, count)

    DataLoader.__init__ = made
    DataLoader.__iter__ = batches


def _batches_of(loader: Any) -> int | None:
    try:
        return len(loader) or None
    except TypeError:
        return None


def _watch_arrays(numpy: Any, given: Given) -> None:
    plain = numpy.load

    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(file, *args, **kwargs)
        except FileNotFoundError:
            made = given.array(os.fspath(file))
            if made is None:
                raise
            return made.numpy()

    numpy.load = load
