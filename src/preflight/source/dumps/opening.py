"""Which format a file is, and what it holds; a file that breaks its reader is named, and the rest is read."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from preflight.listing import modules_beside
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile

HEAD = 8192


@cache
def formats() -> tuple[ModuleType, ...]:
    """Return the modules of this folder that read a format: those that have ``KIND``."""
    modules = (import_module(f"preflight.source.dumps.{name}") for name in modules_beside(__file__))
    return tuple(module for module in modules if hasattr(module, "KIND"))


def format_of(name: str, head: bytes) -> ModuleType | None:
    """Return the format of a file by its name and its first 8,192 bytes; None: none of these, so a log."""
    for module in formats():
        if module.looks_like(name, head[:HEAD]):
            return module
    return None


def read_dump(module: ModuleType, content: bytes, file: LogFile) -> Part:
    """Read a file of a known format; what breaks the reader becomes the file's problem."""
    try:
        part = module.read(content, file)
    except Exception as error:  # one damaged file must not end the reading of ten thousand others
        return Part(problem=f"not readable as {module.KIND}: {type(error).__name__}: {error}"[:300])
    return part if isinstance(part, Part) else Part()
