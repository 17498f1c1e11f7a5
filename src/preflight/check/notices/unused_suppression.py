"""A suppression comment hides nothing.

## What it does
Reports `# preflight: ignore[...]`, `ignore-file[...]` and `off[...]` comments whose rules found nothing there.
Rules that could not be evaluated in this run are not counted.

## Why
The problem is gone, or the comment is on another line than the finding.
Left in place, the comment will hide the next problem of that kind on the same line.

## Fix
Remove the comment, or the rule from its brackets.

## When to ignore
When the script is also checked with other options (another GPU, another command line) under which the rule speaks.

## References
- The guide on suppression comments in this documentation
"""

from __future__ import annotations

from collections.abc import Sequence

from preflight.check.rule import Rule
from preflight.vocabulary.finding import Edit, Evidence, Finding, Fix, Location

RULE = Rule(
    name="unused-suppression",
    code="SUP001",
    severity="info",
    confidence="certain",
    layer="S",
    persona="pedantic",
    tags=("suppression",),
)

BAD = ("lr = 0.1  # preflight: ignore[gradients-never-zeroed]\n",)
GOOD = ("lr = 0.1  # a comment about ignore[gradients-never-zeroed]\n",)


def finding_for(where: Location, rules: Sequence[str], edit: Edit | None) -> Finding:
    """Report a comment, or the part of it that hides nothing."""
    named = ", ".join(rules) if rules else "any rule"
    return Finding(
        rule=RULE.name,
        code=RULE.code,
        severity=RULE.severity,
        confidence=RULE.confidence,
        message=f"this comment suppresses {named}, and nothing of that kind is found here",
        location=where,
        evidence=(Evidence("findings that it hides", 0),),
        fix=Fix(
            title="remove the suppression",
            safe=True,
            edits=(edit,) if edit is not None else (),
            instruction="remove the comment, or the rules that it no longer needs",
            expected="the next finding of that kind is shown",
        ),
    )
