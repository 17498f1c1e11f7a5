"""The rules that are there: found by their files, loaded once."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from preflight.check.rule import LoadedRule
from preflight.errors import UsageError, nearest


@lru_cache(maxsize=1)
def load_rules() -> tuple[LoadedRule, ...]:
    """All shipped rules, ordered by code."""
    root = Path(__file__).parent / "rules"
    found: list[LoadedRule] = []
    for family in sorted(os.listdir(root)):
        folder = root / family
        if family.startswith("_") or not folder.is_dir():
            continue
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".py") or name.startswith("_"):
                continue
            module = f"preflight.check.rules.{family}.{name[:-3]}"
            loaded = import_module(module)
            found.append(LoadedRule(loaded.RULE, loaded.check, family, module))
    return tuple(sorted(found, key=lambda r: r.rule.code))


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
