"""Networks that the catalog draws: where a library is missing, the drawings are run in its place.

The catalog itself is not imported here: the process is handed the folder of the drawings.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

FOLDER: list[str] = []
"""The folder of the drawings, with one folder for each library; nothing where the process was not handed it."""


def install(folder: str | None) -> None:
    """Say where the drawings are."""
    FOLDER[:] = [folder] if folder else []


def folders(library: str) -> list[str]:
    """Return the folder of a library's drawings, as a part of a package's path."""
    return [os.path.join(folder, library) for folder in FOLDER]


def extend(package: ModuleType, library: str, given: Callable[[], Any]) -> dict[str, Callable[..., Any]]:
    """Put the drawings of a library into a package that stands in for it; return what makes its networks, by name.

    Args:
        package: The package; what it holds itself goes before a drawing of the same name.
        library: The library.
        given: Makes what stands in for an enumeration of weights.
    """
    found: dict[str, Callable[..., Any]] = {}
    for folder in folders(library):
        package.__path__.append(folder)
        for stem in sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name != "ops.py"):
            module = importlib.import_module(f"{package.__name__}.{stem}")
            if os.path.dirname(module.__file__ or "") == folder:
                made = _makers(module, given)
                found.update(made)
                # At once: the next drawing may ask the package for it.
                vars(package).update(made | _classes(module))
    return found


def module_of(library: str, stem: str) -> ModuleType | None:
    """Return a file of drawings that is no part of a package's path."""
    for folder in folders(library):
        spec = importlib.util.spec_from_file_location(f"{library}.{stem}._drawn", os.path.join(folder, f"{stem}.py"))
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def _makers(module: ModuleType, given: Callable[[], Any]) -> dict[str, Callable[..., Any]]:
    """Let the functions of a module that make networks take what the library's take; return them."""
    found = {}
    for name, make in list(vars(module).items()):
        drawn = inspect.isfunction(make) and make.__module__ == module.__name__ and name[:1] != "_"
        if drawn and "weights" in inspect.signature(make).parameters:
            found[name] = builder(name, make)
    vars(module).update(found, __getattr__=_weights(module.__name__, given))
    return found


def _classes(module: ModuleType) -> dict[str, type]:
    return {n: v for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__}


def _weights(module: str, given: Callable[[], Any]) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name.endswith("_Weights"):
            return given()
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def builder(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes weights in any of the library's ways, and leaves them as they are made."""

    def build(pretrained: Any = False, progress: bool = True, *, weights: Any = None, **kwargs: Any) -> Any:
        kwargs.pop("weights_backbone", None)
        kwargs.pop("pretrained_backbone", None)
        asked = bool(pretrained) or weights is not None
        if asked:
            from preflight.dryrun.virtual.absent.missing import assume

            assume(f"pretrained weights of {sys.modules[make.__module__].__name__.partition('.')[0]} were not read")
        try:
            return make(weights=True if asked else None, **kwargs)
        except TypeError as error:
            _want_library(error, make, kwargs)
            raise

    build.__name__ = build.__qualname__ = name
    build.__module__ = make.__module__
    return build


def _want_library(error: TypeError, make: Callable[..., Any], given: dict[str, Any]) -> None:
    """Ask for the library itself where a drawing lacks an option that a network was asked to be made with.

    Raises:
        ModuleNotFoundError: It is so.
    """
    option = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if option is None or option[1] not in given:
        return
    from preflight.dryrun.virtual.absent.wanting import needed

    needed(f"{make.__module__}.{make.__name__}", "", f"to be made with {option[1]}=")
