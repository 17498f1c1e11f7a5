"""Run the rules over one script: what is missing is counted, what is found is told once."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.check.context import Context
from preflight.check.rule import LoadedRule
from preflight.vocabulary.finding import CONFIDENCE_ORDER, Finding, sort_key
from preflight.vocabulary.report import NotEvaluated


def evaluate_rules(context: Context, rules: Iterable[LoadedRule]) -> tuple[list[Finding], list[NotEvaluated]]:
    """Run rules.

    Returns:
        The findings, each once, in a fixed order; and the rules whose needs were not met, with the reason.
    """
    found: dict[tuple[str, str | None, int | None, int | None], Finding] = {}
    missing: list[NotEvaluated] = []
    for loaded in rules:
        rule = loaded.rule
        reason = None
        for need in rule.needs:
            reason = context.missing(need)
            if reason is not None:
                break
        if reason is not None:
            missing.append(NotEvaluated(rule.name, rule.code, reason))
            continue
        for finding in loaded.check(context):
            at = finding.location
            key = (finding.code, at.path, at.line, at.column)
            before = found.get(key)
            if before is None or CONFIDENCE_ORDER[finding.confidence] < CONFIDENCE_ORDER[before.confidence]:
                found[key] = finding
    return sorted(found.values(), key=sort_key), missing
