"""The rules that are there: found by their files, loaded once."""

from __future__ import annotations

import marshal
import os
import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

from preflight.check.rule import LoadedRule
from preflight.errors import UsageError, nearest


@lru_cache(maxsize=1)
def load_rules() -> tuple[LoadedRule, ...]:
    """All shipped rules, ordered by code."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules")
    found: list[LoadedRule] = []
    for family in sorted(os.listdir(root)):
        folder = os.path.join(root, family)
        if family.startswith("_") or not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".py") or name.startswith("_"):
                continue
            module = f"preflight.check.rules.{family}.{name[:-3]}"
            loaded = _imported(module, os.path.join(folder, name))
            found.append(LoadedRule(loaded.RULE, loaded.check, family, module))
    return tuple(sorted(found, key=lambda r: r.rule.code))


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


def find_rule(identifier: str) -> LoadedRule:
    """The rule of a name or code, in any case.

    Raises:
        UsageError: No rule has it; the hint names the nearest.
    """
    wanted = identifier.strip().lower().replace("_", "-")
    rules = load_rules()
    for rule in rules:
        if wanted in (rule.rule.name, rule.rule.code.lower()):
            return rule
    near = nearest(wanted, [r.rule.name for r in rules] + [r.rule.code.lower() for r in rules])
    hint = f"did you mean {near}? " if near else ""
    raise UsageError(f"no rule is called {identifier!r}", f"{hint}preflight list rules shows all")
