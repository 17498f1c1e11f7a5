"""What is told beside the rules: of a file that does not parse, of suppressions, of a plan, of a job script.

Each notice is one file with the same parts as a rule (page, declaration, examples); what it finds is not found in a
reading, so instead of a check it has a function of its own that makes the finding.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from preflight.check.registry import shipped_rules
from preflight.check.rule import LoadedRule, Rule, RuleFile
from preflight.listing import modules_beside
from preflight.vocabulary.rule_info import RuleInfo

FAMILY = "preflight"


@lru_cache(maxsize=1)
def load_notices() -> tuple[LoadedRule, ...]:
    """All notices, ordered by code: the modules that lie beside this one."""
    found: list[LoadedRule] = []
    for name in modules_beside(__file__):
        module = f"{__name__}.{name}"
        rule: Rule = import_module(module).RULE
        found.append(LoadedRule(rule, lambda context: iter(()), FAMILY, module))
    return tuple(sorted(found, key=lambda loaded: loaded.rule.code))


@lru_cache(maxsize=1)
def all_rules() -> tuple[RuleFile, ...]:
    """Rules and notices, ordered by code: everything that a finding can be called."""
    every: list[RuleFile] = [*shipped_rules(), *load_notices()]
    return tuple(sorted(every, key=lambda loaded: loaded.rule.code))


def rule_infos() -> tuple[RuleInfo, ...]:
    """What all rules and notices say of themselves, for reports that carry it."""
    return tuple(rule_info(loaded) for loaded in all_rules())


def rule_info(loaded: RuleFile) -> RuleInfo:
    """What one rule says of itself."""
    rule = loaded.rule
    tags = (loaded.family, *(tag for tag in rule.tags if tag != loaded.family))
    return RuleInfo(
        name=rule.name, code=rule.code, title=loaded.title, severity=rule.severity, confidence=rule.confidence,
        page=loaded.page, tags=tags, persona=rule.persona,
    )  # fmt: skip
