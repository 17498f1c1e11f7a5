"""Checkpoints: written as a note in the scratch folder, kept in memory, and given back when the script loads them."""

from __future__ import annotations

import os
from typing import Any

import torch


class Saved:
    """What the script saved, by path.

    Attributes:
        places: (path, file:line) of every save, in order.
    """

    def __init__(self, line: Any) -> None:
        self._objects: dict[str, Any] = {}
        self._line = line
        self.places: list[tuple[str, str]] = []

    def keep(self, thing: Any, target: Any) -> None:
        """Keep an object that is saved."""
        if not isinstance(target, (str, os.PathLike)):
            target.write(b"")
            self.places.append(("(a file object)", self._line()))
            return
        name = os.path.abspath(os.fsdecode(target))
        self._objects[name] = thing
        self.places.append((name, self._line()))
        with open(name, "wb") as file:
            file.write(b"saved in a dry run: nothing is in here\n")

    def find(self, source: Any) -> tuple[bool, Any]:
        """Return whether an object was saved at a path, and the object."""
        if isinstance(source, (str, os.PathLike)):
            name = os.path.abspath(os.fsdecode(source))
            if name in self._objects:
                return True, self._objects[name]
        return False, None


def install(line: Any) -> Saved:
    """Replace ``torch.save``, ``torch.load`` and the writer of safetensors."""
    saved, load = Saved(line), torch.load

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        saved.keep(obj, f)

    def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
        found, thing = saved.find(f)
        return thing if found else load(f, *args, **kwargs)

    torch.save, torch.load = save, loaded
    torch.serialization.save, torch.serialization.load = save, loaded
    try:
        import safetensors.torch as safe
    except ImportError:
        return saved
    safe.save_file = lambda tensors, filename, metadata=None: saved.keep(tensors, filename)
    return saved
