"""Calls a function once a module has been imported, so that nothing is imported that the script does not need."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Watch(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.calls: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the usual specification, with the calls after it."""
        if fullname not in self.calls:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        run: Any = loader.exec_module

        def executed(module: ModuleType) -> None:
            # Only now: who merely asks whether there is such a module finds it too.
            calls = self.calls.pop(fullname, [])
            run(module)
            for call in calls:
                call(module)

        loader.exec_module = executed  # type: ignore[method-assign]
        return spec


_watch = _Watch()


def imported(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module once it has been imported; at once where it already is."""
    if name in sys.modules:
        call(sys.modules[name])
        return
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)
    _watch.calls.setdefault(name, []).append(call)
