"""Runs something when a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Awaited = tuple[Callable[[ModuleType], None], Callable[[], None], Callable[[BaseException], None]]
"""What to do after a module's import, before it, and when it fails."""


def _nothing(*given: object) -> None:
    pass


class _After(Loader):
    """A loader that does what the module's own does, and then what was asked for."""

    def __init__(self, own: Loader, awaited: Callable[[], Awaited | None]) -> None:
        self._own = own
        self._awaited = awaited

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        awaited = self._awaited()
        if awaited is None:
            self._own.exec_module(module)
            return
        then, begins, fails = awaited
        begins()
        try:
            self._own.exec_module(module)
        except BaseException as error:
            fails(error)
            raise
        then(module)


class Imports(MetaPathFinder):
    """Waits on the path of finders for modules by name; leaves it when none is awaited any more."""

    def __init__(self) -> None:
        self._awaited: dict[str, Awaited] = {}
        self._looking: set[str] = set()

    def when(
        self,
        name: str,
        then: Callable[[ModuleType], None],
        begins: Callable[[], None] = _nothing,
        fails: Callable[[BaseException], None] = _nothing,
    ) -> None:
        """Call ``then`` with the module ``name`` now if it is there, else right after its import.

        Args:
            name: The module.
            then: Called with it.
            begins: Called before the import.
            fails: Called with the exception where the import fails.
        """
        there = sys.modules.get(name)
        if there is not None and not getattr(there.__spec__, "_initializing", False):
            then(there)
            return
        self._awaited[name] = then, begins, fails
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Wait for nothing any more."""
        self._awaited.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find an awaited module as it would be found, and put the call after its execution."""
        if fullname not in self._awaited or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            for finder in list(sys.meta_path):
                if finder is self:
                    continue
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(fullname, path, target) if find else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            self._looking.discard(fullname)
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            # Who only asks whether the module could be found does not import it: it is awaited until it is executed.
            spec.loader = _After(spec.loader, lambda: self._take(fullname))
        return spec

    def _take(self, name: str) -> Awaited | None:
        """What to do with a module that is imported now; it is not awaited any more."""
        awaited = self._awaited.pop(name, None)
        if not self._awaited and self in sys.meta_path:
            sys.meta_path.remove(self)
        return awaited
