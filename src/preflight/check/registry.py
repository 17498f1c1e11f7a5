"""The rules that are there: found by their files, loaded once."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

from preflight.check.rule import LoadedRule, RuleFile, RunRule
from preflight.listing import modules_beside


@lru_cache(maxsize=1)
def load_rules() -> tuple[LoadedRule, ...]:
    """The shipped rules that read a script, ordered by code."""
    loaded = [LoadedRule(m.RULE, m.check, family, m.__name__) for family, m in _modules("rules")]
    return tuple(sorted(loaded, key=lambda r: r.rule.code))


@lru_cache(maxsize=1)
def load_run_rules() -> tuple[RunRule, ...]:
    """The shipped rules that ask what a dry run saw, ordered by code."""
    loaded = [
        RunRule(
            m.RULE,
            m.observe,
            family,
            m.__name__,
            getattr(m, "SETTLES", False),
            getattr(m, "ALONE", True),
            getattr(m, "disproves", None),
        )
        for family, m in _modules("run_rules")
    ]
    return tuple(sorted(loaded, key=lambda r: r.rule.code))


def shipped_rules() -> tuple[RuleFile, ...]:
    """Every rule once, ordered by code; one that is both read and observed is that of reading, which has the page."""
    read = load_rules()
    known = {loaded.rule.code for loaded in read}
    more = [loaded for loaded in load_run_rules() if loaded.rule.code not in known]
    every: list[RuleFile] = [*read, *more]
    return tuple(sorted(every, key=lambda r: r.rule.code))


def _modules(room: str) -> Iterator[tuple[str, ModuleType]]:
    """The rule files of a folder beside this file, with the family of each."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), room)
    for family in sorted(os.listdir(root)):
        folder = os.path.join(root, family)
        if family.startswith("_") or not os.path.isdir(folder):
            continue
        for name in modules_beside(__file__, os.path.join(room, family)):
            yield family, _imported(f"preflight.check.{room}.{family}.{name}", os.path.join(folder, f"{name}.py"))


def _imported(name: str, path: str) -> ModuleType:
    """Import a rule from its file.

    ``import`` would search for it first, which for files as small as these is a third of the work, and there are many.
    """
    if name in sys.modules:
        return sys.modules[name]
    loader = SourceFileLoader(name, path)
    module = ModuleType(name)
    module.__file__, module.__loader__, module.__spec__ = path, loader, ModuleSpec(name, loader, origin=path)
    code = _cached(path) or loader.get_code(name)
    assert code is not None
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _cached(path: str) -> CodeType | None:
    """The bytecode that Python keeps of a file, if it is of the file's time and size; None leaves it to the loader.

    This is what the loader does too, in a fifth of its time. Source: PEP 3147 and PEP 552, the layout of a pyc file.
    """
    folder, name = os.path.split(path)
    try:
        with open(f"{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc", "rb") as file:
            held = file.read()
        if sys.flags.optimize or held[:4] != MAGIC_NUMBER or held[4:8] != b"\0\0\0\0":
            return None
        stat = os.stat(path)
        written = (int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
        if written != (int.from_bytes(held[8:12], "little"), int.from_bytes(held[12:16], "little")):
            return None
        code = marshal.loads(memoryview(held)[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None
